"""People, PINs and companies at Smile ID, by its signed REST interface (v1).

https://docs.usesmileid.com/products/for-individuals-kyc/identity-lookup

A job has an id of ours, and a second job of the same id is not begun: what was asked
before a crash or a lost answer is read again instead of being paid for twice.

With an address for callbacks jobs are only begun, and Smile ID asks the registers for
as long as these need. Its callback is a hint: the answer is read from the job's status.
"""

from __future__ import annotations

import hmac
import json
import logging
import re
import time
from base64 import b64encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal

from verification.providers.base import (
    BadSignature,
    Finding,
    Inquiry,
    NotTold,
    Refused,
    covers_subject,
)
from verification.providers.http_api import (
    FOREIGN,
    REFUSED,
    Api,
    Reply,
    RequestRejected,
    unavailable_error,
)
from verification.providers.scoring import pending_error
from verification.providers.smile_id_answers import (
    business,
    identity,
    taxpayer,
    text_or_none,
)

logger = logging.getLogger(__name__)

SOURCE = "Smile ID"
ID_PATH, BUSINESS_PATH = "/v1/id_verification", "/v1/business_verification"
STATUS_PATH = "/v1/job_status"
# All calls of one check end before its lease does.
SECONDS, TOGETHER = 10.0, 35.0
PAUSE = 10.0
# How soon a job is asked about whose callback does not come.
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
# In answers of status 4xx. An unknown one is refused as well.
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
READERS = {
    "IDENTITY": identity,
    "KRA_PIN": taxpayer,
    "BUSINESS_VERIFICATION": business,
}


@dataclass(frozen=True, slots=True)
class _Job:
    path: str
    user_id: str
    job_id: str
    asked: Mapping[str, str]


class SmileId:
    name: ClassVar[str] = "smile_id"
    waits_on_network: ClassVar[bool] = True
    repeats_are_free: ClassVar[bool] = True
    countries: ClassVar[frozenset[str]] = frozenset({"KE"})
    not_told: ClassVar[NotTold] = {
        "KRA_PIN": ("pinStatus", "taxStation", "obligations")
    }

    def __init__(
        self,
        partner_id: str,
        api_key: str,
        url: str = "https://api.smileidentity.com",
        opened: Collection[str] = (),
        callback_url: str = "",
    ) -> None:
        self._partner_id, self._key = partner_id, api_key
        self._callback_url = callback_url
        self._api = Api(SOURCE, url, opened=opened, seconds=SECONDS)

    def ask(self, inquiry: Inquiry) -> Finding:
        if not covers_subject(self, inquiry.subject):
            raise Refused(REFUSED, FOREIGN.format(SOURCE))
        path, asked = _question(inquiry)
        answer, reply = self._answered(path, asked, inquiry)
        return READERS[inquiry.check](
            inquiry.subject,
            answer if _outcome(answer) == "FOUND" else None,
            source=self.name,
            provider_reference=text_or_none(answer.get("SmileJobID")),
            response_digest=reply.digest,
        )

    def read_callback(self, body: bytes) -> str:
        """The job it is about, if it is signed with our key; raises BadSignature.

        The signature does not cover the rest, so nothing else of it is read.
        """
        try:
            told = json.loads(body)
            if not isinstance(told, dict) or not self._is_ours(told):
                raise BadSignature
        except (ValueError, RecursionError):
            raise BadSignature from None
        params = told.get("PartnerParams")
        job = str(params.get("job_id")) if isinstance(params, dict) else ""
        return job if re.fullmatch(r"[A-Za-z0-9-]{1,64}", job) else ""

    def _is_ours(self, told: Mapping[str, Any]) -> bool:
        stamp, given = str(told.get("timestamp")), str(told.get("signature"))
        wanted = signature(self._key, self._partner_id, stamp)
        return hmac.compare_digest(given.encode(), wanted.encode())

    def _answered(
        self, path: str, asked: Mapping[str, str], inquiry: Inquiry
    ) -> tuple[dict[str, Any], Reply]:
        """The answer to the latest job; each try may begin one more than the last."""
        end = time.monotonic() + TOGETHER
        for nth in range(1, inquiry.attempt + 1):
            job_id = inquiry.reference if nth == 1 else f"{inquiry.reference}-{nth}"
            job = _Job(path, str(inquiry.result_id), job_id, asked)
            answer, reply, is_new = self._begin(job, inquiry)
            self._check(answer, job)
            outcome = _outcome(answer)
            if outcome in {"FOUND", "NOT_FOUND"}:
                return answer, reply
            _, why = RESULTS.get(str(answer.get("ResultCode")), ("LATER", ""))
            if outcome == "REFUSED":
                raise Refused(REFUSED, f"{SOURCE} {why}.")
            if is_new or time.monotonic() > end:
                break
        raise unavailable_error(SOURCE, why or "gave an answer that is not understood")

    def _begin(self, job: _Job, inquiry: Inquiry) -> tuple[dict[str, Any], Reply, bool]:
        """Its answer, and whether the job has only now been begun."""
        params = {"job_id": job.job_id, "user_id": job.user_id}
        body = {
            **job.asked,
            "partner_params": {**params, "job_type": KINDS[job.path]},
            "source_sdk": "rest_api",
            "source_sdk_version": "1.0.0",
        }
        path = job.path
        if self._callback_url:
            path, body["callback_url"] = ASYNC[path], self._callback_url
        reply = self._post(path, body)
        if self._callback_url and reply.status == 200 and _is_taken(reply):
            raise _pending_error(inquiry, CALLBACK_WAIT)
        try:
            answer = self._signed(reply)
        except RequestRejected as e:
            if _error(e) != KNOWN_JOB:
                raise _failure(e) from None
            return *self._earlier(params, inquiry), False
        _check_final(answer, inquiry)
        return answer, reply, True

    def _earlier(
        self, params: dict[str, str], inquiry: Inquiry
    ) -> tuple[dict[str, Any], Reply]:
        wanted = {**params, "image_links": False, "history": False}
        reply = self._post(STATUS_PATH, wanted)
        try:
            status = self._signed(reply)
        except RequestRejected:
            # The job may have been paid for: another one would be paid for again.
            told = "knows the job, and does not tell its answer"
            raise unavailable_error(SOURCE, told) from None
        answer = status.get("result")
        if str(status.get("job_complete")).lower() != "true":
            raise _pending_error(inquiry)
        if not isinstance(answer, dict):
            raise unavailable_error(SOURCE, "ended the job without an answer")
        _check_final(answer, inquiry)
        return answer, reply

    def _post(self, path: str, body: Mapping[str, Any]) -> Reply:
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        stamp = stamp.replace("+00:00", "Z")
        signed = {
            "partner_id": self._partner_id,
            "timestamp": stamp,
            "signature": signature(self._key, self._partner_id, stamp),
        }
        return self._api.fetch("POST", path, json={**signed, **body})

    def _signed(self, reply: Reply) -> dict[str, Any]:
        """The answer, if it is signed with our key. Raises Unavailable or Declined."""
        answer = self._api.read(reply)
        if not isinstance(answer, dict):
            raise unavailable_error(SOURCE, "answered with JSON that is no object")
        if not self._is_ours(answer):
            raise unavailable_error(SOURCE, "answered with a wrong signature")
        return answer

    def _check(self, answer: dict[str, Any], job: _Job) -> None:
        """That it is about what was asked: the signature does not cover the rest."""
        params = answer.get("PartnerParams")
        echoed = params.get("job_id") if isinstance(params, dict) else None
        number = text_or_none(answer.get("IDNumber"))
        if echoed != job.job_id or number not in {None, job.asked["id_number"]}:
            raise unavailable_error(SOURCE, "answered about something else")
        if _outcome(answer) == "FOUND":
            actions = answer.get("Actions")
            done = actions.get(VERIFIED[job.path]) if isinstance(actions, dict) else ""
            if done != "Verified":
                raise unavailable_error(SOURCE, "found a record and did not verify it")


