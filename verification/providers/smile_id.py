"""People, PINs and companies at Smile ID, by its signed REST interface (v1).

https://docs.usesmileid.com/products/for-individuals-kyc/identity-lookup

We choose the id of a job, and Smile ID begins no second job with the same id. After a
crash or a lost answer we therefore read the first job again instead of paying twice.

With an address for callbacks we only begin jobs, and Smile ID waits for the registers.
Its callback is a hint: we read the answer from the job's status.

Absent values are texts: "Not Available" for people, "N/A" for companies.
"""

import hmac
import logging
import re
import time
from base64 import b64encode
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from verification.providers import findings
from verification.providers.base import (
    BadSignature,
    Finding,
    Inquiry,
    Provider,
    Subject,
)
from verification.providers.http_api import (
    Api,
    Record,
    Reply,
    RequestRejected,
    company_number,
    is_same_number,
    is_signature,
    national_id,
    printable_code,
    refused_error,
    require_covered_country,
    unavailable_error,
    upper_number,
)
from verification.values.clock import now

logger = logging.getLogger(__name__)

SOURCE = "Smile ID"
ID_PATH, BUSINESS_PATH = "/v1/id_verification", "/v1/business_verification"
STATUS_PATH = "/v1/job_status"
# For one call, and for all calls of a check but the last two.
SECONDS, TOGETHER = 10.0, 35.0
# Seconds until we ask for the status of a job: without callbacks, and with them.
PAUSE = 10.0
CALLBACK_WAIT = 60.0
ASYNC = {
    ID_PATH: "/v1/async_id_verification",
    BUSINESS_PATH: "/v1/async_business_verification",
}

Outcome = Literal["FOUND", "NOT_FOUND", "LATER", "REFUSED"]
RESULTS: dict[str, tuple[Outcome, str]] = {
    "1012": ("FOUND", ""),
    "1013": ("NOT_FOUND", ""),
    "1014": ("REFUSED", "does not take a number of this form"),
    "1015": ("LATER", "could not reach the register"),
    "1016": ("REFUSED", "has not activated this product for the account"),
    "0001": ("LATER", "answered with an error"),
}
# Codes in answers with status 4xx. An unknown code is a refusal as well.
ERRORS: dict[str, tuple[Outcome, str]] = {
    "2201": ("LATER", "has an error of its own"),
    "2301": ("LATER", "has an error of its own"),
    "2401": ("LATER", "has an error of its own"),
    "2203": ("REFUSED", "could not read the request"),
    "2204": ("REFUSED", "does not take a value of the request, or the account"),
    "2205": ("REFUSED", "does not take the credentials"),
    "2405": ("REFUSED", "does not take the credentials"),
    "2207": ("REFUSED", "has disabled the account"),
    "2208": ("REFUSED", "has deleted the account"),
    "2209": ("REFUSED", "does not take the user id"),
    "2210": ("REFUSED", "knows no such user"),
    "2212": ("REFUSED", "does not take this kind of job"),
    "2213": ("REFUSED", "misses something in the request"),
    "2413": ("REFUSED", "misses something in the request"),
    "2216": ("REFUSED", "wants a photo"),
}
KNOWN_JOB = "2215"
VERIFIED = {ID_PATH: "Verify_ID_Number", BUSINESS_PATH: "Verify_Business"}
KINDS = {ID_PATH: 5, BUSINESS_PATH: 7}
TYPES = {
    "PRIVATE_COMPANY_LIMITED_BY_SHARES": "PRIVATE_LIMITED_COMPANY",
    "PRIVATE_COMPANY": "PRIVATE_LIMITED_COMPANY",
    "PUBLIC_COMPANY_LIMITED_BY_SHARES": "PUBLIC_LIMITED_COMPANY",
    "PUBLIC_COMPANY": "PUBLIC_LIMITED_COMPANY",
}


