"""People, PINs and companies at Prembly (Identitypass), the second source for Kenya.

https://docs.prembly.com

An answer is 200 whatever became of the question; `response_code` says what did, and
`billing_info` whether it was charged. There is no reference of ours: what is asked
twice is paid for twice.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Literal

from verification.providers.base import (
    Finding,
    Inquiry,
    NotTold,
    Refused,
    covers_subject,
)
from verification.providers.company_answers import plain_number
from verification.providers.http_api import (
    FOREIGN,
    REFUSED,
    Api,
    Reply,
    RequestRejected,
    unavailable_error,
)
from verification.providers.prembly_answers import business, identity, taxpayer

logger = logging.getLogger(__name__)

SOURCE = "Prembly"
SECONDS = 30.0
Record = Mapping[str, Any]

Outcome = Literal["FOUND", "NOT_FOUND", "LATER", "REFUSED"]
CODES: dict[str, tuple[Outcome, str]] = {
    "00": ("FOUND", ""),
    "01": ("NOT_FOUND", ""),
    "02": ("LATER", "could not reach the register"),
    "03": ("REFUSED", "has no balance left to pay for this"),
}
# Beside the code; it must not say the contrary.
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
READERS = {
    "IDENTITY": identity,
    "KRA_PIN": taxpayer,
    "BUSINESS_VERIFICATION": business,
}
# What is looked up, by how the number begins: companies (CR12) unless it says other.
KINDS = {"BN": "CR13", "LLP": "LLP"}


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
        self._api = Api(SOURCE, url, opened=opened, headers=headers, seconds=SECONDS)

    def ask(self, inquiry: Inquiry) -> Finding:
        if not covers_subject(self, inquiry.subject):
            raise Refused(REFUSED, FOREIGN.format(SOURCE))
        path, asked = _question(inquiry)
        reply = self._api.fetch("POST", path, json=asked)
        answer = self._read(reply)
        outcome, why = _outcome(answer)
        if outcome == "REFUSED":
            raise Refused(REFUSED, f"{SOURCE} {why}.")
        if outcome == "LATER":
            raise unavailable_error(SOURCE, why, may_be_charged=_may_be_charged(answer))
        is_found = outcome == "FOUND"
        return READERS[inquiry.check](
            inquiry.subject,
            _data(answer, next(iter(asked.values()))) if is_found else None,
            source=self.name,
            provider_reference=_reference(answer),
            response_digest=reply.digest,
        )

    def _read(self, reply: Reply) -> Record:
        try:
            answer = self._api.read(reply)
        except RequestRejected as e:
            # A code says more than the status, where there is one.
            if _code(e.answer) not in CODES or _code(e.answer) == "00":
                raise _failure(e) from None
            answer = e.answer
        if not isinstance(answer, dict):
            raise unavailable_error(SOURCE, "answered with JSON that is no object")
        return answer


def _question(inquiry: Inquiry) -> tuple[str, dict[str, str]]:
    subject, check = inquiry.subject, inquiry.check
    if check == "IDENTITY" and subject.get("idNumber"):
        return ID_PATH, {"number": _plain(subject["idNumber"])}
    if check == "KRA_PIN" and subject.get("kraPin"):
        return PIN_PATH, {"number": _plain(subject["kraPin"])}
    if check == "BUSINESS_VERIFICATION" and subject.get("registrationNumber"):
        number = _plain(subject["registrationNumber"])
        kind = re.match(r"[A-Z]*", number)
        extract = KINDS.get(kind[0] if kind else "", "CR12")
        return COMPANY_PATH, {"company_id": number, "check_type": extract}
    raise Refused(REFUSED, f"{SOURCE} cannot be asked this for {check}.")


def _outcome(answer: Record) -> tuple[Outcome, str]:
    code = _code(answer)
    outcome, why = CODES.get(code, ("LATER", ""))
    verification = answer.get("verification")
    told = verification.get("status") if isinstance(verification, dict) else ""
    status = str(told or "").upper().replace("_", "-").replace(" ", "-")
    is_said = status in VERIFIED.get(outcome, {status})
    if code in CODES and is_said:
        return outcome, why
    if code in CODES and status == PENDING:
        return "LATER", "has not come to an end with this"
    shown = code if re.fullmatch(r"\w{1,8}", code) else "?"
    logger.warning("Prembly answered with code %s, which is not understood", shown)
    return "LATER", f"answered with code {shown}, which is not understood"


def _may_be_charged(answer: Record) -> bool:
    """What the answer says of that; else not where the register was not reached."""
    billing = answer.get("billing_info")
    told = billing.get("was_charged") if isinstance(billing, dict) else None
    return told if isinstance(told, bool) else _code(answer) != "02"


def _failure(e: RequestRejected) -> Exception:
    if e.status not in REFUSALS:
        logger.warning("Prembly refused with status %s, which is not known", e.status)
        return e
    return Refused(REFUSED, f"{SOURCE} {REFUSALS[e.status]} (status {e.status}).")


def _data(answer: Record, number: str) -> Record:
    """The record, which must be about the number that was asked about."""
    data = answer.get("data")
    if not isinstance(data, dict):
        raise unavailable_error(SOURCE, "found a record and did not give it")
    keys = ("id_number", "identity_number", "pin", "registrationNumber")
    told = {plain_number(data[key]) for key in keys if data.get(key)}
    if told and plain_number(number) not in told:
        raise unavailable_error(SOURCE, "answered about something else")
    return data


def _code(answer: Any) -> str:
    return str(answer.get("response_code") or "") if isinstance(answer, dict) else ""


def _reference(answer: Record) -> str | None:
    verification = answer.get("verification")
    told = verification.get("reference") if isinstance(verification, dict) else None
    return told[:64] if isinstance(told, str) and told else None


def _plain(number: Any) -> str:
    return re.sub(r"\s", "", str(number)).upper()
