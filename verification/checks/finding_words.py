"""Words for the summary, flags, details and values of findings, in both languages.

Findings are stored in English. The words follow from their codes; what a source wrote
in its own words is quoted.
"""

import re
from datetime import date
from typing import Any

from django.utils.formats import date_format
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _

from verification.providers.base import Severity
from verification.reports.models import SUBJECT_LABELS
from verification.values.countries import country_name
from verification.values.formats import one_line

ISO_DAY = re.compile(r"\d{4}-\d\d-\d\d")
# Members of a finding's details, of their records, and of a subject
LABELS = {
    **SUBJECT_LABELS,
    "fullName": _("Name"),
    "name": _("Name"),
    "serialNumber": _("Serial number of the card"),
    "gender": _("Gender"),
    "citizenship": _("Citizenship"),
    "nationality": _("Nationality"),
    "placeOfBirth": _("Place of birth"),
    "lifeStatus": _("Alive or deceased"),
    "nameMatch": _("Comparison of the name"),
    "dateOfBirthMatch": _("Comparison of the date of birth"),
    "taxpayerName": _("Name of the taxpayer"),
    "taxpayerType": _("Kind of taxpayer"),
    "pinStatus": _("State of the PIN"),
    "taxStation": _("Tax office"),
    "registeredAddress": _("Registered address"),
    "obligations": _("Tax obligations"),
    "employers": _("Employers"),
    "employerMatch": _("Comparison of the employer"),
    "employed": _("Was employed"),
    "employeeName": _("Name of the employee"),
    "jobTitleMatch": _("Comparison of the job title"),
    "datesMatch": _("Comparison of the dates"),
    "wouldRehire": _("Would employ again"),
    "refereeTitle": _("Position of the referee"),
    "remarks": _("Remarks"),
    "creditScore": _("Credit score"),
    "scoreBand": _("Band of the score"),
    "scoreTrend": _("Earlier scores"),
    "probabilityOfDefault": _("Likelihood of not paying"),
    "delinquencyStatus": _("Late payments"),
    "accounts": _("Accounts"),
    "openAccounts": _("Open accounts"),
    "nonPerformingAccounts": _("Accounts in arrears"),
    "totalBalance": _("Total balance"),
    "totalOverdue": _("Total overdue"),
    "worstDaysInArrears": _("Most days in arrears"),
    "currency": _("Currency"),
    "enquiriesLast12Months": _("Enquiries in the last 12 months"),
    "bouncedChequesLast12Months": _("Bounced cheques in the last 12 months"),
    "guarantees": _("Guarantees"),
    "fraudAlert": _("Fraud alert"),
    "addresses": _("Addresses"),
    "bureau": _("Credit bureau"),
    "listingStatus": _("State of the listing"),
    "listings": _("Listings"),
    "clearanceCertificate": _("Clearance certificate"),
    "screenedName": _("Name that was searched"),
    "lists": _("Lists"),
    "algorithm": _("Method of the search"),
    "threshold": _("Lowest similarity that counts"),
    "hitCount": _("Number of similar entries"),
    "hits": _("Similar entries"),
    "lender": _("Lender"),
    "product": _("Kind of loan"),
    "accountNumber": _("Account number"),
    "status": _("State"),
    "openedOn": _("Opened on"),
    "originalAmount": _("Amount at first"),
    "balance": _("Balance"),
    "overdue": _("Amount overdue"),
    "daysInArrears": _("Days in arrears"),
    "lastPaidOn": _("Last paid on"),
    "street": _("Street"),
    "town": _("Town"),
    "reportedOn": _("Reported on"),
    "month": _("Month"),
    "entryId": _("Number of the entry"),
    "matchedName": _("Most similar name of the entry"),
    "topics": _("Topics"),
    "score": _("Score"),
    "birthDates": _("Dates of birth"),
    "countries": _("Countries"),
    "registeredName": _("Registered name"),
    "companyType": _("Kind of company"),
    "companyStatus": _("State of the company"),
    "incorporatedOn": _("Incorporated on"),
    "directors": _("Directors"),
    "role": _("Role"),
    "appointedOn": _("Appointed on"),
    "shareholders": _("Shareholders"),
    "shares": _("Shares"),
    "percent": _("Per cent"),
}
# Flag -> its meaning
FLAGS = {
    "ID_NOT_FOUND": _("The register has no such ID number."),
    "PIN_NOT_FOUND": _("The revenue authority has no such PIN or ID number."),
    "NAME_MISMATCH": _("The source has another name for the number."),
    "NAME_NOT_COMPARED": _("The source gives no name that could be compared."),
    "DOB_MISMATCH": _("The source has another date of birth."),
    "DECEASED": _("The source records the holder as deceased."),
    "PIN_INACTIVE": _("The PIN is not active."),
    "EMPLOYMENT_NOT_FOUND": _("The employer has no record of the employment."),
    "EMPLOYER_MISMATCH": _("The referee names another employer."),
    "JOB_TITLE_MISMATCH": _("The referee names another job title."),
    "DATES_MISMATCH": _("The referee names other dates of employment."),
    "WOULD_NOT_REHIRE": _("The employer would not employ the subject again."),
    "REFEREE_IS_SUBJECT": _("The referee's e-mail address is the subject's own."),
    "NO_CREDIT_RECORD": _("The credit bureau has no record of the subject."),
    "LOW_CREDIT_SCORE": _("The credit score is low."),
    "NON_PERFORMING_ACCOUNT": _("An account is far in arrears."),
    "PAST_DELINQUENCY": _("Payments were late in the past."),
    "BOUNCED_CHEQUES": _("Cheques bounced."),
    "FRAUD_ALERT": _("A lender has reported a suspicion of fraud."),
    "ADVERSE_LISTING": _("A lender has listed the subject for not paying."),
    "SANCTIONS_HIT": _("A sanctions list has a name like the subject's."),
    "WATCHLIST_HIT": _("A watch list has a name like the subject's."),
    "PEP_HIT": _("A list of people in public office has a name like the subject's."),
    "COMPANY_NOT_FOUND": _("The business register has no such number."),
    "COMPANY_DISSOLVED": _("The business register does not list it as active."),
}
# Flags that another sentence explains to the subject
FLAGS_TO_SUBJECT = {
    "WOULD_NOT_REHIRE": _("The employer would not employ you again."),
    "REFEREE_IS_SUBJECT": _("The referee's e-mail address is your own."),
    "NO_CREDIT_RECORD": _("The credit bureau has no record of you."),
    "ADVERSE_LISTING": _("A lender has listed you for not paying."),
    "SANCTIONS_HIT": _("A sanctions list has a name like yours."),
    "WATCHLIST_HIT": _("A watch list has a name like yours."),
    "PEP_HIT": _("A list of people in public office has a name like yours."),
}
# Values that are codes
VALUES = {
    "MATCH": _("The same"),
    "PARTIAL_MATCH": _("Alike"),
    "NO_MATCH": _("Different"),
    "INDIVIDUAL": _("Person"),
    "COMPANY": _("Company"),
    "ACTIVE": _("Active"),
    "SUSPENDED": _("Suspended"),
    "DECEASED": _("Deceased"),
    "ALIVE": _("Alive"),
    "FEMALE": _("Female"),
    "MALE": _("Male"),
    "PERFORMING": _("Paid as agreed"),
    "NON_PERFORMING": _("Not paid as agreed"),
    "SETTLED": _("Paid in full"),
    "SETTLED_EARLY": _("Paid in full early"),
    "PAID_UP": _("Paid in full"),
    "WRITTEN_OFF": _("Written off"),
    "CLOSED": _("Closed"),
    "DORMANT": _("Not in use"),
    "LEGAL": _("In court"),
    "COLLECTION": _("With a debt collector"),
    "CANCELLED": _("Cancelled"),
    "NONE": _("None"),
    "CURRENT": _("At present"),
    "HISTORICAL": _("In the past"),
    "LISTED": _("Listed"),
    "NOT_LISTED": _("Not listed"),
    "MOBILE_LOAN": _("Mobile loan"),
    "PERSONAL_LOAN": _("Personal loan"),
    "ASSET_FINANCE": _("Asset finance"),
    "WORKING_CAPITAL": _("Loan for a business"),
    "TRADE_FINANCE": _("Trade finance"),
    "CREDIT_CARD": _("Credit card"),
    "OVERDRAFT": _("Overdraft"),
    "CURRENT_ACCOUNT": _("Current account"),
    "LOAN": _("Loan"),
    "LINE_OF_CREDIT": _("Line of credit"),
    "REVOLVING_CREDIT": _("Revolving credit"),
    "EXPANSION_LOAN": _("Loan to expand a business"),
    "MORTGAGE": _("Mortgage"),
    "OTHER": _("Another kind"),
    "INACTIVE": _("Not active"),
    "STOPPED": _("Stopped"),
    "TERMS_EXTENDED": _("Time to pay extended"),
    "REVOKED": _("Revoked"),
    "NOT_UPDATED": _("Not updated"),
    "INSURED_EVENT": _("Ended by disability, death or insurance"),
    "DEFERRED": _("Deferred"),
    "sanction": _("Sanctions"),
    "role.pep": _("Public office"),
    "role.rca": _("Close to somebody in public office"),
    "role.pol": _("Politics"),
    "sanction.linked": _("Linked to somebody under sanctions"),
    "sanction.counter": _("Counter-sanctions"),
    "debarment": _("Barred from public contracts"),
    "wanted": _("Wanted by the police"),
    "asset.frozen": _("Frozen assets"),
    "crime": _("Crime"),
    "crime.fraud": _("Fraud"),
    "crime.cyber": _("Cybercrime"),
    "crime.fin": _("Financial crime"),
    "crime.env": _("Harm to the environment"),
    "crime.theft": _("Theft"),
    "crime.war": _("War crimes"),
    "crime.boss": _("Leader of a criminal group"),
    "crime.terror": _("Terrorism"),
    "crime.traffick": _("Trafficking"),
    "crime.traffick.drug": _("Drug trafficking"),
    "crime.traffick.human": _("Human trafficking"),
    "forced.labor": _("Forced labour"),
    "reg.action": _("Action by a regulator"),
    "reg.warn": _("Warning by a regulator"),
    "corp.disqual": _("Barred from running a company"),
    "export.control": _("Export controls"),
    "export.control.linked": _("Linked to somebody under export controls"),
    "export.risk": _("Trade risk"),
    "invest.risk": _("Risk to investors"),
    "poi": _("Person of interest"),
    "role.oligarch": _("Oligarch"),
    "role.judge": _("Judge"),
    "role.diplo": _("Diplomat"),
    "role.civil": _("Civil servant"),
    "role.spy": _("Spy"),
    "role.pep.frmr": _("Public office in the past"),
    "role.pep.intl": _("Office in an international organisation"),
    "role.pep.natl": _("National public office"),
    "gov.soe": _("State-owned company"),
    "DISSOLVED": _("Dissolved"),
    "DIRECTOR": _("Director"),
    "COMPANY_SECRETARY": _("Company secretary"),
    "PROPRIETOR": _("Proprietor"),
    "PRIVATE_LIMITED_COMPANY": _("Private limited company"),
    "Kenyan": _("Kenyan"),
    "Kenya": _("Kenya"),
}
# Why a check failed, by its code; sources say more of it, in English.
FAILURES = {
    "SOURCE_UNAVAILABLE": _("The source did not answer."),
    "SOURCE_REFUSED": _("The source refused the request."),
    "SOURCE_ERROR": _("The source's answer was not understood."),
    "SOURCE_CALL_IN_DOUBT": _("It is not known what the source answered."),
    "REFEREE_DECLINED": _("The referee declined to answer."),
    "REFEREE_NO_ANSWER": _("The referee did not answer in time."),
    "ENGINE_GAVE_UP": _("The check was started five times and never ended."),
    "PROVIDER_NOT_CONFIGURED": _("No source answers this check."),
    "SOURCE_NOT_CONSENTED": _("No source that the subject agreed to answers it."),
    "FIXTURE_MISSING": _("The sandbox has no answer for this subject."),
}
BUREAU_CHECKS = ("CRB_SCORE", "CRB_STANDARD", "CRB_FULL", "CREDITBUREAU_SCORE")
# Check -> what its finding says without a flag
CLEAR = {
    "IDENTITY": _("The ID number is registered and the details match."),
    "KRA_PIN": _("The PIN is active."),
    "EMPLOYER_VERIFICATION": _("The referee confirms the employment."),
    "BUSINESS_VERIFICATION": _("The company is registered and active."),
    **dict.fromkeys(
        (*BUREAU_CHECKS, "CREDITBUREAU_COMP"),
        _("The credit bureau holds nothing against the subject."),
    ),
    "CREDITBUREAU_STATUS": _("No lender has listed the subject."),
    "AML_SCREENING": _("The lists have no name like the subject's."),
}
# Sentences to the subject that differ from CLEAR
CLEAR_TO_SUBJECT = {
    **dict.fromkeys(BUREAU_CHECKS, _("The credit bureau holds nothing against you.")),
    "CREDITBUREAU_STATUS": _("No lender has listed you."),
    "AML_SCREENING": _("The lists have no name like yours."),
}
NOT_COMPARED = _("A record was found; not all of it could be compared.")
SEVERITIES: tuple[Severity, ...] = ("LOW", "MEDIUM", "HIGH")
# Members that people wrote, and members with codes of countries
FREE_TEXTS = {"remarks"}
COUNTRIES = {"country", "countries"}
CAPITALS = {"id", "kra", "pin", "crb", "vat"}


