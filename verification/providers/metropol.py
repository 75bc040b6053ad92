"""Credit reports of Metropol CRB, Kenya, by its REST interface (v2_1).

Its guide is given to subscribers, as are the port and the keys. The hash is taken over
the very bytes that are sent, and members go in the order of the guide: an older client
was refused in any other.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, ClassVar, Literal

from verification.providers.base import (
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
from verification.providers.metropol_answers import accounts, score, standing
from verification.providers.scoring import pending_error

logger = logging.getLogger(__name__)

SOURCE = "Metropol"
SECONDS = 24.0
# The same question is not answered twice within this time.
REPEAT_WAIT = 60.0
PERSON, COMPANY = "001", "005"
# What is told to be lent, and why it is asked (3: to verify details).
LOAN = {"loan_amount": 10000}
REASON = {"report_reason": 3}

Outcome = Literal["FOUND", "NOT_FOUND", "NO_ANSWER", "CLOCK", "SAME", "REFUSED"]
CODES: dict[str, tuple[Outcome, str]] = {
    "": ("FOUND", ""),
    "200": ("FOUND", ""),
    "1010": ("FOUND", ""),
    "E017": ("NOT_FOUND", ""),
    "E019": ("NO_ANSWER", "has no answer at present"),
    "E002": ("REFUSED", "misses the key"),
    "E003": ("REFUSED", "does not authorise the account, or the port is another's"),
    "E004": ("REFUSED", "does not take the key"),
    "E016": ("REFUSED", "does not sell this report to the account"),
    "E018": ("REFUSED", "answers about test identities alone at this address"),
    "E023": ("REFUSED", "misses the time of the request"),
    "E024": ("CLOCK", "does not take the time of the request"),
    "E025": ("CLOCK", "does not take the time of the request"),
    "E026": ("REFUSED", "misses the hash"),
    "E027": ("REFUSED", "does not take the hash"),
    "E028": ("REFUSED", "does not take the credentials"),
    "E029": ("REFUSED", "does not sell this report to the account"),
    "E030": ("REFUSED", "does not take the credentials"),
    "E409": ("SAME", ""),
}


@dataclass(frozen=True, slots=True)
class ReportProduct:
    type: int
    path: str
    read: Callable[..., Finding]
    identity: str = PERSON
    also: Mapping[str, Any] = field(default_factory=dict)


SCORE = ReportProduct(3, "/score/consumer", score)
REPORTS = {
    "CRB_SCORE": SCORE,
    "CREDITBUREAU_SCORE": SCORE,
    "CREDITBUREAU_STATUS": ReportProduct(2, "/delinquency/status", standing, also=LOAN),
    "CRB_STANDARD": ReportProduct(
        8, "/report/credit_info", accounts, also=LOAN | REASON
    ),
    "CRB_FULL": ReportProduct(12, "/report/credit_info", accounts, also=LOAN | REASON),
    "CREDITBUREAU_COMP": ReportProduct(
        10, "/report/credit_info_enhanced", accounts, COMPANY, LOAN | REASON
    ),
}


class Metropol:
    name: ClassVar[str] = "metropol"
    waits_on_network: ClassVar[bool] = True
    repeats_are_free: ClassVar[bool] = False
    countries: ClassVar[frozenset[str]] = frozenset({"KE"})
    not_told: ClassVar[NotTold] = {
        "CRB_SCORE": ("scoreBand", "probabilityOfDefault"),
        "CRB_STANDARD": ("scoreBand",),
        "CRB_FULL": ("scoreBand",),
        "CREDITBUREAU_SCORE": ("scoreBand", "probabilityOfDefault"),
        "CREDITBUREAU_STATUS": ("totalOverdue", "clearanceCertificate"),
        "CREDITBUREAU_COMP": ("scoreBand",),
    }

    def __init__(
        self,
        public_key: str,
        private_key: str,
        url: str,
        opened: Collection[str] = (),
    ) -> None:
        self._public, self._private = public_key, private_key
        self._api = Api(SOURCE, url, opened=opened, seconds=SECONDS)

    def ask(self, inquiry: Inquiry) -> Finding:
        if not covers_subject(self, inquiry.subject):
            raise Refused(REFUSED, FOREIGN.format(SOURCE))
        report = REPORTS.get(inquiry.check)
        is_person = report is None or report.identity == PERSON
        key = "idNumber" if is_person else "registrationNumber"
        number = re.sub(r"\s", "", str(inquiry.subject.get(key) or ""))
        if report is None or not number:
            raise Refused(REFUSED, f"{SOURCE} cannot be asked this.")
        body = _body(report, number, inquiry)
        for _ in range(2):
            reply = self._post(report.path, body)
            answer = self._read(reply)
            outcome, why = _outcome(answer)
            if outcome != "CLOCK":
                break
        if outcome in {"CLOCK", "NO_ANSWER"}:
            raise unavailable_error(SOURCE, why)
        if outcome == "REFUSED":
            raise Refused(REFUSED, f"{SOURCE} {why}.")
        if outcome == "SAME":
            late = f"{SOURCE} has answered this before, and does not do so again."
            raise pending_error(inquiry, datetime.now(UTC), REPEAT_WAIT, late)
        found = outcome == "FOUND"
        data = _data(answer, number) if found else None
        evidence = {
            "source": self.name,
            "provider_reference": _reference(answer),
            "response_digest": reply.digest,
        }
        return report.read(inquiry, data, **evidence)

    def _post(self, path: str, body: bytes) -> Reply:
        stamp = f"{datetime.now(UTC):%Y%m%d%H%M%S%f}"
        headers = {
            "X-METROPOL-REST-API-KEY": self._public,
            "X-METROPOL-REST-API-HASH": request_hash(
                self._private, body, self._public, stamp
            ),
            "X-METROPOL-REST-API-TIMESTAMP": stamp,
        }
        return self._api.fetch("POST", path, body=body, headers=headers)

    def _read(self, reply: Reply) -> dict[str, Any]:
        try:
            answer = self._api.read(reply)
        except RequestRejected as e:
            # Their codes say more than the status, where there is one.
            if not isinstance(e.answer, dict) or not e.answer.get("api_code"):
                raise
            answer = e.answer
        if not isinstance(answer, dict):
            raise unavailable_error(SOURCE, "answered with JSON that is no object")
        return answer


def request_hash(private: str, body: bytes, public: str, stamp: str) -> str:
    signed = private.encode() + body + public.encode() + stamp.encode()
    return sha256(signed).hexdigest()


def _body(report: ReportProduct, number: str, inquiry: Inquiry) -> bytes:
    asked: dict[str, Any] = {
        "report_type": report.type,
        "identity_number": number,
        "identity_type": report.identity,
        **report.also,
    }
    if report.type == 10:
        asked["application_ref_no"] = inquiry.reference
    return json.dumps(asked, separators=(",", ":")).encode()


def _outcome(answer: Mapping[str, Any]) -> tuple[Outcome, str]:
    code = answer.get("api_code")
    code = "" if code is None else str(code)
    known = CODES.get(code)
    # Found with an error is as strange as a code that nobody knows.
    if known is None or (known[0] == "FOUND" and answer.get("has_error") is not False):
        shown = code if re.fullmatch(r"\w{1,8}", code) else "?"
        logger.warning("Metropol answered with code %s, which is not known", shown)
        told = f"answered with code {shown}, which is not understood"
        raise unavailable_error(SOURCE, told)
    return known


def _data(answer: Mapping[str, Any], number: str) -> dict[str, Any]:
    """Production may wrap in `data` what the test server tells beside the code."""
    inner = answer.get("data")
    data = inner if isinstance(inner, dict) else dict(answer)
    if str(data.get("identity_number", number)) != number:
        raise unavailable_error(SOURCE, "answered about somebody else")
    return data


def _reference(answer: Mapping[str, Any]) -> str | None:
    told = answer.get("trx_id")
    return told[:64] if isinstance(told, str) else None
