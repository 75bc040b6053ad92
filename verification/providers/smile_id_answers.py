"""What Smile ID's records become: our fields, flags and scores.

Absent values are texts there, "Not Available" for people and "N/A" for companies.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from verification.providers.base import Finding
from verification.providers.scoring import name_match, stated_name, weighed

logger = logging.getLogger(__name__)

Record = Mapping[str, Any]

ABSENT = {"", "not available", "n/a", "na", "none", "null"}
GENDERS = {"f": "FEMALE", "female": "FEMALE", "m": "MALE", "male": "MALE"}
DEATH = {"dateofdeath", "dod"}
TYPES = {
    "PRIVATE_COMPANY_LIMITED_BY_SHARES": "PRIVATE_LIMITED_COMPANY",
    "PRIVATE_COMPANY": "PRIVATE_LIMITED_COMPANY",
    "PUBLIC_COMPANY_LIMITED_BY_SHARES": "PUBLIC_LIMITED_COMPANY",
    "PUBLIC_COMPANY": "PUBLIC_LIMITED_COMPANY",
}
STATUSES = {
    "ACTIVE": "ACTIVE",
    "REGISTERED": "ACTIVE",
    "DISSOLVED": "DISSOLVED",
    "STRUCK_OFF": "DISSOLVED",
    "DEREGISTERED": "DISSOLVED",
    "CEASED": "DISSOLVED",
}
NO_ID = "The register has no such ID number."
NO_PIN = "The revenue authority knows no such PIN or ID."
NO_COMPANY = "The business register has no such number."
OTHER_NAME = "The register has another name for this number."
NOT_ACTIVE = "The business register does not say that the company is active."


def identity(subject: Record, answer: Record | None, **evidence: Any) -> Finding:
    found = answer or {}
    more = {
        re.sub("[^a-z]", "", key.casefold()): value
        for key, value in _record(found.get("FullData")).items()
    }
    is_dead = any(told(more.get(key)) for key in DEATH)
    name, birth = told(found.get("FullName")), _day(found.get("DOB"))
    stated = subject.get("dateOfBirth")
    same_birth = None
    if birth and stated:
        same_birth = "MATCH" if birth == stated else "NO_MATCH"
    details = {
        "idNumber": subject.get("idNumber"),
        "serialNumber": told(more.get("serialnumber")),
        "fullName": name,
        "dateOfBirth": birth,
        "gender": GENDERS.get((told(found.get("Gender")) or "").casefold()),
        "citizenship": told(more.get("citizenship")),
        "placeOfBirth": told(more.get("placeofbirth")),
        "lifeStatus": "DECEASED" if is_dead else None,
        "nameMatch": name_match(subject, name),
        "dateOfBirthMatch": same_birth,
    }
    flags = {} if answer else {"ID_NOT_FOUND": NO_ID}
    if details["nameMatch"] == "NO_MATCH":
        flags["NAME_MISMATCH"] = OTHER_NAME
    if same_birth == "NO_MATCH":
        flags["DOB_MISMATCH"] = "The register has another date of birth."
    if is_dead:
        flags["DECEASED"] = "The register records the person as deceased."
    known = _compared(subject, name) and (not stated or same_birth is not None)
    clear = "The ID number is registered and the details match."
    return _finding(flags, details, known=known, clear=clear, **evidence)


def taxpayer(subject: Record, answer: Record | None, **evidence: Any) -> Finding:
    """Without the PIN's status, which is not told: found is not yet clear."""
    found = answer or {}
    name = told(found.get("FullName"))
    pin = subject.get("kraPin") or told(found.get("Secondary_ID_Number"))
    details = {
        "kraPin": pin,
        "taxpayerName": name,
        "taxpayerType": "INDIVIDUAL" if answer else None,
        "pinStatus": None,
        "taxStation": None,
        "registeredAddress": told(found.get("Address")),
        "obligations": None,
        "nameMatch": name_match(subject, name),
    }
    flags = {} if answer else {"PIN_NOT_FOUND": NO_PIN}
    if details["nameMatch"] == "NO_MATCH":
        flags["NAME_MISMATCH"] = OTHER_NAME
    clear = "The PIN is registered; whether it is active is not known."
    return _finding(flags, details, known=False, clear=clear, **evidence)


