"""Turn a register's record of a person, PIN or company into a finding.

An adapter reads a `Person`, a `Taxpayer` or a `Company` out of the answer. The
functions here compare it with the subject and make the finding: fields, flags and
score. A record of None means that the register has no such number.

One table has the scores of all checks. `docs/client/checks.md` has the same scores; a
test compares both. An incomplete result has no score, because a reader could take it
for a clean one.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from verification.providers.base import (
    AnswerPending,
    Cause,
    Finding,
    Flag,
    Inquiry,
    Severity,
    Subject,
    Unavailable,
)
from verification.providers.http_api import Record
from verification.providers.name_comparison import (
    ACCEPTED_LIKENESSES,
    Comparison,
    Likeness,
    compare_companies,
    compare_people,
    words_of,
)
from verification.values.clock import now

logger = logging.getLogger(__name__)

CLEAR = 5
# Flag -> score. The highest score of a finding decides.
SCORES = {
    "ID_NOT_FOUND": 80,
    "PIN_NOT_FOUND": 80,
    "COMPANY_NOT_FOUND": 80,
    "NO_CREDIT_RECORD": 40,
    "NAME_MISMATCH": 55,
    "DOB_MISMATCH": 50,
    "DECEASED": 100,
    "PIN_INACTIVE": 75,
    "COMPANY_DISSOLVED": 90,
    "LOW_CREDIT_SCORE": 70,
    "NON_PERFORMING_ACCOUNT": 85,
    "ADVERSE_LISTING": 85,
    "PAST_DELINQUENCY": 35,
    "BOUNCED_CHEQUES": 50,
    "FRAUD_ALERT": 95,
    "SANCTIONS_HIT": 95,
    "WATCHLIST_HIT": 75,
    "PEP_HIT": 50,
    "NAME_NOT_COMPARED": 0,
}
MEDIUM, HIGH = 30, 70
# The longest time that a source may take for one run of a check.
MAX_WAIT = timedelta(minutes=15)
NOT_COMPARED = "A record was found; not all of it could be compared."
OTHER_NAME = "The register has another name for this number."
NO_NAME = "The source gives no name that could be compared."
OWNER_NAME = "The PIN is a person's, perhaps the owner's: no name was compared."
# Of companies with a PIN of their own; a sole proprietor uses the owner's.
LIMITED = frozenset({"limited", "ltd", "plc", "llp"})
# The number of Kenya's Commissioner for Co-operative Development
COOPERATIVE = re.compile(r"CS\W*(NO\W*)?\d", re.IGNORECASE)
NO_STATE = "The company is registered; whether it is active is not known."
OTHER_REGISTER = "Co-operatives are not in the business register."
NO_LETTERS = "The business register's numbers begin with letters, as PVT-AB12CDE."
# Texts and dates that registers write in place of a date of death or birth.
NIL = {"", "n/a", "na", "none", "null", "nil", "not available"}
LAST_NIL_DAY, EPOCH = "1901-01-01", "1970-01-01"
GENDERS = {"f": "FEMALE", "female": "FEMALE", "m": "MALE", "male": "MALE"}
ACTIVE, DISSOLVED = "ACTIVE", "DISSOLVED"
# Business registers' words for a company that exists, for one that has ended, and for
# one that rests, ends, is part of another, or is under somebody else's control.
COMPANY_STATUSES = {
    **dict.fromkeys(("ACTIVE", "OPEN", "REGISTERED"), ACTIVE),
    **dict.fromkeys(("DISSOLVED", "STRUCK_OFF", "DEREGISTERED", "CEASED"), DISSOLVED),
    **dict.fromkeys(("CLOSED", "CONVERTED_CLOSED", "REMOVED", "WOUND_UP"), DISSOLVED),
    **dict.fromkeys(("CANCELLED", "CANCELED", "DELETED"), DISSOLVED),
    **dict.fromkeys(("REVOKED", "TERMINATED"), DISSOLVED),
}
NOT_ACTIVE = {
    "ADMINISTRATION",
    "BANKRUPT",
    "DEACTIVATED",
    "INACTIVE",
    "INSOLVENCY_PROCEEDINGS",
    "INSOLVENT",
    "IN_ADMINISTRATION",
    "IN_LIQUIDATION",
    "IN_RECEIVERSHIP",
    "LIQUIDATION",
    "MERGED",
    "NOT_ACTIVE",
    "PROPOSAL_TO_STRIKE_OFF",
    "RECEIVERSHIP",
    "SUSPENDED",
    "UNDER_ADMINISTRATION",
    "UNDER_LIQUIDATION",
    "UNDER_RECEIVERSHIP",
    "VOLUNTARY_ARRANGEMENT",
    "WINDING_UP",
}
# KRA's words, and others that providers may use for them.
PIN_STATUSES = {
    **{each: each for each in (ACTIVE, "SUSPENDED", "STOPPED", "DORMANT")},
    **dict.fromkeys(("INACTIVE", "NOT_ACTIVE", "DEACTIVATED", "EXPIRED"), "INACTIVE"),
    **dict.fromkeys(("BLACKLISTED", "BLOCKED"), "SUSPENDED"),
    **dict.fromkeys(("CANCELLED", "CANCELED", "CLOSED", "DEREGISTERED"), "CANCELLED"),
    **dict.fromkeys(("REVOKED", "TERMINATED"), "CANCELLED"),
}


@dataclass(frozen=True, slots=True)
class Person:
    """A record in the terms of this service. An empty field of the register is None."""

    name: str | None = None
    born_on: str | None = None
    # The register's word.
    gender: str | None = None
    serial_number: str | None = None
    citizenship: str | None = None
    place_of_birth: str | None = None
    # A date of death that cannot be read leaves this None.
    is_dead: bool | None = False


@dataclass(frozen=True, slots=True)
class Taxpayer:
    """The record of a PIN in our words."""

    pin: str | None
    name: str | None
    kind: str | None
    status: str | None = None
    address: str | None = None
    obligations: list[str] | None = None


@dataclass(frozen=True, slots=True)
class Company:
    """A record in the terms of this service. An empty field of the register is None."""

    name: str | None = None
    kind: str | None = None
    # ACTIVE, DISSOLVED, or the register's own word.
    status: str | None = None
    incorporated_on: str | None = None
    address: str | None = None
    directors: list[dict[str, Any]] | None = None
    shareholders: list[dict[str, Any]] | None = None
    # The register's reason why an active company is not clear.
    doubt: str = ""
    # Names that it had before, or trades under.
    other_names: Sequence[str] = ()


def identity_finding(
    subject: Subject, person: Person | None, source: str, **evidence: Any
) -> Finding:
    record = person or Person()
    stated, same_birth = subject.get("dateOfBirth"), None
    # Nobody alive was born before the nil dates.
    born = record.born_on if (record.born_on or "") > LAST_NIL_DAY else None
    if born and stated:
        same_birth = _same_birth(stated, born)
    match = name_match(subject, record.name)
    flags = name_flags(subject, match)
    if person is None:
        flags = {"ID_NOT_FOUND": "The register has no such ID number."}
    if same_birth == "NO_MATCH":
        flags["DOB_MISMATCH"] = "The register has another date of birth."
    if record.is_dead:
        flags["DECEASED"] = "The register records the person as deceased."
    known = is_compared(subject, match) and (not stated or same_birth is not None)
    known = person is None or (known and record.is_dead is not None)
    clear = "The ID number is registered and the details match."
    return build_finding(
        source,
        summary=worst_message(flags, clear if known else NOT_COMPARED),
        flags=flags,
        details={
            "idNumber": subject.get("idNumber"),
            "serialNumber": record.serial_number,
            "fullName": record.name,
            "dateOfBirth": born,
            "gender": GENDERS.get((record.gender or "").casefold()),
            "citizenship": record.citizenship,
            "placeOfBirth": record.place_of_birth,
            "lifeStatus": "DECEASED" if record.is_dead else None,
            "nameMatch": likeness_of(match),
            "dateOfBirthMatch": same_birth,
        },
        known=known,
        match=match,
        **evidence,
    )


def _same_birth(stated: str, told: str) -> Likeness | None:
    """Compare dates of birth; return None if they may be one date in another form.

    Registers write 1 January for people who know their year alone, and EPOCH in place
    of no date. Day and month are easily swapped.
    """
    if stated == told:
        return "MATCH"
    ours, theirs = stated.split("-"), told.split("-")
    is_unsure = ["01", "01"] in (ours[1:], theirs[1:]) or ours[:0:-1] == theirs[1:]
    is_unsure = is_unsure and ours[0] == theirs[0]
    return None if is_unsure or told == EPOCH else "NO_MATCH"


def is_death(record: Record, *keys: str, born_on: str | None) -> bool | None:
    """Return whether one of the members is a date of death, or None if it is unclear.

    For living people registers write "N/A" or a nil date, as 0001-01-01, 1900-01-01 or
    9999-12-31. EPOCH may be one.
    """
    text = (record.text(*keys) or "").strip().casefold()
    if text in NIL or not re.search("[1-9a-z]", text):
        return False
    day = record.day(*keys)
    if day and not LAST_NIL_DAY < day < "9999":
        return False
    if day in {None, EPOCH} or not (born_on or "") < str(day) <= f"{now():%Y-%m-%d}":
        logger.warning("a register returned a date of death that is none")
        return None
    return True


def pin_finding(
    subject: Subject, record: Taxpayer, source: str, *, is_found: bool, **evidence: Any
) -> Finding:
    """Make the finding of KRA_PIN. A PIN without a status has no clear score."""
    match = name_match(subject, record.name)
    is_owner = likeness_of(match) == "NO_MATCH" and _is_owner(subject, record)
    match = None if is_owner else match
    flags = {"PIN_NOT_FOUND": "The revenue authority knows no such PIN or ID."}
    if is_found:
        other_name = "The revenue authority has another name for this PIN."
        flags = name_flags(subject, match, other_name)
    if is_owner:
        flags["NAME_NOT_COMPARED"] = OWNER_NAME
    if is_found and record.status not in {None, ACTIVE}:
        flags["PIN_INACTIVE"] = f"The PIN is {str(record.status).lower()}."
    known = not is_found or (record.status is not None and is_compared(subject, match))
    clear = "The PIN is active." if known else NOT_COMPARED
    summary = worst_message(flags, clear)
    if not record.status and not any(SCORES[code] for code in flags):
        summary = "The PIN is registered; whether it is active is not known."
    return build_finding(
        source,
        summary=summary,
        flags=flags,
        details={
            "kraPin": record.pin,
            "taxpayerName": record.name,
            "taxpayerType": record.kind,
            "pinStatus": record.status,
            "taxStation": None,
            "registeredAddress": record.address,
            "obligations": record.obligations,
            "nameMatch": likeness_of(match),
        },
        known=known,
        match=match,
        **evidence,
    )


def pin_status(source: str, word: str | None) -> str | None:
    """Return the status for a register's word; log one that is unknown."""
    if word and word not in PIN_STATUSES:
        logger.warning("%s returned an unknown status of a PIN: %s", source, word[:40])
    return PIN_STATUSES.get(word or "")


