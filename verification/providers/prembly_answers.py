"""What Prembly's records become: our fields, flags and scores."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from verification.providers import company_answers, person_answers
from verification.providers.base import Finding
from verification.providers.company_answers import (
    ACTIVE,
    DISSOLVED,
    Company,
    normalize_code,
)
from verification.providers.person_answers import Person, is_death
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

Record = Mapping[str, Any]
GENDERS = {"F": "FEMALE", "FEMALE": "FEMALE", "M": "MALE", "MALE": "MALE"}
PIN_STATUSES = {
    "ACTIVE": "ACTIVE",
    "INACTIVE": "INACTIVE",
    "SUSPENDED": "SUSPENDED",
    "CANCELLED": "CANCELLED",
    "STOPPED": "STOPPED",
    "DORMANT": "DORMANT",
}
COMPANY_STATUSES = {
    "REGISTERED": ACTIVE,
    "ACTIVE": ACTIVE,
    "DISSOLVED": DISSOLVED,
    "STRUCK_OFF": DISSOLVED,
    "DEREGISTERED": DISSOLVED,
    "CEASED": DISSOLVED,
}
OTHER_TAXPAYER = "The revenue authority has another name for this PIN."
PIN_CLEAR = "The PIN is active."
PIN_LETTERS = {"A": "INDIVIDUAL", "P": "COMPANY"}
# By the number's beginning; the extract does not say.
TYPES = {"BN": "BUSINESS_NAME", "LLP": "LIMITED_LIABILITY_PARTNERSHIP"}


def identity(subject: Record, data: Record | None, **evidence: Any) -> Finding:
    found = data or {}
    serial = _text(found.get("serial_number") or found.get("id_serial_number"))
    person = Person(
        name=_name(found),
        born_on=_first_day(found, "date_of_birth", "dob"),
        gender=GENDERS.get((_text(found.get("gender")) or "").upper()),
        serial_number=serial,
        citizenship=_text(found.get("citizenship")),
        place_of_birth=_text(found.get("place_of_birth")),
        is_dead=is_death(
            _text(found.get("date_of_death")) or _text(found.get("dod")),
            _first_day(found, "date_of_death", "dod"),
        ),
    )
    return person_answers.identity(subject, person if data else None, **evidence)


def taxpayer(
    subject: Record, data: Record | None, *, source: str, **evidence: Any
) -> Finding:
    found = data or {}
    name, word = (
        _text(found.get("taxpayer_name")),
        normalize_code(found.get("pin_status")),
    )
    obligations = _text(found.get("obligation_details"))
    match = name_match(subject, name)
    status = PIN_STATUSES.get(word or "")
    pin = subject.get("kraPin")
    letter = str(pin or "")[:1].upper()
    details = {
        "kraPin": pin,
        "taxpayerName": name,
        "taxpayerType": PIN_LETTERS.get(letter) if data else None,
        "pinStatus": status,
        "taxStation": None,
        "registeredAddress": None,
        "obligations": [obligations] if obligations else None,
        "nameMatch": likeness_of(match),
    }
    told = "The revenue authority knows no such PIN."
    flags = {"PIN_NOT_FOUND": told}
    if data:
        flags = name_flags(subject, match, OTHER_TAXPAYER)
    if data and status != "ACTIVE":
        if status is None:
            logger.warning("Prembly gave a PIN a status that is not known")
        told = "The revenue authority does not say that the PIN is active."
        flags["PIN_INACTIVE"] = f"The PIN is {status.lower()}." if status else told
    known = status is not None and is_compared(subject, match)
    return build_finding(
        source,
        summary=worst_message(flags, PIN_CLEAR if known else NOT_COMPARED),
        flags=flags,
        details=details,
        known=known,
        match=match,
        **evidence,
    )


def business(
    subject: Record, data: Record | None, *, source: str, **evidence: Any
) -> Finding:
    if data is None:
        return company_answers.company_not_found(subject, source, **evidence)
    word = normalize_code(data.get("status"))
    status = COMPANY_STATUSES.get(word or "", word)
    # "verified" beside the status says whether the register confirms the record.
    doubt = "" if data.get("verified") is not False else NOT_COMPARED
    if word and word not in COMPANY_STATUSES:
        logger.warning("Prembly gave a company a status that is not known")
    number = str(subject.get("registrationNumber") or "").upper()
    letters = re.match(r"[A-Z]*", number.strip())
    address = _text(data.get("physicalAddress")) or _text(data.get("postalAddress"))
    company = Company(
        name=_text(data.get("businessName")) or _text(data.get("companyName")),
        kind=TYPES.get(letters[0]) if letters else None,
        status=status,
        incorporated_on=_first_day(data, "registrationDate"),
        address=address,
        directors=_partners(data.get("partners")),
        doubt=doubt,
    )
    return company_answers.company_found(subject, company, source, **evidence)


def _partners(value: Any) -> list[dict[str, Any]] | None:
    """The people of the extract; what each holds is not told in one way."""
    if not isinstance(value, list):
        return None
    return [
        {
            "fullName": _text(each.get("name")),
            "role": normalize_code(each.get("type")),
            "nationality": _text(each.get("nationality")),
            "appointedOn": None,
        }
        for each in value
        if isinstance(each, dict)
    ]


def _name(found: Record) -> str | None:
    """The name, which comes whole or in parts."""
    if whole := _text(found.get("identity_name")) or _text(found.get("full_name")):
        return whole
    last = found.get("surname") or found.get("last_name")
    parts = [found.get("first_name"), found.get("other_name"), last]
    return " ".join(filter(None, map(_text, parts))) or None


def _text(value: Any) -> str | None:
    if not isinstance(value, str | int) or isinstance(value, bool):
        return None
    return " ".join(str(value).split())[:500] or None


def _first_day(found: Record, *keys: str) -> str | None:
    """`YYYY-MM-DD`; they write it so, as 31-01-1990, or as 22 September 2001."""
    for key in keys:
        text = _text(found.get(key)) or ""
        try:
            return date.fromisoformat(text[:10]).isoformat()
        except ValueError:
            pass
        for form in ("%d-%m-%Y", "%d/%m/%Y", "%d %B %Y"):
            try:
                parsed = datetime.strptime(text, form).date()  # noqa: DTZ007
            except ValueError:
                continue
            return parsed.isoformat()
    return None