def business(subject: Record, answer: Record | None, **evidence: Any) -> Finding:
    found = answer or {}
    company = _record(found.get("company_information"))
    name = told(company.get("legal_name"))
    word, kind = _code(company.get("status")), _code(company.get("company_type"))
    details = {
        "registrationNumber": subject.get("registrationNumber"),
        "registeredName": name,
        "companyType": TYPES.get(kind or "", kind),
        "companyStatus": STATUSES.get(word or "", word),
        "incorporatedOn": _day(company.get("registration_date")),
        "registeredAddress": told(company.get("address")),
        "directors": _directors(found) if answer else None,
        "shareholders": _shareholders(found) if answer else None,
        "nameMatch": name_match(subject, name),
    }
    flags = {} if answer else {"COMPANY_NOT_FOUND": NO_COMPANY}
    if details["nameMatch"] == "NO_MATCH":
        flags["NAME_MISMATCH"] = OTHER_NAME
    if word and word not in STATUSES:
        logger.warning("Smile ID gave a company a status that is not known")
    if word and STATUSES.get(word) != "ACTIVE":
        dissolved = "The business register records the company as dissolved."
        flags["COMPANY_DISSOLVED"] = dissolved if word in STATUSES else NOT_ACTIVE
    known = word is not None and _compared(subject, name)
    clear = "The company is registered and active."
    return _finding(flags, details, known=known, clear=clear, **evidence)


def told(value: Any) -> str | None:
    """A text or a number; None for what is absent."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    text = " ".join(str(value).split())
    return None if text.casefold() in ABSENT else text


def _finding(
    flags: dict[str, str],
    details: dict[str, Any],
    *,
    known: bool,
    clear: str,
    source: str,
    **evidence: Any,
) -> Finding:
    if not known and details.get("pinStatus", "") is not None:
        clear = "A record was found; not all of it could be compared."
    summary = next(iter(flags.values()), clear)
    return weighed(
        source,
        summary=summary,
        flags=flags,
        details=details,
        known=known,
        **evidence,
    )


def _compared(subject: Record, name: str | None) -> bool:
    return not stated_name(subject) or name_match(subject, name) is not None


def _directors(found: Record) -> list[dict[str, Any]]:
    roles = {"directors": "DIRECTOR", "proprietors": "PROPRIETOR", "fiduciaries": None}
    return [
        {
            "fullName": told(one.get("name")),
            "role": role or _code(one.get("fiduciary_type")),
            "nationality": told(one.get("nationality")),
            "appointedOn": None,
        }
        for key, role in roles.items()
        for one in _records(found.get(key))
    ]


def _shareholders(found: Record) -> list[dict[str, Any]]:
    holders = []
    for one in _records(found.get("beneficial_owners")):
        held = (told(one.get("shareholdings")) or "").replace(",", "")
        amount = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?) ?(%?)", held)
        number = float(amount[1]) if amount else None
        is_percent = bool(amount and amount[2])
        holders.append(
            {
                "fullName": told(one.get("name")),
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
    text = told(value)
    return re.sub(r"\W+", "_", text.upper()).strip("_") if text else None


def _day(value: Any) -> str | None:
    """`YYYY-MM-DD`, also from what begins with it or is written `DD/MM/YYYY`."""
    text = told(value) or ""
    if local := re.fullmatch(r"(\d\d)[/-](\d\d)[/-](\d{4})", text):
        text = f"{local[3]}-{local[2]}-{local[1]}"
    try:
        return date.fromisoformat(text[:10]).isoformat()
    except ValueError:
        return None