def taxpayer_kind(pin: str | None) -> str | None:
    """Return the kind of taxpayer, which the first letter of a Kenyan PIN tells."""
    return {"A": "INDIVIDUAL", "P": "COMPANY"}.get((pin or "")[:1].upper())


def _is_owner(subject: Subject, record: Taxpayer) -> bool:
    """Return whether the taxpayer may be the owner of a business without a PIN."""
    is_limited = LIMITED & {*words_of(stated_name(subject) or "")}
    return is_company(subject) and record.kind == "INDIVIDUAL" and not is_limited


def company_finding(
    subject: Subject,
    company: Company | None,
    source: str,
    *,
    by_name: bool = False,
    **evidence: Any,
) -> Finding:
    """Make the finding of BUSINESS_VERIFICATION.

    `by_name` means that the record has the stated name and another number.
    """
    record = company or Company()
    # The state of what may be another company says nothing of this one.
    status = None if by_name else record.status
    names = [f"{record.name or ''} known as {other}" for other in record.other_names]
    matches = [name_match(subject, name) for name in (record.name, *names)]
    alike = (one for one in matches if likeness_of(one) in ACCEPTED_LIKENESSES)
    match = next(alike, matches[0])
    flags = name_flags(subject, match)
    if company is None and (reason := _unlisted_reason(subject)):
        return undecided_company_finding(subject, reason, source, **evidence)
    if company is None:
        flags = {"COMPANY_NOT_FOUND": "The business register has no such number."}
    elif status == DISSOLVED:
        message = "The business register records the company as dissolved."
        flags["COMPANY_DISSOLVED"] = message
    elif status in NOT_ACTIVE:
        state = str(status).lower().replace("_", " ")
        flags["COMPANY_DISSOLVED"] = f"The business register says: “{state}”."
    is_told = status in {ACTIVE, DISSOLVED, *NOT_ACTIVE}
    known = is_compared(subject, match) and is_told and not record.doubt
    clear = "The company is registered and active." if known else NOT_COMPARED
    clear = record.doubt or (clear if is_told else NO_STATE)
    if by_name:
        clear = "A company of this name was found, but not under this number."
    return build_finding(
        source,
        summary=worst_message(flags, clear),
        flags=flags,
        details=_company_details(subject, record, likeness_of(match)),
        known=company is None or known,
        match=match,
        **evidence,
    )


