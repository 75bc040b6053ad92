"""The words of people's files: headings, totals below the rows, and no names.

Nothing here needs Django. Words are compared as `fold` writes them: `S/No.` is `sno`.
A heading is also known by the label of its field and by the API's name of it.
"""

import re
import unicodedata
from functools import cache

# The member of a request item -> headings that people give its column
SYNONYMS: dict[str, str] = {
    "fullName": (
        "name, names, full names, applicant, applicant name, name of applicant, "
        "borrower, borrower name, candidate, candidate name, client, client name, "
        "customer, customer name, employee, employee name, staff name, member, "
        "member name, person, jina, majina, jina la mteja, jina la mwombaji, "
        "jina la mkopaji, jina la mwanachama, jina la mfanyakazi, mteja, mwombaji, "
        "mkopaji, mwanachama"
    ),
    "idNumber": (
        "id, id no, id nos, id card, id card no, id card number, id/passport, "
        "id/passport no, id/passport number, identity no, identity number, "
        "identification no, identification number, national id, national id no, "
        "national id number, national identity number, nid, kitambulisho, "
        "kitambulisho cha taifa, namba ya kitambulisho, nambari ya kitambulisho, "
        "no. ya kitambulisho, namba ya utambulisho"
    ),
    "kraPin": (
        "kra, kra pin no, kra pin number, pin, pin no, pin number, tax pin, pini ya kra"
    ),
    "registrationNumber": (
        "reg no, reg number, registration, registration no, company no, "
        "company number, company reg no, company registration no, "
        "company registration number, business registration no, "
        "business registration number, certificate no, namba ya usajili, "
        "nambari ya usajili"
    ),
    "dateOfBirth": (
        "dob, birth date, birthday, born, born on, kuzaliwa, tarehe ya kuzaliwa"
    ),
    "email": "mail, email, email address, email id, barua pepe, anwani ya barua pepe",
    "phone": (
        "phone, phone no, phone nos, mobile, mobile no, mobile number, mobile phone, "
        "tel, tel no, telephone, telephone no, telephone number, cell, cell no, "
        "cell phone, msisdn, mpesa, mpesa no, mpesa number, contact no, "
        "contact number, simu, namba ya simu, nambari ya simu, simu ya mkononi"
    ),
    "reference": (
        "ref, ref no, reference no, reference number, our ref, your ref, loan no, "
        "loan number, loan id, loan ref, application no, application number, "
        "application id, account no, account number, acc no, a/c no, member no, "
        "member number, membership no, staff no, staff number, staff id, employee no, "
        "employee number, employee id, payroll no, payroll number, client no, "
        "client number, client id, customer no, customer number, customer id, case no, "
        "file no, kumbukumbu, namba ya kumbukumbu, namba ya mkopo, nambari ya mkopo, "
        "namba ya akaunti, namba ya mwanachama, namba ya mfanyakazi"
    ),
    "obtainedAt": "consent date, date of consent, consented on, tarehe ya ridhaa",
    "postalAddress": "p.o. box, sanduku la posta, anwani ya posta",
    "postalCode": "postcode, zip, zip code, msimbo wa posta",
    "employerName": (
        "employer, employer name, name of employer, company, company name, mwajiri, "
        "jina la mwajiri, kampuni"
    ),
    "jobTitle": "job, job title, position, designation, occupation, cheo, kazi",
}
# Headings of the name in a file of companies
COMPANY_NAMES = (
    "company, company name, name of company, business, business name, "
    "name of business, supplier, supplier name, vendor, vendor name, kampuni, "
    "jina la kampuni, jina la biashara"
)
# Columns of parts of a name: all of them make the name, from left to right.
NAME_PARTS = (
    "first name, firstname, forename, given name, given names, middle name, last name, "
    "surname, family name, other name, other names, jina la kwanza, jina la kati, "
    "jina la mwisho, jina la ukoo, jina la familia, majina mengine"
)
# Columns that orders do not use
UNUSED = (
    "#, no, nos, s/no, sn, sr no, serial, serial no, serial number, number, item, "
    "index, row, line, count, amount, amount kes, amount ksh, loan amount, amount "
    "requested, principal, loan, total, sum, balance, kes, ksh, currency, product, "
    "rate, interest, term, tenor, tenure, period, branch, region, county, town, city, "
    "department, date, application date, loan date, gender, sex, age, title, "
    "salutation, status, remarks, remark, comment, comments, note, notes, loan "
    "officer, officer, na, namba, nambari, kiasi, kiasi cha mkopo, mkopo, jumla, "
    "salio, tawi, mkoa, kaunti, mji, idara, tarehe, jinsia, umri, maoni, hali, afisa"
)
# Placeholders of missing names
PLACEHOLDERS = (
    "n/a, nil, none, null, unknown, not available, tbd, tba, hakuna, haijulikani"
)
# After these words, a footer has signs, numbers and the name of a currency alone.
FOOTER = re.compile(
    r"((grand|sub|overall)?[\s-]*totals?|jumla( kuu| ndogo)?|sum|count|average|mwisho"
    r"|total (amount|number|count|loans?|rows?|records?|members?)"
    r"|end of (file|list|report)|signature|sahihi)\b(kes|kshs?|\W|\d)*"
    r"|(prepared|approved|checked|reviewed|verified|authori[sz]ed|compiled|signed)"
    r" by\b.*"
    r"|(ime)?(andaliwa|idhinishwa|kaguliwa) na\b.*",
    re.IGNORECASE,
)
MONEY = re.compile(r"(kes|ksh|kshs|sh|tzs|ugx|usd)\.?\s*\d[\s\d.,/=-]*", re.IGNORECASE)
# Signs of a remark, which no person has in a name
REMARK = re.compile(r"[:=%?;<>{}|\\_]")


def fold(text: str) -> str:
    """Return the letters and digits alone, small; `#` if it is all there is."""
    folded = "".join(c for c in text.casefold() if c.isalnum())
    return folded or text.strip()[:1]


@cache
def folded(words: str) -> tuple[str, ...]:
    """Return the folded headings of a list with commas, which the code has written."""
    return tuple(fold(word) for word in words.split(","))


def is_footer(text: str) -> bool:
    """Return whether a line that begins with this text stands below the rows."""
    return FOOTER.fullmatch(_words(text)) is not None


def is_name(text: str, *, of_company: bool) -> bool:
    """Return whether a subject may have this name: no number, total or remark."""
    return (
        any(c.isalpha() for c in text)
        and (of_company or not REMARK.search(text))
        and not is_footer(text)
        and not MONEY.fullmatch(_words(text))
        and fold(text) not in _PLACEHOLDERS
    )


def _words(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())


_PLACEHOLDERS = frozenset(folded(PLACEHOLDERS))
