"""People at Smile ID, by its interface V3: jobs whose answer comes by a callback alone.

A job is begun by a token, with the subject's consent in it, and has an id of theirs.
Nothing can be begun under an id of ours, so nothing is begun twice: a job that may have
been taken is waited for. Its status tells whether it still runs or has failed, and
nothing of the person. A job that has ended without a callback here is asked to call
back again; a check never completes by a status.

The signature of a callback covers its time and our number, not its body. So each job is
given a proof, made with the API key, which Smile ID repeats in `partner_params` of the
body and nobody else can know.

Confirmed by the published specification (github.com/smileidentity/api-reference,
September 2026) and the official client `usesmileid` 12.1: token, job, status, replay,
their errors, and that the job is a multipart form. Told by several clients that work,
and quoted by them from docs.usesmileid.com: the headers and the signature of callbacks,
`status`, `reason`, `partner_params` and `id_fields` in them. Not confirmed: which of
`id_fields` come for a Kenyan ID number, all reasons to block, whether the signature is
made with leading zeros in our number (both are taken), and what of a failed job is
charged (it counts as charged). V3 knows no companies; what it answers about PINs is not
published, so these stay with v1 (`smile_id`).
"""

from __future__ import annotations

import hmac
import json
import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from verification.providers.base import (
    AnswerPending,
    BadSignature,
    Callback,
    ConsentEvidence,
    Finding,
    Inquiry,
    NotTold,
    PendingInquiry,
    ProviderError,
    Refused,
    Unavailable,
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
from verification.providers.scoring import MAX_WAIT, MEDIUM
from verification.providers.smile_id import signature
from verification.providers.smile_id_answers import identity_v3, text_or_none
from verification.providers.tokens import TokenCache

logger = logging.getLogger(__name__)

SOURCE = "Smile ID (V3)"
# A token and a job, and each of them again, end before the check's lease does.
SECONDS = 8.0
# Tokens live for 15 minutes.
TOKEN_LIFE = 14 * 60.0
# How often a job is asked about whose callback does not come.
PAUSE = timedelta(minutes=1)
# Callbacks are signed when they are sent.
MAX_AGE = timedelta(hours=1)
JOB = re.compile(r"job_[0-9a-z]{26}")
NAME = re.compile(r"([A-Za-z0-9-]{1,64})-([1-9][0-9]{0,3})")
# In answers to a job that is not begun. Those that are not here are refused as well.
ERRORS = {
    400: "does not take a value of the request",
    401: "does not take the credentials",
    403: "has not enabled the product, our address or the callback's for the account",
    413: "does not take a request of this size",
    415: "does not take this form of request",
}
NO_MONEY = 402
BLOCKED = "high_risk", "age_requirement_not_met", "account_locked_fraud"
NOT_FOUND = "identifier_not_found"
TRIED = "service_unavailable", "internal_error"
UNSURE = "The record matches; Smile ID wants a person to look at it."


class SmileIdV3:
    name: ClassVar[str] = "smile_id_v3"
    waits_on_network: ClassVar[bool] = True
    # A job that is begun once more is paid for once more.
    repeats_are_free: ClassVar[bool] = False
    countries: ClassVar[frozenset[str]] = frozenset({"KE"})
    not_told: ClassVar[NotTold] = {
        "IDENTITY": ("serialNumber", "citizenship", "placeOfBirth", "lifeStatus")
    }

    def __init__(
        self,
        partner_id: str,
        api_key: str,
        callback_url: str,
        policy_url: str,
        url: str = "https://api.smileidentity.com",
        opened: Collection[str] = (),
        *,
        attested_language: str = "",
    ) -> None:
        self._partner_id, self._key = partner_id, api_key
        self._callback_url, self._policy_url = callback_url, policy_url
        self._attested_language = attested_language
        self._api = Api(SOURCE, url, opened=opened, seconds=SECONDS)
        self._token = TokenCache(self._ask_token, SECONDS)

    def missing_requirement(
        self, subject: Mapping[str, Any], given: ConsentEvidence | None
    ) -> str:
        if not (subject.get("firstName") and subject.get("lastName")):
            return "the subject's given names and last name"
        if not (subject.get("email") or subject.get("phone")):
            return "the subject's e-mail address or phone number"
        if given is None or not self._language(given):
            return "the language of the notice that the subject agreed to"
        return ""

    def ask(self, inquiry: Inquiry) -> Finding:
        if inquiry.check != "IDENTITY":
            raise Refused(REFUSED, f"{SOURCE} does not answer {inquiry.check}.")
        if not covers_subject(self, inquiry.subject):
            raise Refused(REFUSED, FOREIGN.format(SOURCE))
        begun = inquiry.begun
        if begun is None:
            raise self._begin(inquiry)
        if begun.answer is None:
            raise self._waits(begun)
        return self._read(inquiry, begun.answer, begun.job)

    def read_callback(
        self, body: bytes, headers: Mapping[str, str], at: datetime
    ) -> Callback | None:
        """Return the answer to keep, or None if it answers no job of ours.

        Raises BadSignature unless signature and proof show that Smile ID sent it.
        """
        if not self._is_signed(headers, at):
            raise BadSignature
        try:
            text = body.decode()
            answer = json.loads(text)
        except (ValueError, RecursionError):
            raise BadSignature from None
        params = answer.get("partner_params") if isinstance(answer, dict) else None
        if not isinstance(params, dict) or "reference" not in params:
            logger.warning("%s called back about a job that is not ours", SOURCE)
            return None
        name, proof = str(params["reference"]), str(params.get("proof"))
        known = NAME.fullmatch(name)
        if not known or not _equals(proof, self._proof(name)):
            raise BadSignature
        if answer.get("status") == "processing":
            return None
        return Callback(known[1], int(known[2]), str(answer.get("job_id"))[:64], text)

    def _is_signed(self, headers: Mapping[str, str], at: datetime) -> bool:
        stamp = headers.get("Response-Timestamp", "")
        given = headers.get("Response-Signature", "")
        numbers = {self._partner_id, self._partner_id.lstrip("0")}
        if not any(_equals(given, signature(self._key, n, stamp)) for n in numbers):
            return False
        try:
            return abs(at - datetime.fromisoformat(stamp)) <= MAX_AGE
        except (TypeError, ValueError):
            return False

    def _proof(self, name: str) -> str:
        proved = f"{self.name}:{name}".encode()
        return hmac.digest(self._key.encode(), proved, "sha256").hex()

    def _begin(self, inquiry: Inquiry) -> Exception:
        """Begin the job; what to raise until its callback has come."""
        subject, given = inquiry.subject, inquiry.given
        lacking = self.missing_requirement(subject, given)
        if given is None or lacking:
            return Refused(REFUSED, f"{SOURCE} has to be told {lacking}.")
        name = f"{inquiry.reference}-{inquiry.attempt}"
        reach = {"email": subject.get("email"), "phone_number": subject.get("phone")}
        reached = next({key: value} for key, value in reach.items() if value)
        names = subject["firstName"], subject.get("middleName")
        parts = {
            "country": "KE",
            # A photo is of no use to any check, and a burden to whoever holds it.
            "id_type": "NATIONAL_ID_NO_PHOTO",
            "id_number": _number(subject.get("idNumber")),
            "callback_url": self._callback_url,
            "user_details": {
                "given_names": " ".join(filter(None, names)),
                "last_name": subject["lastName"],
                **reached,
            },
            "consent": {
                "granted": True,
                "granted_at": _utc(given.at),
                "notice_language": self._language(given),
                "notice_privacy_policy_url": self._policy_url,
            },
            "metadata": _evidence(given),
            "partner_params": {"reference": name, "proof": self._proof(name)},
        }
        try:
            reply = self._fetch("POST", "/v3/enhanced_kyc", parts)
        except Unavailable as e:
            if not e.may_be_charged:
                return e
            return _answer_pending()
        return self._taken(reply)

    def _taken(self, reply: Reply) -> Exception:
        if reply.status == NO_MONEY:
            told_of = "has no balance left for the account"
            return unavailable_error(SOURCE, told_of, may_be_charged=False)
        try:
            answer = self._api.read(reply)
        except RequestRejected as e:
            why = ERRORS.get(e.status)
            return Refused(REFUSED, f"{SOURCE} {why} ({e.status}).") if why else e
        except Unavailable as e:
            # A 2xx that broke off was taken all the same.
            return _answer_pending() if e.may_be_charged else e
        job = answer.get("job_id") if isinstance(answer, dict) else None
        return _answer_pending(
            job if isinstance(job, str) and JOB.fullmatch(job) else ""
        )

    def _waits(self, begun: PendingInquiry) -> Exception:
        """What to raise for a job whose callback has not come."""
        status = self._status(begun.job) if begun.job else ""
        if status in {"error", "not_found"}:
            return unavailable_error(SOURCE, f"ended the job with status {status}")
        if datetime.now(UTC) - begun.at > MAX_WAIT:
            return unavailable_error(SOURCE, "did not call back in time")
        if status in {"clear", "block", "attention"}:
            self._call_back_again(begun.job)
        return _answer_pending(begun.job)

    def _status(self, job: str) -> str:
        """Blank where it is not told: the job may be at work all the same."""
        try:
            reply = self._fetch("GET", f"/v3/status/{job}")
        except ProviderError:
            return ""
        answer = reply.parsed() if reply.status in {200, 202, 404} else None
        if not isinstance(answer, dict) or answer.get("job_id") != job:
            return ""
        return str(answer.get("status"))

    def _call_back_again(self, job: str) -> None:
        try:
            self._fetch("POST", f"/v3/replay/{job}")
        except ProviderError as e:
            logger.warning("%s is not asked to call back again: %s", SOURCE, e.code)

    def _read(self, inquiry: Inquiry, body: str, job: str) -> Finding:
        """The finding of a callback's body, which was shown to be Smile ID's."""
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or job not in {"", answer.get("job_id")}:
            raise unavailable_error(SOURCE, "called back about another job")
        status, reason = answer.get("status"), str(answer.get("reason"))
        reply = Reply(200, body.encode())
        evidence = {
            "source": self.name,
            "provider_reference": text_or_none(answer.get("job_id")),
            "response_digest": reply.digest,
        }
        if status == "block" and reason == NOT_FOUND:
            return identity_v3(inquiry.subject, None, **evidence)
        if status == "block":
            why = reason if reason in BLOCKED else "a reason that is not known"
            raise Refused(REFUSED, f"{SOURCE} tells no record ({why}).")
        fields = answer.get("id_fields")
        if status not in {"clear", "attention"} or not isinstance(fields, dict):
            why = f" ({reason})" if status == "error" and reason in TRIED else ""
            raise unavailable_error(SOURCE, f"could not answer{why}")
        asked = _number(inquiry.subject.get("idNumber"))
        number = text_or_none(fields.get("id_number"))
        # Registers that keep numbers as such leave out leading zeros.
        if number and _number(number).lstrip("0") != asked.lstrip("0"):
            raise unavailable_error(SOURCE, "answered about something else")
        found = identity_v3(inquiry.subject, fields, **evidence)
        if status == "attention" and (found.score or 0) < MEDIUM:
            # Somebody there is in doubt: that is not a clean record.
            summary = found.summary if found.flags else UNSURE
            return replace(found, score=None, summary=summary)
        return found

    def _language(self, given: ConsentEvidence) -> str:
        return (given.language or self._attested_language).upper()

    def _fetch(
        self, method: str, path: str, parts: Mapping[str, Any] | None = None
    ) -> Reply:
        """The answer to a call with a token, which is made anew where it has ended."""
        for _ in range(2):
            bearer = self._token.bearer()
            headers = {
                "SmileID-Token": bearer,
                "SmileID-Partner-ID": self._partner_id.lstrip("0"),
            }
            reply = self._api.fetch(method, path, parts=parts, headers=headers)
            if reply.status != 401:
                break
            self._token.drop(bearer)
        return reply

    def _ask_token(self) -> tuple[str, float]:
        headers = {
            "smileid-partner-id": self._partner_id.lstrip("0"),
            "smileid-api-key": self._key,
        }
        try:
            answer = self._api.call("POST", "/v3/token", headers=headers)
        except RequestRejected as e:
            why = f"does not take the credentials (status {e.status})"
            raise Refused(REFUSED, f"{SOURCE} {why}.") from None
        except Unavailable as e:
            # Nothing was asked yet that costs anything.
            raise Unavailable(e.code, e.message) from None
        bearer = answer.get("token") if isinstance(answer, dict) else None
        if not isinstance(bearer, str) or not bearer:
            why = "answered without a token"
            raise unavailable_error(SOURCE, why, may_be_charged=False)
        return bearer, TOKEN_LIFE


def _number(stated: Any) -> str:
    return re.sub(r"\s", "", str(stated or "")).upper()


def _evidence(given: ConsentEvidence) -> list[dict[str, str]]:
    """How consent was given, and to which text."""
    kept = {
        "consent_method": given.how,
        "consent_notice_version": given.notice,
        "consent_notice_sha256": given.sha256,
    }
    return [{"name": name, "value": value} for name, value in kept.items() if value]


def _equals(given: str, wanted: str) -> bool:
    """Compared in constant time. Header values may hold any character."""
    return hmac.compare_digest(given.encode(errors="replace"), wanted.encode())


def _utc(at: datetime) -> str:
    text = at.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _answer_pending(job: str = "") -> AnswerPending:
    return AnswerPending(datetime.now(UTC) + PAUSE, job)