def _unlisted_reason(subject: Subject) -> str:
    """Return why Kenya's register may lack the number of a company, or ""."""
    number = str(subject.get("registrationNumber") or "")
    if subject.get("country") != "KE":
        return ""
    if COOPERATIVE.match(number):
        return OTHER_REGISTER
    return "" if re.search("[A-Za-z]", number) else NO_LETTERS


def undecided_company_finding(
    subject: Subject, summary: str, source: str, **evidence: Any
) -> Finding:
    """Make a finding without score and details: the company may exist or not."""
    return build_finding(
        source,
        summary=summary,
        flags={},
        details=_company_details(subject, Company(), None),
        known=False,
        **evidence,
    )


def _company_details(
    subject: Subject, company: Company, match: Likeness | None
) -> dict[str, Any]:
    return {
        "registrationNumber": subject.get("registrationNumber"),
        "registeredName": company.name,
        "companyType": company.kind,
        "companyStatus": company.status,
        "incorporatedOn": company.incorporated_on,
        "registeredAddress": company.address,
        "directors": company.directors,
        "shareholders": company.shareholders,
        "nameMatch": match,
    }


def company_status(source: str, word: str | None) -> str | None:
    """Return the status for a business register's word; log a word that is unknown.

    It proves nothing: the register may have other words for companies that exist.
    """
    if word and word not in COMPANY_STATUSES.keys() | NOT_ACTIVE:
        shown = word[:40]
        logger.warning("%s returned an unknown status of a company: %s", source, shown)
    return COMPANY_STATUSES.get(word or "", word)