def signature(api_key: str, partner_id: str, timestamp: str) -> str:
    signed = f"{timestamp}{partner_id}sid_request".encode()
    return b64encode(hmac.digest(api_key.encode(), signed, "sha256")).decode()


def _question(inquiry: Inquiry) -> tuple[str, dict[str, str]]:
    """The path, and which number is looked up as what."""
    subject = inquiry.subject
    # A photo is of no use to any check, and a burden to whoever holds it.
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
        number = re.sub(r"\s", "", str(subject[key])).upper()
        asked = {"country": "KE", "id_type": kind, "id_number": number}
        if path == BUSINESS_PATH and subject.get("postalAddress"):
            # In Kenya the whole extract is given only to who knows the address.
            asked["id_type"] = "BUSINESS_REGISTRATION"
            asked["postal_address"] = str(subject["postalAddress"])
            asked["postal_code"] = str(subject.get("postalCode") or "")
        return path, asked
    raise Refused(REFUSED, f"{SOURCE} cannot be asked this for {inquiry.check}.")


def _outcome(answer: Mapping[str, Any]) -> Outcome:
    code = str(answer.get("ResultCode"))
    if code not in RESULTS:
        shown = code if re.fullmatch(r"\w{1,8}", code) else "?"
        logger.warning("Smile ID answered with code %s, which is not known", shown)
    return RESULTS.get(code, ("LATER", ""))[0]


def _error(e: RequestRejected) -> str:
    return str(e.answer.get("code")) if isinstance(e.answer, dict) else ""


def _failure(e: RequestRejected) -> Exception:
    code = _error(e)
    if code not in ERRORS:
        shown = code if re.fullmatch(r"\w{1,8}", code) else "?"
        logger.warning("Smile ID refused with code %s, which is not known", shown)
        return e
    outcome, why = ERRORS[code]
    if outcome == "LATER":
        return unavailable_error(SOURCE, why)
    return Refused(REFUSED, f"{SOURCE} {why} (code {code}).")


def _check_final(answer: Mapping[str, Any], inquiry: Inquiry) -> None:
    if str(answer.get("IsFinalResult", "true")).lower() != "true":
        raise _pending_error(inquiry)


def _is_taken(reply: Reply) -> bool:
    return reply.parsed() == {"success": True}


def _pending_error(inquiry: Inquiry, pause: float = PAUSE) -> Exception:
    late = f"{SOURCE} has been at work on this for too long."
    return pending_error(inquiry, datetime.now(UTC), pause, late)