class Answer(Record):
    """A record of Smile ID, which writes words in place of missing values."""

    absent = (*Record.absent, "na")
    date_formats = ("%d/%m/%Y", "%d-%m-%Y")

    def day(self, *keys: str) -> str | None:
        """Skip a date such as 1/2/1990, whose order is not sure."""
        unsure = re.compile(r"\d\D|\d\d\D\d\D")
        return super().day(*(k for k in keys if not unsure.match(self.text(k) or "")))


class SmileId(Provider):
    name = "smile_id"
    repeats_are_free = True
    longest_seconds = TOGETHER + 2 * SECONDS
    countries = frozenset({"KE"})
    not_told = {"KRA_PIN": ("pinStatus", "taxStation", "obligations")}

    def __init__(
        self,
        partner_id: str,
        api_key: str,
        url: str,
        opened: Collection[str],
        callback_url: str = "",
    ) -> None:
        self._partner_id, self._key = partner_id, api_key
        self._callback_url = callback_url
        self._api = Api(SOURCE, url, opened=opened, seconds=SECONDS)

    def ask(self, inquiry: Inquiry) -> Finding:
        require_covered_country(self, inquiry.subject, SOURCE)
        path, query = _query(inquiry)
        answer, reply = self._answer(path, query, inquiry)
        return READERS[inquiry.check](
            inquiry.subject,
            answer if _outcome(answer) == "FOUND" else None,
            source=self.name,
            provider_reference=answer.text("SmileJobID"),
            response_digest=reply.digest,
        )

    def read_callback(self, body: bytes) -> str:
        """Return the id of the job that ended. Raises BadSignature.

        The signature leaves out the body, so we use only the id.
        """
        callback = Answer.of(Reply(200, body).parsed())
        if not self._is_ours(callback):
            raise BadSignature
        job = str(callback.record("PartnerParams").get("job_id") or "")
        return job if re.fullmatch(r"[A-Za-z0-9-]{1,64}", job) else ""

    def _is_ours(self, answer: Mapping[str, Any]) -> bool:
        """Return whether the answer is signed with our API key."""
        expected = signature(self._key, self._partner_id, str(answer.get("timestamp")))
        return is_signature(str(answer.get("signature")), expected)

    def _answer(
        self, path: str, query: Mapping[str, str], inquiry: Inquiry
    ) -> tuple[Answer, Reply]:
        """Return the answer to the latest job; each attempt may begin one job more."""
        end = time.monotonic() + TOGETHER
        for nth in range(1, inquiry.attempt + 1):
            job_id = inquiry.reference if nth == 1 else f"{inquiry.reference}-{nth}"
            answer, reply, is_new = self._begin(path, query, job_id, inquiry)
            outcome = _outcome(answer)
            # The signature covers neither job nor number.
            echoed = answer.record("PartnerParams").get("job_id")
            number = answer.text("IDNumber")
            is_other = number and not is_same_number(number, query["id_number"])
            if echoed != job_id or is_other:
                raise unavailable_error(SOURCE, "answered about something else")
            action = answer.record("Actions").get(VERIFIED[path])
            if outcome == "FOUND" and action != "Verified":
                raise unavailable_error(SOURCE, "found a record and did not verify it")
            if outcome == "NOT_FOUND" and action == "Issuer Unavailable":
                raise unavailable_error(SOURCE, "could not reach the register")
            if outcome in {"FOUND", "NOT_FOUND"}:
                return answer, reply
            _, why = RESULTS.get(str(answer.get("ResultCode")), ("LATER", ""))
            if outcome == "REFUSED":
                raise refused_error(SOURCE, why)
            if is_new or time.monotonic() > end:
                break
        raise unavailable_error(SOURCE, why or "gave an answer that is not understood")

    def _begin(
        self, path: str, query: Mapping[str, str], job_id: str, inquiry: Inquiry
    ) -> tuple[Answer, Reply, bool]:
        """Begin the job. Returns its answer, the reply, and whether the job is new."""
        params = {"job_id": job_id, "user_id": str(inquiry.result_id)}
        body: dict[str, Any] = {
            **query,
            "partner_params": {**params, "job_type": KINDS[path]},
            "source_sdk": "rest_api",
            "source_sdk_version": "1.0.0",
        }
        if self._callback_url:
            path, body["callback_url"] = ASYNC[path], self._callback_url
        reply = self._post(path, body)
        is_taken = reply.status == 200 and reply.parsed() == {"success": True}
        if self._callback_url and is_taken:
            raise _pending_error(inquiry, CALLBACK_WAIT)
        try:
            answer = self._signed(reply)
        except RequestRejected as e:
            if _error(e) != KNOWN_JOB:
                raise _failure(e) from None
            return *self._job_status(params, inquiry), False
        _check_final(answer, inquiry)
        return answer, reply, True

    def _job_status(
        self, params: dict[str, str], inquiry: Inquiry
    ) -> tuple[Answer, Reply]:
        """Return the answer to a job that was begun earlier."""
        body = {**params, "image_links": False, "history": False}
        reply = self._post(STATUS_PATH, body)
        try:
            status = self._signed(reply)
        except RequestRejected:
            # Smile ID may have charged the job; another one would cost again.
            why = "knows the job, and does not tell its answer"
            raise unavailable_error(SOURCE, why) from None
        if str(status.get("job_complete")).lower() != "true":
            raise _pending_error(inquiry)
        answer = status.record("result")
        if not answer:
            raise unavailable_error(SOURCE, "ended the job without an answer")
        _check_final(answer, inquiry)
        return answer, reply

    def _post(self, path: str, body: Mapping[str, Any]) -> Reply:
        stamp = timestamp(now())
        signed = {
            "partner_id": self._partner_id,
            "timestamp": stamp,
            "signature": signature(self._key, self._partner_id, stamp),
        }
        return self._api.fetch("POST", path, json={**signed, **body})

    def _signed(self, reply: Reply) -> Answer:
        """Return the answer, checked for our signature.

        Raises Unavailable or RequestRejected.
        """
        answer = Answer(self._api.read_object(reply))
        if not self._is_ours(answer):
            raise unavailable_error(SOURCE, "answered with a wrong signature")
        return answer


