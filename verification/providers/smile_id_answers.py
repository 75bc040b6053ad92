"""What Smile ID's records become: our fields, flags and scores.

Absent values are texts there, "Not Available" for people and "N/A" for companies.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from verification.providers import company_answers, person_answers
from verification.providers.base import Finding
from verification.providers.company_answers import ACTIVE, DISSOLVED, Company
from verification.providers.person_answers import Person, is_death
from verification.providers.scoring import (
    build_finding,
    likeness_of,
    name_flags,
    name_match,
    worst_message,
)

logger = logging.getLogger(__name__)

Record = Mapping[str, Any]

ABSENT = {"", "not available", "n/a", "na", "none", "null"}
GENDERS = {"f": "FEMALE", "female": "FEMALE", "m": "MALE", "male": "MALE"}
DEATH = ("dateofdeath", "dod")
TYPES = {
    "PRIVATE_COMPANY_LIMITED_BY_SHARES": "PRIVATE_LIMITED_COMPANY",
    "PRIVATE_COMPANY": "PRIVATE_LIMITED_COMPANY",
    "PUBLIC_COMPANY_LIMITED_BY_SHARES": "PUBLIC_LIMITED_COMPANY",
    "PUBLIC_COMPANY": "PUBLIC_LIMITED_COMPANY",
}
STATUSES = {
    "ACTIVE": ACTIVE,
    "REGISTERED": ACTIVE,
    "DISSOLVED": DISSOLVED,
    "STRUCK_OFF": DISSOLVED,
    "DEREGISTERED": DISSOLVED,
    "CEASED": DISSOLVED,
}
NO_PIN = "The revenue authority knows no such PIN or ID."


def identity(subject: Record, answer: Record | None, **evidence: Any) -> Finding:
    found = answer or {}
    more = {
        re.sub("[^a-z]", "", key.casefold()): value
        for key, value in _record(found.get("FullData")).items()
    }
    death = next(filter(None, (text_or_none(more.get(key)) for key in DEATH)), None)
    person = Person(
        name=text_or_none(found.get("FullName")),
        born_on=_day(found.get("DOB")),
        gender=GENDERS.get((text_or_none(found.get("Gender")) or "").casefold()),
        serial_number=text_or_none(more.get("serialnumber")),
        citizenship=text_or_none(more.get("citizenship")),
        place_of_birth=text_or_none(more.get("placeofbirth")),
        is_dead=is_death(death, _day(death)),
    )
    return person_answers.identity(subject, person if answer else None, **evidence)


def identity_v3(subject: Record, answer: Record | None, **evidence: Any) -> Finding:
    """By `id_fields` of a callback. Only names, birth and gender are documented of
    them; who has died is not told."""
    found = answer or {}
    parts = (
        text_or_none(found.get(key))
        for key in ("first_name", "other_names", "last_name")
    )
    person = Person(
        name=text_or_none(found.get("full_name"))
        or " ".join(filter(None, parts))
        or None,
        born_on=_day(found.get("date_of_birth")),
        gender=GENDERS.get((text_or_none(found.get("gender")) or "").casefold()),
    )
    return person_answers.identity(subject, person if answer else None, **evidence)


def taxpayer(
    subject: Record, answer: Record | None, *, source: str, **evidence: Any
) -> Finding:
    """Without the PIN's status, which is not told: found is not yet clear."""
    found = answer or {}
    name = text_or_none(found.get("FullName"))
    match = name_match(subject, name)
    pin = subject.get("kraPin") or text_or_none(found.get("Secondary_ID_Number"))
    details = {
        "kraPin": pin,
        "taxpayerName": name,
        "taxpayerType": "INDIVIDUAL" if answer else None,
        "pinStatus": None,
        "taxStation": None,
        "registeredAddress": text_or_none(found.get("Address")),
        "obligations": None,
        "nameMatch": likeness_of(match),
    }
    flags = name_flags(subject, match) if answer else {"PIN_NOT_FOUND": NO_PIN}
    clear = "The PIN is registered; whether it is active is not known."
    return build_finding(
        source,
        summary=worst_message(flags, clear),
        flags=flags,
        details=details,
        known=False,
        match=match,
        **evidence,
    )


def business(subject: Record, answer: Record | None, **evidence: Any) -> Finding:
    if not answer:
        return company_answers.company_not_found(subject, **evidence)
    record = _record(answer.get("company_information"))
    word, kind = _code(record.get("status")), _code(record.get("company_type"))
    if word and word not in STATUSES:
        logger.warning("Smile ID gave a company a status that is not known")
    company = Company(
        name=text_or_none(record.get("legal_name")),
        kind=TYPES.get(kind or "", kind),
        status=STATUSES.get(word or "", word),
        incorporated_on=_day(record.get("registration_date")),
        address=text_or_none(record.get("address")),
        directors=_directors(answer),
        shareholders=_shareholders(answer),
    )
    return company_answers.company_found(subject, company, **evidence)


def text_or_none(value: Any) -> str | None:
    """A text or a number; None for what is absent."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    text = " ".join(str(value).split())
    return None if text.casefold() in ABSENT else text


def _directors(found: Record) -> list[dict[str, Any]]:
    roles = {"directors": "DIRECTOR", "proprietors": "PROPRIETOR", "fiduciaries": None}
    return [
        {
            "fullName": text_or_none(one.get("name")),
            "role": role or _code(one.get("fiduciary_type")),
            "nationality": text_or_none(one.get("nationality")),
            "appointedOn": None,
        }
        for key, role in roles.items()
        for one in _records(found.get(key))
    ]


def _shareholders(found: Record) -> list[dict[str, Any]]:
    holders = []
    for one in _records(found.get("beneficial_owners")):
        held = (text_or_none(one.get("shareholdings")) or "").replace(",", "")
        amount = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?) ?(%?)", held)
        number = float(amount[1]) if amount else None
        is_percent = bool(amount and amount[2])
        holders.append(
            {
                "fullName": text_or_none(one.get("name")),
                "shares": None if is_percent or number is None else int(number),
                "percent": number if is_percent else None,
            }
        )
    return holders


def _record(value: Any) -> Record:
    return value if isinstance(value, dict) else {}


def _records(value: Any) -> list[Record]:
    return [_record(one) for one in value] if isinstance(value, list) else []


def _code(value: Any) -> str | None:
    text = text_or_none(value)
    return re.sub(r"\W+", "_", text.upper()).strip("_") if text else None


def _day(value: Any) -> str | None:
    """`YYYY-MM-DD`, also from what begins with it or is written `DD/MM/YYYY`."""
    text = text_or_none(value) or ""
    if local := re.fullmatch(r"(\d\d)[/-](\d\d)[/-](\d{4})", text):
        text = f"{local[3]}-{local[2]}-{local[1]}"
    try:
        return date.fromisoformat(text[:10]).isoformat()
    except ValueError:
        return None
