"""People at Smile ID, by its interface V3, which answers by callbacks only.

We begin a job with a token and the subject's consent, and Smile ID chooses its id. We
cannot begin a job under an id of our own, so we never begin one twice: we wait for a
job that Smile ID may have taken. A job's status tells whether it runs or has failed,
and nothing about the person. If a job has ended and no callback came, we ask Smile ID
to send it again. A status alone never completes a check.

A callback's signature covers its time and our partner number, not its body. Each job
therefore carries a proof made with the API key. Smile ID repeats it in the body's
`partner_params`, and nobody else can know it.

The published specification (github.com/smileidentity/api-reference, September 2026) and
the official client `usesmileid` 12.1 confirm: token, job, status, replay, their errors,
and that the job is a multipart form. Several working clients, quoting
docs.usesmileid.com, agree on callbacks: headers, signature, `status`, `reason`,
`partner_params` and `id_fields`.

Unconfirmed: which `id_fields` come for a Kenyan ID number; the full list of reasons to
block; whether the signature uses leading zeros of our number (we accept both); what
Smile ID charges for a failed job (we count it as charged). V3 has no companies, and its
answers about PINs are unpublished, so these checks stay with v1 (`smile_id`).
"""

import hmac
import json
import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from verification.providers.base import (
    AnswerPending,
    BadSignature,
    Callback,
    Cause,
    ConsentEvidence,
    Finding,
    Inquiry,
    PendingInquiry,
    Provider,
    ProviderError,
    Subject,
    Unavailable,
)
from verification.providers.findings import MAX_WAIT, MEDIUM, Person, identity_finding
from verification.providers.http_api import (
    Api,
    Record,
    Reply,
    TokenCache,
    is_same_number,
    is_signature,
    join_words,
    national_id,
    refused_error,
    require_covered_country,
    unavailable_error,
)
from verification.providers.smile_id import Answer, signature, timestamp
from verification.values.clock import now

logger = logging.getLogger(__name__)