def director(
    name: str | None,
    role: str | None,
    nationality: str | None,
    appointed_on: str | None = None,
) -> dict[str, Any]:
    return {
        "fullName": name,
        "role": role,
        "nationality": nationality,
        "appointedOn": appointed_on,
    }


def build_finding(
    source: str,
    *,
    summary: str,
    flags: Mapping[str, str],
    details: dict[str, Any],
    known: bool = True,
    credit_score: int | None = None,
    match: Comparison | None = None,
    **evidence: Any,
) -> Finding:
    """Make a finding.

    `flags` are code -> message. `known` is False if the answer is incomplete. `match`
    is the comparison of the names.
    """
    scores = [SCORES[code] for code in flags]
    # An incomplete finding has a score only if a flag is risky by itself.
    is_scored = known or max(scores, default=0) >= MEDIUM
    scores.append(CLEAR)
    if credit_score is not None:
        scores.append(round(100 * (900 - credit_score) / 700))
    return Finding(
        summary=summary,
        score=max(scores) if is_scored else None,
        is_whole=known,
        details=details,
        provider=source,
        flags=[Flag(code, severity(code), text) for code, text in flags.items()],
        name_comparison=match.as_evidence() if match else None,
        **evidence,
    )


def worst_message(flags: Mapping[str, str], clear: str) -> str:
    """Return the message of the flag with the highest score, or `clear`."""
    return flags[max(flags, key=SCORES.__getitem__)] if flags else clear