def timestamp(at: datetime) -> str:
    """Return the time as `2026-11-20T06:10:02.123Z`."""
    text = at.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def signature(api_key: str, partner_id: str, stamp: str) -> str:
    signed = f"{stamp}{partner_id}sid_request".encode()
    return b64encode(hmac.digest(api_key.encode(), signed, "sha256")).decode()


def _query(inquiry: Inquiry) -> tuple[str, dict[str, str]]:
    """Return the path, and the number with the type under which to look it up."""
    subject = inquiry.subject
    # No check needs a photo, and keeping one would be a burden.
    kinds = {
        ("IDENTITY", "idNumber"): (ID_PATH, "NATIONAL_ID_NO_PHOTO"),
        ("KRA_PIN", "kraPin"): (ID_PATH, "TAX_INFORMATION"),
        ("KRA_PIN", "idNumber"): (ID_PATH, "KRA_PIN"),
        ("BUSINESS_VERIFICATION", "registrationNumber"): (
            BUSINESS_PATH,
            "BASIC_BUSINESS_REGISTRATION",
        ),
    }
    for (check, key), (path, kind) in kinds.items():
        if check != inquiry.check or not subject.get(key):
            continue
        number = upper_number(subject[key])
        if key == "idNumber":
            number = national_id(subject, SOURCE)
        if path == BUSINESS_PATH:
            number = company_number(number)
        query = {"country": "KE", "id_type": kind, "id_number": number}
        if path == BUSINESS_PATH and subject.get("postalAddress"):
            # Kenya's register gives the whole extract only for a known address.
            query["id_type"] = "BUSINESS_REGISTRATION"
            query["postal_address"] = str(subject["postalAddress"])
            query["postal_code"] = str(subject.get("postalCode") or "")
        return path, query
    raise refused_error(SOURCE, f"cannot be asked this for {inquiry.check}")


def _outcome(answer: Record) -> Outcome:
    code = str(answer.get("ResultCode"))
    if code not in RESULTS:
        shown = printable_code(code)
        logger.warning("Smile ID answered with the unknown code %s", shown)
    return RESULTS.get(code, ("LATER", ""))[0]