SOURCE = "Smile ID (V3)"
# For each call. A check may need six: a token, its state, a callback, a repeat of each.
SECONDS = 8.0
# Tokens live for 15 minutes.
TOKEN_LIFE = 14 * 60.0
# Time between requests for the status of a job without a callback.
PAUSE = timedelta(minutes=1)
# Smile ID signs a callback when it sends it; an older signature is refused.
MAX_AGE = timedelta(hours=1)
JOB = re.compile(r"job_[0-9a-z]{26}")
NAME = re.compile(r"([A-Za-z0-9-]{1,64})-([1-9][0-9]{0,3})")
# Refusals to begin a job, by status.
REFUSALS = {
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


class SmileIdV3(Provider):
    name = "smile_id_v3"
    longest_seconds = 6 * SECONDS
    countries = frozenset({"KE"})
    not_told = {
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
        self._api = Api(SOURCE, url, opened=opened, seconds=SECONDS, refusals=REFUSALS)
        self._token = TokenCache(self._ask_token, SECONDS)

    def missing_requirement(
        self, subject: Subject, given: ConsentEvidence | None
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
            raise refused_error(SOURCE, f"does not answer {inquiry.check}")
        require_covered_country(self, inquiry.subject, SOURCE)
        begun = inquiry.begun
        if begun is None:
            raise self._begin(inquiry)
        if begun.answer is None:
            raise self._wait(begun)
        return self._read(inquiry, begun.answer, begun.job)

    def read_callback(
        self, body: bytes, headers: Mapping[str, str], at: datetime
    ) -> Callback | None:
        """Return the answer to store, or None for a job of another service.

        Raises BadSignature unless signature and proof are right.
        """
        if not self._is_signed(headers, at):
            raise BadSignature
        try:
            text = body.decode()
            answer = Answer.of(json.loads(text))
        except (ValueError, RecursionError):
            raise BadSignature from None
        params = answer.record("partner_params")
        if "reference" not in params:
            logger.warning("%s called back about a job that is not ours", SOURCE)
            return None
        name, proof = str(params["reference"]), str(params.get("proof"))
        known = NAME.fullmatch(name)
        if not known or not is_signature(proof, self._proof(name)):
            raise BadSignature
        if answer.get("status") == "processing":
            return None
        return Callback(known[1], int(known[2]), str(answer.get("job_id"))[:64], text)

    def _is_signed(self, headers: Mapping[str, str], at: datetime) -> bool:
        stamp = headers.get("Response-Timestamp", "")
        signed = headers.get("Response-Signature", "")
        numbers = {self._partner_id, self._partner_id.lstrip("0")}
        if not any(
            is_signature(signed, signature(self._key, n, stamp)) for n in numbers
        ):
            return False
        try:
            return abs(at - datetime.fromisoformat(stamp)) <= MAX_AGE
        except (TypeError, ValueError):
            return False

    def _proof(self, name: str) -> str:
        proved = f"{self.name}:{name}".encode()
        return hmac.digest(self._key.encode(), proved, "sha256").hex()

    def _begin(self, inquiry: Inquiry) -> Exception:
        """Begin the job. Returns the exception to raise until its callback comes."""
        subject, given = inquiry.subject, inquiry.given
        lacking = self.missing_requirement(subject, given)
        if given is None or lacking:
            return refused_error(SOURCE, f"needs {lacking}")
        name = f"{inquiry.reference}-{inquiry.attempt}"
        contacts = {"email": subject.get("email"), "phone_number": subject.get("phone")}
        contact = next({key: value} for key, value in contacts.items() if value)
        names = subject["firstName"], subject.get("middleName")
        parts = {
            "country": "KE",
            # No check needs a photo, and keeping one would be a burden.
            "id_type": "NATIONAL_ID_NO_PHOTO",
            "id_number": national_id(subject, SOURCE),
            "callback_url": self._callback_url,
            "user_details": {
                "given_names": " ".join(filter(None, names)),
                "last_name": subject["lastName"],
                **contact,
            },
            "consent": {
                "granted": True,
                "granted_at": timestamp(given.at),
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
        return self._read_begun(reply)

    def _read_begun(self, reply: Reply) -> Exception:
        """Return the exception for the answer to a new job."""
        if reply.status == NO_MONEY:
            why = "has no balance left for the account"
            return unavailable_error(SOURCE, why, may_be_charged=False)
        try:
            job = Record.of(self._api.read(reply)).get("job_id")
        except Unavailable as e:
            # After a 2xx that broke off, the job exists all the same.
            return _answer_pending() if e.may_be_charged else e
        except ProviderError as e:
            return e
        return _answer_pending(
            job if isinstance(job, str) and JOB.fullmatch(job) else ""
        )

    def _wait(self, begun: PendingInquiry) -> Exception:
        """Return the exception for a job whose callback has not come."""
        status = self._status(begun.job) if begun.job else ""
        if status in {"error", "not_found"}:
            return unavailable_error(SOURCE, f"ended the job with status {status}")
        if now() - begun.at > MAX_WAIT:
            why = "did not call back in time"
            return unavailable_error(SOURCE, why, cause=Cause.TIMEOUT)
        if status in {"clear", "block", "attention"}:
            # The job has ended: ask for another callback.
            try:
                self._fetch("POST", f"/v3/replay/{begun.job}")
            except ProviderError as e:
                logger.warning("%s: no request for a new callback: %s", SOURCE, e.code)
        return _answer_pending(begun.job)

    def _status(self, job: str) -> str:
        """Return the job's status, or "" if it is unknown: the job may still run."""
        try:
            reply = self._fetch("GET", f"/v3/status/{job}")
        except ProviderError:
            return ""
        answer = reply.parsed() if reply.status in {200, 202, 404} else None
        if not isinstance(answer, dict) or answer.get("job_id") != job:
            return ""
        return str(answer.get("status"))

    def _read(self, inquiry: Inquiry, body: str, job: str) -> Finding:
        """Make the finding from the body of a callback with a valid proof."""
        reply = Reply(200, body.encode())
        answer = Answer.of(reply.parsed())
        if not answer or job not in {"", answer.get("job_id")}:
            raise unavailable_error(SOURCE, "called back about another job")
        status, reason = answer.get("status"), str(answer.get("reason"))
        evidence = {
            "source": self.name,
            "provider_reference": answer.text("job_id"),
            "response_digest": reply.digest,
        }
        if status == "block" and reason == NOT_FOUND:
            return identity(inquiry.subject, None, **evidence)
        if status == "block":
            why = reason if reason in BLOCKED else "a reason that is not known"
            raise refused_error(SOURCE, f"tells no record ({why})")
        fields = answer.record("id_fields")
        if status not in {"clear", "attention"} or not fields:
            why = f" ({reason})" if status == "error" and reason in TRIED else ""
            raise unavailable_error(SOURCE, f"could not answer{why}")
        number = fields.text("id_number")
        if number and not is_same_number(number, inquiry.subject.get("idNumber")):
            raise unavailable_error(SOURCE, "answered about something else")
        found = identity(inquiry.subject, fields, **evidence)
        if status == "clear":
            return found
        # Smile ID is in doubt, so the record is not clean.
        found = replace(found, is_whole=False)
        if (found.score or 0) >= MEDIUM:
            return found
        summary = found.summary if found.flags else UNSURE
        return replace(found, score=None, summary=summary)

    def _language(self, given: ConsentEvidence) -> str:
        return (given.language or self._attested_language).upper()

    def _fetch(
        self, method: str, path: str, parts: Mapping[str, Any] | None = None
    ) -> Reply:
        def send(bearer: str) -> Reply:
            headers = {
                "SmileID-Token": bearer,
                "SmileID-Partner-ID": self._partner_id.lstrip("0"),
            }
            return self._api.fetch(method, path, parts=parts, headers=headers)

        return self._token.fetch(send, lambda reply: reply.status == 401)

    def _ask_token(self) -> tuple[str, float]:
        headers = {
            "smileid-partner-id": self._partner_id.lstrip("0"),
            "smileid-api-key": self._key,
        }
        bearer, _ = self._api.ask_token("POST", "/v3/token", "token", headers=headers)
        return bearer, TOKEN_LIFE


def identity(subject: Subject, fields: Answer | None, **evidence: Any) -> Finding:
    """Make the finding from `id_fields` of a callback.

    V3 documents only names, date of birth and gender. It tells no deaths.
    """
    found = fields or Answer()
    parts = map(found.text, ("first_name", "other_names", "last_name"))
    person = Person(
        name=found.text("full_name") or join_words(*parts),
        born_on=found.day("date_of_birth"),
        gender=found.text("gender"),
    )
    return identity_finding(subject, person if fields else None, **evidence)


def _evidence(given: ConsentEvidence) -> list[dict[str, str]]:
    """Return how the subject consented, and to which text, as `metadata`."""
    values = {
        "consent_method": given.how,
        "consent_notice_version": given.notice,
        "consent_notice_sha256": given.sha256,
    }
    return [{"name": name, "value": value} for name, value in values.items() if value]


def _answer_pending(job: str = "") -> AnswerPending:
    return AnswerPending(now() + PAUSE, job)