def severity(code: str) -> Severity:
    score = SCORES[code]
    return "HIGH" if score >= HIGH else "MEDIUM" if score >= MEDIUM else "LOW"


def stated_name(subject: Subject) -> str | None:
    if subject.get("fullName"):
        return str(subject["fullName"])
    parts = [subject.get(key) for key in ("firstName", "middleName", "lastName")]
    return " ".join(part for part in parts if part) or None


def name_match(subject: Subject, given: str | None) -> Comparison | None:
    """Compare the stated name with the source's; return None if that is impossible.

    One of them is missing or in another alphabet, or the source gives one word alone of
    a person's name, or a name that fits only without a word that follows itself.
    """
    stated, given = stated_name(subject), _told_name(subject, given or "")
    compare = compare_companies if is_company(subject) else compare_people
    match = compare(stated, given)
    if not stated or likeness_of(match) != "NO_MATCH":
        return match
    # Sources may repeat a name in place of one that they lack.
    ours, theirs = words_of(stated), [word for word, _ in groupby(words_of(given))]
    alphabets = [
        {sign.isascii() for sign in "".join(words) if sign.isalpha()}
        for words in (ours, theirs)
    ]
    is_part = not is_company(subject) and (
        (len(theirs) == 1 and {*theirs} < {*ours})
        or likeness_of(compare(stated, " ".join(theirs))) != "NO_MATCH"
    )
    is_foreign = all(alphabets) and alphabets[0].isdisjoint(alphabets[1])
    return None if is_part or is_foreign else match


def _told_name(subject: Subject, given: str) -> str:
    """Return a name without the words that stand for missing ones ("JANE null KAMAU").

    The name of a company may have them, and digits alone.
    """
    words = [word for word in given.split() if word.casefold() not in Record.absent]
    if is_company(subject):
        return given if any(map(str.isalnum, "".join(words))) else ""
    return " ".join(word for word in words if re.search(r"[^\W\d_]|\*", word))


def likeness_of(match: Comparison | None) -> Likeness | None:
    return match.likeness if match else None


def name_flags(
    subject: Subject, match: Comparison | None, other_name: str = OTHER_NAME
) -> dict[str, str]:
    """Return the flags for the name of a record: code -> message."""
    if not is_compared(subject, match):
        return {"NAME_NOT_COMPARED": NO_NAME}
    return {"NAME_MISMATCH": other_name} if likeness_of(match) == "NO_MATCH" else {}


def is_compared(subject: Subject, match: Comparison | None) -> bool:
    """Return whether the name was compared, or none was stated."""
    return match is not None or not stated_name(subject)


def is_company(subject: Subject) -> bool:
    return subject.get("subjectType") == "COMPANY"


def pending_error(
    inquiry: Inquiry, now: datetime, seconds: float, late: str
) -> Exception:
    """Return the exception for a source that is still at work.

    That is AnswerPending for `seconds`, or Unavailable with the text `late` if the run
    takes longer than MAX_WAIT.
    """
    if now - inquiry.asked_at > MAX_WAIT:
        return Unavailable("SOURCE_UNAVAILABLE", late, cause=Cause.TIMEOUT)
    return AnswerPending(now + timedelta(seconds=seconds))
