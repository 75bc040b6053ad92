"""Turn a register's record of a person into a finding: fields, flags and score."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verification.providers.base import Finding
from verification.providers.scoring import (
    NOT_COMPARED,
    build_finding,
    is_compared,
    likeness_of,
    name_flags,
    name_match,
    worst_message,
)

logger = logging.getLogger(__name__)

CLEAR = "The ID number is registered and the details match."
NO_ID = "The register has no such ID number."
OTHER_BIRTH = "The register has another date of birth."
NIL = {"", "n/a", "na", "none", "null", "nil", "not available"}
LAST_NIL_DAY = "1901-01-01"
DECEASED = "The register records the person as deceased."


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


def identity(
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
        summary=worst_message(flags, CLEAR if known else NOT_COMPARED),
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
