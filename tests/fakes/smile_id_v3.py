"""A fake of Smile ID's V3, after its specification, over a real socket.

def test_something(smile_id_v3):
    smile_id_v3.webhook_url = ...    # the target of callbacks; else `events` keeps them
    smile_id_v3.tells = {"status": "block", "reason": "identifier_not_found"}

The fake accepts jobs and ends them at once, or lets them run while `is_at_work`. Its
shapes come from github.com/smileidentity/api-reference, and the official client
`usesmileid` 12.1 accepts them. Clients of Smile ID quote the shapes of callbacks.
"""

import hmac
import json
import re
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from email.parser import BytesParser
from typing import Any, ClassVar

import pytest

from tests.fakes.server import Answer, FakeServer, Request
from verification.providers.smile_id_v3 import SmileIdV3

PARTNER, KEY = "085", "test-api-key"
POLICY = "https://reports.test/privacy"
CALLBACK = "https://reports.test/callbacks/smile-id-v3"
NUMBER = re.compile(r"[0-9]{1,9}")
PERSON = {
    "country": "KE",
    "id_type": "NATIONAL_ID_NO_PHOTO",
    "first_name": "JANE",
    "last_name": "KAMAU",
    "full_name": "JANE WANJIKU KAMAU",
    "date_of_birth": "1990-01-31",
    "gender": "F",
    "address": "Not Available",
}


class FakeSmileIdV3(FakeServer):
    api_prefixes: ClassVar = ("/v3/",)

    def __init__(self) -> None:
        super().__init__()
        # Job id -> the parts of its form, and the callback of each that has ended.
        self.jobs: dict[str, dict[str, Any]] = {}
        self.callbacks: dict[str, dict[str, Any]] = {}
        # Put over callbacks and over `id_fields`; what takes the place of an answer.
        self.tells: dict[str, Any] = {}
        self.person: dict[str, Any] = {}
        self.says: tuple[int, Any] | None = None
        self.is_at_work = False
        self.tokens = 0
        self.expired: set[str] = set()
        self.partner = PARTNER.lstrip("0")

    def adapter(self, **options: Any) -> SmileIdV3:
        return SmileIdV3(**{**self.options, **options})

    @property
    def options(self) -> dict[str, Any]:
        return {
            "partner_id": PARTNER,
            "api_key": KEY,
            "callback_url": CALLBACK,
            "policy_url": POLICY,
            "url": self.url,
            "opened": [self.host],
        }

    def asked(self, path: str) -> list[Request]:
        return [one for one in self.requests if one.path.startswith(path)]

    def api(self, request: Request) -> Answer:
        if request.path == "/v3/token":
            return self._token(request)
        token = request.headers.get("smileid-token", "")
        if not token.startswith("token-") or token in self.expired:
            return _error(401, "Invalid authentication credentials.")
        if request.path.startswith("/v3/status/"):
            return self._status(request.path.rpartition("/")[2])
        if request.path.startswith("/v3/replay/"):
            return self._replay(request.path.rpartition("/")[2])
        if self.says:
            return Answer(*self.says)
        return self._begin(request)

    def sign(self, body: bytes, secret: str | None = None) -> dict[str, str]:
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        return signed(stamp, secret or KEY, self.partner)

    def _token(self, request: Request) -> Answer:
        headers = request.headers
        if not re.fullmatch(r"[1-9]\d*", headers.get("smileid-partner-id", "")):
            return _error(400, "smileid-partner-id header is required.")
        if headers.get("smileid-api-key") != KEY:
            return _error(401, "Invalid authentication credentials.")
        self.tokens += 1
        return Answer(200, {"token": f"token-{self.tokens}"})

    def _begin(self, request: Request) -> Answer:
        form = parts(request)
        if form is None:
            return _error(415, "Required Content-Type is multipart/form-data")
        for name in ("country", "id_type", "id_number", "user_details", "consent"):
            if not form.get(name):
                return _error(400, f"Required field '{name}' is missing or invalid.")
        user, consent = form["user_details"], form["consent"]
        if isinstance(user, str) or isinstance(consent, str):
            return _error(400, "Required field 'consent' is missing or invalid.")
        if not (user.get("email") or user.get("phone_number")):
            return _error(400, "Either email or phone_number is required.")
        if not (user["given_names"] and user["last_name"]):
            return _error(400, "Required field 'given_names' is missing or invalid.")
        is_consent = (
            consent["granted"] is True
            and re.fullmatch("[A-Z]{2}", consent["notice_language"])
            and consent["notice_privacy_policy_url"].startswith("https://")
            and datetime.fromisoformat(consent["granted_at"]).tzinfo
        )
        if not is_consent or not NUMBER.fullmatch(form["id_number"]):
            return _error(400, "Invalid ID number format, or consent.")
        job = f"job_{len(self.jobs) + 1:026d}"
        self.jobs[job] = form
        if not self.is_at_work:
            self.end(job)
        return Answer(
            202,
            {
                "status": "Accepted",
                "message": "Request accepted and queued for processing.",
                "job_id": job,
                "user_id": "user_" + job[4:],
            },
        )

    def end(self, job: str) -> None:
        """The register has answered: Smile ID calls back."""
        form = self.jobs[job]
        status = self.tells.get("status", "clear")
        found = {**PERSON, "id_number": form["id_number"], **self.person}
        self.callbacks[job] = {
            "status": status,
            "reason": None,
            "message": "Verification successful",
            "product": "enhanced_kyc",
            "job_id": job,
            "user_id": "user_" + job[4:],
            "partner_params": {**form["partner_params"], "job_id": job},
            "id_fields": found if status in {"clear", "attention"} else None,
            **self.tells,
        }
        self.happened(self.callbacks[job])

    def _status(self, job: str) -> Answer:
        told = {"job_id": job, "user_id": "user_" + job[4:], "message": ""}
        if job not in self.jobs:
            return Answer(404, {**told, "status": "not_found"})
        if job not in self.callbacks:
            return Answer(202, {**told, "status": "processing"})
        status = self.callbacks[job]["status"]
        return Answer(200, {**told, "status": status, "message": "Job completed"})

    def _replay(self, job: str) -> Answer:
        if job not in self.callbacks:
            return _error(409, "Job is still processing.")
        self.happened(self.callbacks[job])
        return Answer(202, {"status": "accepted", "job_id": job})


def signed(stamp: str, key: str = KEY, partner: str = "85") -> dict[str, str]:
    mac = hmac.new(key.encode(), f"{stamp}{partner}sid_request".encode(), "sha256")
    signature = b64encode(mac.digest()).decode()
    return {"Response-Timestamp": stamp, "Response-Signature": signature}


def parts(request: Request) -> dict[str, Any] | None:
    """Return the parts of a multipart form, with JSON parsed."""
    kind = request.headers.get("content-type", "")
    if not kind.startswith("multipart/form-data"):
        return None
    head = f"Content-Type: {kind}\r\n\r\n".encode()
    found = {}
    for part in BytesParser().parsebytes(head + request.body).get_payload():
        name = part.get_param("name", header="content-disposition")
        text = part.get_payload(decode=True).decode()
        is_json = part.get_content_type() == "application/json"
        found[name] = json.loads(text) if is_json else text
    return found


def _error(status: int, told: str) -> Answer:
    return Answer(status, {"status": "error", "message": told})


@pytest.fixture
def smile_id_v3() -> Iterator[FakeSmileIdV3]:
    with FakeSmileIdV3() as fake:
        yield fake
