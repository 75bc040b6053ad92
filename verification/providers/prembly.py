"""People, PINs and companies at Prembly (Identitypass), the second source for Kenya.

https://docs.prembly.com

Every answer has status 200: `response_code` tells the outcome, and `billing_info`
whether it was charged. Prembly takes no reference of ours, so each repeat is charged.
"""

import logging
import re
from collections.abc import Collection
from typing import Any, Literal

from verification.providers import findings
from verification.providers.base import Finding, Inquiry, Provider, Subject
from verification.providers.http_api import (
    Api,
    Record,
    Reply,
    RequestRejected,
    company_number,
    is_same_number,
    join_words,
    national_id,
    refused_error,
    require_covered_country,
    unavailable_error,
    unknown_code_error,
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
# The type, by the letters that the number begins with: the extract does not tell it.
TYPES = {"BN": "BUSINESS_NAME", "LLP": "LIMITED_LIABILITY_PARTNERSHIP"}


class Answer(Record):
    """A record of Prembly, which writes dates in several formats."""

    date_formats = ("%d-%m-%Y", "%d/%m/%Y", "%d %B %Y")


class Prembly(Provider):
    name = "prembly"
    longest_seconds = SECONDS
    countries = frozenset({"KE"})
    not_told = {
        "KRA_PIN": ("taxStation", "registeredAddress"),
        "BUSINESS_VERIFICATION": ("shareholders",),
    }

    def __init__(
        self, app_id: str, api_key: str, url: str, opened: Collection[str]
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
            provider_reference=answer.record("verification").reference("reference"),
            response_digest=reply.digest,
        )

    def _read(self, reply: Reply) -> Answer:
        try:
            return Answer(self._api.read_object(reply))
        except RequestRejected as e:
            # A known code tells more than the status.
            if _code(e.answer) in CODES and _code(e.answer) != "00":
                return Answer.of(e.answer)
            if e.status not in REFUSALS:
                logger.warning("Prembly refused with the unknown status %s", e.status)
            raise


def _query(inquiry: Inquiry) -> tuple[str, dict[str, str]]:
    subject, check = inquiry.subject, inquiry.check
    if check == "IDENTITY" and subject.get("idNumber"):
        return ID_PATH, {"number": national_id(subject, SOURCE)}
    if check == "KRA_PIN" and subject.get("kraPin"):
        return PIN_PATH, {"number": upper_number(subject["kraPin"])}
    if check == "BUSINESS_VERIFICATION" and subject.get("registrationNumber"):
        number = company_number(subject["registrationNumber"])
        kind = re.match(r"[A-Z]*", number)
        extract = KINDS.get(kind[0] if kind else "", "CR12")
        return COMPANY_PATH, {"company_id": number, "check_type": extract}
    raise refused_error(SOURCE, f"cannot be asked this for {check}")


def _outcome(answer: Answer) -> tuple[Outcome, str]:
    code = _code(answer)
    outcome, why = CODES.get(code, ("LATER", ""))
    status = str(answer.record("verification").get("status") or "").upper()
    status = status.replace("_", "-").replace(" ", "-")
    if code in CODES and status in VERIFIED.get(outcome, {status}):
        return outcome, why
    if code in CODES and status == PENDING:
        return "LATER", "has not come to an end with this"
    raise unknown_code_error(SOURCE, code, may_be_charged=_may_be_charged(answer))


def _may_be_charged(answer: Answer) -> bool:
    """Return `was_charged`; without it, True unless the register was out of reach."""
    charged = answer.record("billing_info").get("was_charged")
    return charged if isinstance(charged, bool) else _code(answer) != "02"


def _data(answer: Answer, number: str) -> Answer:
    """Return the record. Raises Unavailable for none, or one of another number."""
    data = answer.record("data")
    if not data:
        raise unavailable_error(SOURCE, "found a record and did not give it")
    keys = ("id_number", "identity_number", "pin", "registrationNumber")
    numbers = [data[key] for key in keys if data.get(key)]
    if numbers and not any(is_same_number(told, number) for told in numbers):
        raise unavailable_error(SOURCE, "answered about something else")
    return data


def _code(answer: Any) -> str:
    return str(Answer.of(answer).get("response_code") or "")


def identity(subject: Subject, data: Answer | None, **evidence: Any) -> Finding:
    found = data or Answer()
    born_on = found.day("date_of_birth", "dob")
    person = findings.Person(
        name=found.text("identity_name", "full_name")
        or join_words(
            found.text("first_name"),
            found.text("other_name"),
            found.text("surname", "last_name"),
        ),
        born_on=born_on,
        gender=found.text("gender"),
        serial_number=found.text("serial_number", "id_serial_number"),
        citizenship=found.text("citizenship"),
        place_of_birth=found.text("place_of_birth"),
        is_dead=findings.is_death(found, "date_of_death", "dod", born_on=born_on),
    )
    return findings.identity_finding(subject, person if data else None, **evidence)


def taxpayer(subject: Subject, data: Answer | None, **evidence: Any) -> Finding:
    found = data or Answer()
    pin, obligations = subject.get("kraPin"), found.text("obligation_details")
    record = findings.Taxpayer(
        pin=pin,
        name=found.text("taxpayer_name"),
        kind=findings.taxpayer_kind(pin) if data else None,
        status=findings.pin_status(SOURCE, found.code("pin_status")),
        obligations=[obligations] if obligations else None,
    )
    return findings.pin_finding(subject, record, is_found=bool(data), **evidence)


def business(subject: Subject, data: Answer | None, **evidence: Any) -> Finding:
    if data is None:
        return findings.company_finding(subject, None, **evidence)
    number = str(subject.get("registrationNumber") or "").upper()
    letters = re.match(r"[A-Z]*", number.strip())
    company = findings.Company(
        name=data.text("businessName", "companyName"),
        kind=TYPES.get(letters[0]) if letters else None,
        status=findings.company_status(SOURCE, data.code("status")),
        incorporated_on=data.day("registrationDate"),
        address=data.text("physicalAddress", "postalAddress"),
        directors=_partners(data),
        # `verified` is False where the register does not confirm the record.
        doubt=findings.NOT_COMPARED if data.get("verified") is False else "",
    )
    return findings.company_finding(subject, company, **evidence)


def _partners(data: Answer) -> list[dict[str, Any]] | None:
    """Return the people of the extract. It has no uniform list of shares."""
    if not isinstance(data.get("partners"), list):
        return None
    return [
        findings.director(
            each.text("name"), each.code("type"), each.text("nationality")
        )
        for each in data.records("partners")
    ]


READERS = {
    "IDENTITY": identity,
    "KRA_PIN": taxpayer,
    "BUSINESS_VERIFICATION": business,
}
