"""People, PINs and companies at Prembly (Identitypass), the second source for Kenya.

https://docs.prembly.com

Every answer has status 200: `response_code` tells the outcome, and `billing_info`
whether it was charged. Prembly takes no reference of ours, so each repeat is charged.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from datetime import datetime
from typing import Any, ClassVar, Literal

from verification.providers import findings
from verification.providers.base import Finding, Inquiry, NotTold
from verification.providers.findings import (
    ACTIVE,
    DISSOLVED,
    NOT_COMPARED,
    Company,
    Person,
    build_finding,
    is_compared,
    is_death,
    likeness_of,
    name_flags,
    name_match,
    worst_message,
)
from verification.providers.http_api import (
    Api,
    Record,
    Reply,
    RequestRejected,
    as_object,
    as_objects,
    clean_text,
    iso_date,
    normalize_code,
    plain_number,
    printable_code,
    refused_error,
    require_covered_country,
    unavailable_error,
    upper_number,
)

logger = logging.getLogger(__name__)

SOURCE = "Prembly"
SECONDS = 30.0

Outcome = Literal["FOUND", "NOT_FOUND", "LATER", "REFUSED"]
CODES: dict[str, tuple[Outcome, str]] = {
    "00": ("FOUND", ""),
    "01": ("NOT_FOUND", ""),
    "02": ("LATER", "could not reach the register"),
    "03": ("REFUSED", "has no balance left to pay for this"),
}
# `verification.status` must agree with the code.
VERIFIED = {"FOUND": {"VERIFIED", ""}, "NOT_FOUND": {"NOT-VERIFIED", ""}}
PENDING = "PENDING"
REFUSALS = {
    400: "could not read the request",
    401: "does not take the credentials",
    402: "has no balance left to pay for this",
    403: "does not sell this to the account",
}
ID_PATH, PIN_PATH = "/verification/ke/national_id", "/verification/ke/tax/pin"
COMPANY_PATH = "/verification/ke/brs/search/advanced"
# The extract to ask for, by the letters that a number begins with; CR12 for companies.
KINDS = {"BN": "CR13", "LLP": "LLP"}
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
# The type, by the letters that the number begins with: the extract does not tell it.
TYPES = {"BN": "BUSINESS_NAME", "LLP": "LIMITED_LIABILITY_PARTNERSHIP"}


class Prembly:
    name: ClassVar[str] = "prembly"
    waits_on_network: ClassVar[bool] = True
    repeats_are_free: ClassVar[bool] = False
    countries: ClassVar[frozenset[str]] = frozenset({"KE"})
    not_told: ClassVar[NotTold] = {
        "KRA_PIN": ("taxStation", "registeredAddress"),
        "BUSINESS_VERIFICATION": ("shareholders",),
    }

    def __init__(
        self,
        app_id: str,
        api_key: str,
        url: str = "https://api.prembly.com",
        opened: Collection[str] = (),
    ) -> None:
        headers = {"app-id": app_id, "x-api-key": api_key}
        self._api = Api(
            SOURCE,
            url,
            opened=opened,
            headers=headers,
            seconds=SECONDS,
            refusals=REFUSALS,
        )

    def ask(self, inquiry: Inquiry) -> Finding:
        require_covered_country(self, inquiry.subject, SOURCE)
        path, query = _query(inquiry)
        reply = self._api.fetch("POST", path, json=query)
        answer = self._read(reply)
        outcome, why = _outcome(answer)
        if outcome == "REFUSED":
            raise refused_error(SOURCE, why)
        if outcome == "LATER":
            raise unavailable_error(SOURCE, why, may_be_charged=_may_be_charged(answer))
        is_found = outcome == "FOUND"
        return READERS[inquiry.check](
            inquiry.subject,
            _data(answer, next(iter(query.values()))) if is_found else None,
            source=self.name,
            provider_reference=_reference(answer),
            response_digest=reply.digest,
        )

    def _read(self, reply: Reply) -> Record:
        try:
            return self._api.read_object(reply)
        except RequestRejected as e:
            # A known code tells more than the status.
            if _code(e.answer) in CODES and _code(e.answer) != "00":
                return as_object(e.answer)
            if e.status not in REFUSALS:
                logger.warning("Prembly refused with the unknown status %s", e.status)
            raise


def _query(inquiry: Inquiry) -> tuple[str, dict[str, str]]:
    subject, check = inquiry.subject, inquiry.check
    if check == "IDENTITY" and subject.get("idNumber"):
        return ID_PATH, {"number": upper_number(subject["idNumber"])}
    if check == "KRA_PIN" and subject.get("kraPin"):
        return PIN_PATH, {"number": upper_number(subject["kraPin"])}
    if check == "BUSINESS_VERIFICATION" and subject.get("registrationNumber"):
        number = upper_number(subject["registrationNumber"])
        kind = re.match(r"[A-Z]*", number)
        extract = KINDS.get(kind[0] if kind else "", "CR12")
        return COMPANY_PATH, {"company_id": number, "check_type": extract}
    raise refused_error(SOURCE, f"cannot be asked this for {check}")


def _outcome(answer: Record) -> tuple[Outcome, str]:
    code = _code(answer)
    outcome, why = CODES.get(code, ("LATER", ""))
    verification = as_object(answer.get("verification"))
    status = str(verification.get("status") or "").upper()
    status = status.replace("_", "-").replace(" ", "-")
    agrees = status in VERIFIED.get(outcome, {status})
    if code in CODES and agrees:
        return outcome, why
    if code in CODES and status == PENDING:
        return "LATER", "has not come to an end with this"
    shown = printable_code(code)
    logger.warning("Prembly answered with the unknown code %s", shown)
    return "LATER", f"answered with code {shown}, which is not understood"


def _may_be_charged(answer: Record) -> bool:
    """Return `was_charged`; without it, True unless the register was out of reach."""
    charged = as_object(answer.get("billing_info")).get("was_charged")
    return charged if isinstance(charged, bool) else _code(answer) != "02"


def _data(answer: Record, number: str) -> Record:
    """Return the record. Raises Unavailable if it is about another number."""
    data = answer.get("data")
    if not isinstance(data, dict):
        raise unavailable_error(SOURCE, "found a record and did not give it")
    keys = ("id_number", "identity_number", "pin", "registrationNumber")
    numbers = {plain_number(data[key]) for key in keys if data.get(key)}
    if numbers and plain_number(number) not in numbers:
        raise unavailable_error(SOURCE, "answered about something else")
    return data


def _code(answer: Any) -> str:
    return str(as_object(answer).get("response_code") or "")


def _reference(answer: Record) -> str | None:
    reference = as_object(answer.get("verification")).get("reference")
    return reference[:64] if isinstance(reference, str) and reference else None


def identity(subject: Record, data: Record | None, **evidence: Any) -> Finding:
    found = data or {}
    serial = clean_text(found.get("serial_number") or found.get("id_serial_number"))
    person = Person(
        name=_name(found),
        born_on=_first_day(found, "date_of_birth", "dob"),
        gender=GENDERS.get((clean_text(found.get("gender")) or "").upper()),
        serial_number=serial,
        citizenship=clean_text(found.get("citizenship")),
        place_of_birth=clean_text(found.get("place_of_birth")),
        is_dead=is_death(
            clean_text(found.get("date_of_death")) or clean_text(found.get("dod")),
            _first_day(found, "date_of_death", "dod"),
        ),
    )
    return findings.identity_finding(subject, person if data else None, **evidence)


def taxpayer(
    subject: Record, data: Record | None, *, source: str, **evidence: Any
) -> Finding:
    found = data or {}
    name = clean_text(found.get("taxpayer_name"))
    obligations = clean_text(found.get("obligation_details"))
    match = name_match(subject, name)
    status = PIN_STATUSES.get(normalize_code(found.get("pin_status")) or "")
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
    flags = {"PIN_NOT_FOUND": "The revenue authority knows no such PIN."}
    if data:
        flags = name_flags(subject, match, OTHER_TAXPAYER)
    if data and status != "ACTIVE":
        if status is None:
            logger.warning("Prembly returned an unknown status of a PIN")
        unknown = "The revenue authority does not say that the PIN is active."
        flags["PIN_INACTIVE"] = f"The PIN is {status.lower()}." if status else unknown
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
        return findings.company_not_found(subject, source, **evidence)
    word = normalize_code(data.get("status"))
    status = COMPANY_STATUSES.get(word or "", word)
    # `verified` is False where the register does not confirm the record.
    doubt = "" if data.get("verified") is not False else NOT_COMPARED
    if word and word not in COMPANY_STATUSES:
        logger.warning("Prembly returned an unknown status of a company")
    number = str(subject.get("registrationNumber") or "").upper()
    letters = re.match(r"[A-Z]*", number.strip())
    address = clean_text(data.get("physicalAddress")) or clean_text(
        data.get("postalAddress")
    )
    company = Company(
        name=clean_text(data.get("businessName"))
        or clean_text(data.get("companyName")),
        kind=TYPES.get(letters[0]) if letters else None,
        status=status,
        incorporated_on=_first_day(data, "registrationDate"),
        address=clean_text(address),
        directors=_partners(data.get("partners")),
        doubt=doubt,
    )
    return findings.company_found(subject, company, source, **evidence)


def _partners(value: Any) -> list[dict[str, Any]] | None:
    """Return the people of the extract. It has no uniform list of shares."""
    if not isinstance(value, list):
        return None
    return [
        {
            "fullName": clean_text(each.get("name")),
            "role": normalize_code(each.get("type")),
            "nationality": clean_text(each.get("nationality")),
            "appointedOn": None,
        }
        for each in as_objects(value)
    ]


def _name(found: Record) -> str | None:
    """Return the name, from one member or put together from its parts."""
    if whole := clean_text(found.get("identity_name")) or clean_text(
        found.get("full_name")
    ):
        return whole
    last = found.get("surname") or found.get("last_name")
    parts = [found.get("first_name"), found.get("other_name"), last]
    return " ".join(filter(None, map(clean_text, parts))) or None


def _first_day(found: Record, *keys: str) -> str | None:
    """Return the first date among these members as YYYY-MM-DD.

    Prembly writes 1990-01-31, 31-01-1990, 31/01/1990 or 22 September 2001.
    """
    for key in keys:
        text = clean_text(found.get(key)) or ""
        if day := iso_date(text):
            return day
        for form in ("%d-%m-%Y", "%d/%m/%Y", "%d %B %Y"):
            try:
                parsed = datetime.strptime(text, form).date()  # noqa: DTZ007
            except ValueError:
                continue
            return parsed.isoformat()
    return None


READERS = {
    "IDENTITY": identity,
    "KRA_PIN": taxpayer,
    "BUSINESS_VERIFICATION": business,
}
