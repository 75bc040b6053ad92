"""What a register's record of a company becomes: our fields, flags and scores.

A register gives `Company`; `found`, `not_found` and `undecided` make the finding.
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
    """A record in our words; None is what the register does not tell."""

    name: str | None
    kind: str | None
    # ACTIVE, DISSOLVED, or the register's own word.
    status: str | None
    incorporated_on: str | None
    address: str | None
    directors: list[dict[str, Any]] | None = None
    shareholders: list[dict[str, Any]] | None = None
    # Why an active company is not clear, where the register says so.
    doubt: str = ""


def company_found(
    subject: Mapping[str, Any],
    company: Company,
    source: str,
    *,
    by_name: bool = False,
    **evidence: Any,
) -> Finding:
    """`by_name`: it has the name that was stated, and not the number."""
    match = name_match(subject, company.name)
    flags = name_flags(subject, match)
    if told := _not_active(company):
        flags["COMPANY_DISSOLVED"] = told
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
    told = "The business register has no such number."
    return build_finding(
        source,
        summary=told,
        flags={"COMPANY_NOT_FOUND": told},
        details=_details(subject, NOTHING, None),
        **evidence,
    )


def company_undecided(
    subject: Mapping[str, Any], source: str, told: str, **evidence: Any
) -> Finding:
    """Neither found nor surely absent: nothing is said of any company, no score."""
    return build_finding(
        source,
        summary=told,
        flags={},
        details=_details(subject, NOTHING, None),
        known=False,
        **evidence,
    )


def address_of(record: Any, keys: tuple[str, ...]) -> str | None:
    """The lines in order, without those that repeat the one before."""
    lines: list[str] = []
    for key in keys:
        value = as_object(record).get(key)
        for each in value if isinstance(value, list) else [value]:
            line = clean_text(each)
            if line and line not in lines[-1:]:
                lines.append(line)
    return ", ".join(lines) or None


NOTHING = Company(None, None, None, None, None)


def _not_active(company: Company) -> str:
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