def _error(e: RequestRejected) -> str:
    return str(Record.of(e.answer).get("code", ""))


def _failure(e: RequestRejected) -> Exception:
    code = _error(e)
    if code not in ERRORS:
        shown = printable_code(code)
        logger.warning("Smile ID refused with the unknown code %s", shown)
        return e
    outcome, why = ERRORS[code]
    if outcome == "LATER":
        return unavailable_error(SOURCE, why)
    return refused_error(SOURCE, f"{why} (code {code})")


def _check_final(answer: Record, inquiry: Inquiry) -> None:
    if str(answer.get("IsFinalResult", "true")).lower() != "true":
        raise _pending_error(inquiry)


def _pending_error(inquiry: Inquiry, pause: float = PAUSE) -> Exception:
    late = f"{SOURCE} has been at work on this for too long."
    return findings.pending_error(inquiry, now(), pause, late)


def identity(subject: Subject, answer: Answer | None, **evidence: Any) -> Finding:
    found = answer or Answer()
    more = Answer(
        {
            re.sub("[^a-z]", "", key.casefold()): value
            for key, value in found.record("FullData").items()
        }
    )
    born_on = found.day("DOB")
    person = findings.Person(
        name=found.text("FullName"),
        born_on=born_on,
        gender=found.text("Gender"),
        serial_number=more.text("serialnumber"),
        citizenship=more.text("citizenship"),
        place_of_birth=more.text("placeofbirth"),
        is_dead=findings.is_death(more, "dateofdeath", "dod", born_on=born_on),
    )
    return findings.identity_finding(subject, person if answer else None, **evidence)


def taxpayer(subject: Subject, answer: Answer | None, **evidence: Any) -> Finding:
    found = answer or Answer()
    pin = subject.get("kraPin") or found.text("Secondary_ID_Number")
    record = findings.Taxpayer(
        pin=pin,
        name=found.text("FullName"),
        kind=findings.taxpayer_kind(pin) if answer else None,
        address=found.text("Address"),
    )
    return findings.pin_finding(subject, record, is_found=bool(answer), **evidence)


def business(subject: Subject, answer: Answer | None, **evidence: Any) -> Finding:
    if not answer:
        return findings.company_finding(subject, None, **evidence)
    record = answer.record("company_information")
    kind = record.code("company_type")
    company = findings.Company(
        name=record.text("legal_name"),
        kind=TYPES.get(kind or "", kind),
        status=findings.company_status(SOURCE, record.code("status")),
        incorporated_on=record.day("registration_date"),
        address=record.text("address"),
        directors=_directors(answer),
        shareholders=_shareholders(answer),
    )
    return findings.company_finding(subject, company, **evidence)


def _directors(answer: Answer) -> list[dict[str, Any]] | None:
    """Return the people of all lists, or None if the answer has no list."""
    roles = {"directors": "DIRECTOR", "proprietors": "PROPRIETOR", "fiduciaries": None}
    if not any(isinstance(answer.get(key), list) for key in roles):
        return None
    return [
        findings.director(
            each.text("name"),
            role or each.code("fiduciary_type"),
            each.text("nationality"),
        )
        for key, role in roles.items()
        for each in answer.records(key)
    ]


def _shareholders(answer: Answer) -> list[dict[str, Any]] | None:
    if not isinstance(answer.get("beneficial_owners"), list):
        return None
    return [_shareholder(each) for each in answer.records("beneficial_owners")]


def _shareholder(owner: Answer) -> dict[str, Any]:
    shares = (owner.text("shareholdings") or "").replace(",", "")
    amount = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?) ?(%?)", shares)
    number = float(amount[1]) if amount else None
    is_percent = bool(amount and amount[2])
    return {
        "fullName": owner.text("name"),
        "shares": None if is_percent or number is None else int(number),
        "percent": number if is_percent else None,
    }


READERS = {
    "IDENTITY": identity,
    "KRA_PIN": taxpayer,
    "BUSINESS_VERIFICATION": business,
}
