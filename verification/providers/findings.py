"""Turn a register's record of a person or a company into a finding.

An adapter reads a `Person` or a `Company` out of the answer; the functions here compare
it with the subject and make the finding: fields, flags and score.

One table has the scores of all checks. `docs/checks.md` has the same scores; a test
compares both. An incomplete result has no score, so that nobody reads it as a clean
one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from verification.providers.base import (
    AnswerPending,
    Finding,
    Flag,
    Inquiry,
    Severity,
    Unavailable,
)
from verification.providers.http_api import as_object, clean_text
from verification.providers.name_comparison import (
    Comparison,
    Likeness,
    compare_companies,
    compare_people,
)

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
ID_CLEAR = "The ID number is registered and the details match."
NO_ID = "The register has no such ID number."
OTHER_BIRTH = "The register has another date of birth."
DECEASED = "The register records the person as deceased."
NIL = {"", "n/a", "na", "none", "null", "nil", "not available"}
LAST_NIL_DAY = "1901-01-01"
ACTIVE, DISSOLVED = "ACTIVE", "DISSOLVED"
COMPANY_CLEAR = "The company is registered and active."
FOUND_BY_NAME = "A company of this name was found, and not under this number."


@dataclass(frozen=True, slots=True)
class Person:
    """A record in our words; a field that the register does not fill is None."""

    name: str | None = None
    born_on: str | None = None
    gender: str | None = None
    serial_number: str | None = None
    citizenship: str | None = None
    place_of_birth: str | None = None
    # A date of death that cannot be read leaves this None.
    is_dead: bool | None = False


@dataclass(frozen=True, slots=True)
class Company:
    """A record in our words; a field that the register does not fill is None."""

    name: str | None
    kind: str | None
    # ACTIVE, DISSOLVED, or the register's own word.
    status: str | None
    incorporated_on: str | None
    address: str | None
    directors: list[dict[str, Any]] | None = None
    shareholders: list[dict[str, Any]] | None = None
    # The register's reason why an active company is not clear.
    doubt: str = ""


NOTHING = Company(None, None, None, None, None)


def identity_finding(
    subject: Mapping[str, Any], person: Person | None, source: str, **evidence: Any
) -> Finding:
    """Make the finding of IDENTITY. `person` is None if the register has no record."""
    record = person or Person()
    stated, same_birth = subject.get("dateOfBirth"), None
    if record.born_on and stated:
        same_birth = "MATCH" if record.born_on == stated else "NO_MATCH"
    match = name_match(subject, record.name)
    messages = {
        "ID_NOT_FOUND": NO_ID if person is None else "",
        **(name_flags(subject, match) if person else {}),
        "DOB_MISMATCH": OTHER_BIRTH if same_birth == "NO_MATCH" else "",
        "DECEASED": DECEASED if record.is_dead else "",
    }
    flags = {flag: text for flag, text in messages.items() if text}
    known = is_compared(subject, match) and (not stated or same_birth is not None)
    known = known and record.is_dead is not None
    return build_finding(
        source,
        summary=worst_message(flags, ID_CLEAR if known else NOT_COMPARED),
        flags=flags,
        details={
            "idNumber": subject.get("idNumber"),
            "serialNumber": record.serial_number,
            "fullName": record.name,
            "dateOfBirth": record.born_on,
            "gender": record.gender,
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


def is_death(written: str | None, day: str | None) -> bool | None:
    """Return whether the register gives a date of death; None if that is unclear.

    `written` is the register's text, `day` that text as YYYY-MM-DD. For living people
    registers write "N/A" or a nil date, such as 0001-01-01 or 1900-01-01.
    """
    text = (written or "").strip().casefold()
    if text in NIL or not re.search("[1-9a-z]", text):
        return False
    if day is None:
        logger.warning("a register returned a date of death that is no date")
        return None
    return day > LAST_NIL_DAY


def company_found(
    subject: Mapping[str, Any],
    company: Company,
    source: str,
    *,
    by_name: bool = False,
    **evidence: Any,
) -> Finding:
    """Make the finding of a record.

    `by_name` means that the record has the stated name and another number.
    """
    match = name_match(subject, company.name)
    flags = name_flags(subject, match)
    if message := _inactive_message(company):
        flags["COMPANY_DISSOLVED"] = message
    known = is_compared(subject, match) and company.status is not None
    known = known and not company.doubt
    clear = (
        FOUND_BY_NAME
        if by_name
        else company.doubt or (COMPANY_CLEAR if known else NOT_COMPARED)
    )
    return build_finding(
        source,
        summary=worst_message(flags, clear),
        flags=flags,
        details=_company_details(subject, company, likeness_of(match)),
        known=known and not by_name,
        match=match,
        **evidence,
    )


def company_not_found(
    subject: Mapping[str, Any], source: str, **evidence: Any
) -> Finding:
    message = "The business register has no such number."
    return build_finding(
        source,
        summary=message,
        flags={"COMPANY_NOT_FOUND": message},
        details=_company_details(subject, NOTHING, None),
        **evidence,
    )


def company_undecided(
    subject: Mapping[str, Any], source: str, summary: str, **evidence: Any
) -> Finding:
    """Make a finding without score and details: the company may exist or not."""
    return build_finding(
        source,
        summary=summary,
        flags={},
        details=_company_details(subject, NOTHING, None),
        known=False,
        **evidence,
    )


def _inactive_message(company: Company) -> str:
    if company.status == DISSOLVED:
        return "The business register records the company as dissolved."
    if company.status in {None, ACTIVE}:
        return ""
    return "The business register does not say that the company is active."


def _company_details(
    subject: Mapping[str, Any], company: Company, match: str | None
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


def address_of(record: Any, keys: tuple[str, ...]) -> str | None:
    """Join the lines of an address; skip a line that repeats the one before."""
    lines: list[str] = []
    for key in keys:
        value = as_object(record).get(key)
        for each in value if isinstance(value, list) else [value]:
            line = clean_text(each)
            if line and line not in lines[-1:]:
                lines.append(line)
    return ", ".join(lines) or None


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
    if credit_score is not None:
        scores.append(round(100 * (900 - credit_score) / 700))
    if known:
        scores.append(CLEAR)
    return Finding(
        summary=summary,
        # An incomplete finding keeps a score that is risky by itself.
        score=max(scores) if known or max(scores, default=0) >= MEDIUM else None,
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


def stated_name(subject: Mapping[str, Any]) -> str | None:
    if subject.get("fullName"):
        return str(subject["fullName"])
    parts = [subject.get(key) for key in ("firstName", "middleName", "lastName")]
    return " ".join(part for part in parts if part) or None


def name_match(subject: Mapping[str, Any], given: str | None) -> Comparison | None:
    """Compare the stated name with the source's; return None if either is missing."""
    compare = compare_companies if is_company(subject) else compare_people
    return compare(stated_name(subject), given)


def likeness_of(match: Comparison | None) -> Likeness | None:
    return match.likeness if match else None


def name_flags(
    subject: Mapping[str, Any], match: Comparison | None, other_name: str = OTHER_NAME
) -> dict[str, str]:
    """Return the flags for the name of a record: code -> message."""
    if not is_compared(subject, match):
        return {"NAME_NOT_COMPARED": NO_NAME}
    return {"NAME_MISMATCH": other_name} if likeness_of(match) == "NO_MATCH" else {}


def is_compared(subject: Mapping[str, Any], match: Comparison | None) -> bool:
    """Return whether the name was compared, or none was stated."""
    return match is not None or not stated_name(subject)


def is_company(subject: Mapping[str, Any]) -> bool:
    return subject.get("subjectType") == "COMPANY"


def pending_error(
    inquiry: Inquiry, now: datetime, seconds: float, late: str
) -> Exception:
    """Return the exception for a source that is still at work.

    That is AnswerPending for `seconds`, or Unavailable with the text `late` if the run
    takes longer than MAX_WAIT.
    """
    if now - inquiry.asked_at > MAX_WAIT:
        return Unavailable("SOURCE_UNAVAILABLE", late)
    return AnswerPending(now + timedelta(seconds=seconds))