def label_of(name: str) -> str:
    """Return the label of a member, such as `Tax office` for `taxStation`."""
    return str(LABELS[name]) if name in LABELS else humanise_name(name)


def text_of(value: Any, name: str = "") -> str:
    """Format a value of the member `name` for people; empty if there is none."""
    match value:
        case None | "":
            return ""
        case str() if name in FREE_TEXTS:
            return f"“{one_line(value)}”"
        case str() if name in COUNTRIES:
            return country_name(value, get_language() or "en")
        case bool():
            return str(_("Yes") if value else _("No"))
        case int() | float():
            return f"{value:,}"
        case dict():
            members = ((label_of(k), text_of(v, k)) for k, v in value.items())
            return ", ".join(f"{label}: {text}" for label, text in members if text)
        case list():
            return "; ".join(text for item in value if (text := text_of(item, name)))
        case str() if value in VALUES:
            return str(VALUES[value])
        case str() if day := _day_of(value):
            return date_format(day, "j M Y")
        case _:
            return one_line(str(value))


def _day_of(text: str) -> date | None:
    """Return the day that the text is in ISO 8601, or None."""
    try:
        return date.fromisoformat(text) if ISO_DAY.fullmatch(text) else None
    except ValueError:
        return None


def summary_text(
    check: str, finding: dict[str, Any], score: int | None, *, to_subject: bool = False
) -> str:
    """Return the stored summary of a finding, or its translation, in one sentence.

    `to_subject` addresses the subject instead of other readers.
    """
    stored = one_line(finding.get("summary") or "")
    if get_language() == "en" or not stored:
        return stored
    if flags := finding.get("flags"):
        worst = max(flags, key=lambda one: SEVERITIES.index(one["severity"]))
        return flag_text(worst, to_subject=to_subject)
    clear = CLEAR | CLEAR_TO_SUBJECT if to_subject else CLEAR
    # Null in the finding of a company that was not found
    name = (finding.get("details") or {}).get("registeredName", "")
    if check not in clear or (score is None and name is None):
        return _quoted(stored)
    return str(NOT_COMPARED if score is None else clear[check])


def flag_text(flag: dict[str, Any], *, to_subject: bool = False) -> str:
    """Return what the flag says: its stored message, or the translation."""
    code = flag.get("code", "")
    message = one_line(flag.get("message") or code)
    if get_language() == "en":
        return message
    words = FLAGS | FLAGS_TO_SUBJECT if to_subject else FLAGS
    return str(words[code]) if code in words else _quoted(message)


def failure_text(code: str, message: str) -> str:
    """Return why a check failed: the stored message, or the translation."""
    known = FAILURES.get(code)
    return str(known) if known and get_language() != "en" else one_line(message)


def flag_name(code: str) -> str:
    """Return a flag as the entry of a list; an unknown code stays."""
    return str(FLAGS.get(code, code)).rstrip(".")


def _quoted(text: str) -> str:
    return str(_("The source says: “%(text)s”")) % {"text": text}


def humanise_name(name: str) -> str:
    """Return the name in words: `Registered address` for `registeredAddress`."""
    parts = re.findall("[A-Za-z][a-z]*|[0-9]+|[^A-Za-z0-9]+", name)
    words = [part.lower() for part in parts if part.strip()]
    text = " ".join(word.upper() if word in CAPITALS else word for word in words)
    return text[:1].upper() + text[1:]
