"""Turn a register's record of a company into a finding: fields, flags and score.

An adapter reads a `Company` out of the answer; the functions here make the finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verification.providers.base import Finding
from verification.providers.json_values import as_object, clean_text
from verification.providers.scoring import (
    NOT_COMPARED,
    build_finding,
    is_compared,
    likeness_of,
    name_flags,
    name_match,
    worst_message,
)

ACTIVE, DISSOLVED = "ACTIVE", "DISSOLVED"
CLEAR = "The company is registered and active."
BY_NAME = "A company of this name was found, and not under this number."


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
    clear = BY_NAME if by_name else company.doubt or (CLEAR if known else NOT_COMPARED)
    return build_finding(
        source,
        summary=worst_message(flags, clear),
        flags=flags,
        details=_details(subject, company, likeness_of(match)),
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
        details=_details(subject, NOTHING, None),
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
        details=_details(subject, NOTHING, None),
        known=False,
        **evidence,
    )


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


NOTHING = Company(None, None, None, None, None)


def _inactive_message(company: Company) -> str:
    if company.status == DISSOLVED:
        return "The business register records the company as dissolved."
    if company.status in {None, ACTIVE}:
        return ""
    return "The business register does not say that the company is active."


def _details(
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
