"""A fake of Smile ID over a real socket.

def test_something(smile_id):
    smile_id.adapter().ask(...)      # the number's last digit decides the outcome
    smile_id.results = {"ResultCode": "1016"}     # members to replace in every answer

A request with a `callback_url` only begins a job; `events` are the callbacks.

Last digits: 0 found, 1 not found, 2 wrong format, 3 register away. `server.Faults`
lists the faults. https://docs.usesmileid.com
"""

import hmac
import json
import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from tests.fakes.server import Answer, FakeServer, Request
from verification.providers.smile_id import SmileId

PARTNER, KEY = "085", "test-api-key"
RESULTS = {
    "1": ("1013", "Unable to validate ID"),
    "2": ("1014", "Unsupported ID number format"),
    "3": ("1015", "Database unavailable"),
}
PERSON = {
    "FullName": "JANE WANJIKU KAMAU",
    "DOB": "1990-01-31",
    "Gender": "F",
    "Address": "Not Available",
    "PhoneNumber": "Not Available",
    "ExpirationDate": "Not Available",
    "Photo": "Not Available",
    "FullData": {},
    "Source": "ID API",
}
COMPANY = {
    "company_information": {
        "legal_name": "ACACIA TEA LIMITED",
        "company_type": "PRIVATE_COMPANY_LIMITED_BY_SHARES",
        "country": "Kenya",
        "address": "L.R. No. 209/1, Moi Avenue, Nairobi",
        "registration_date": "14/03/2016",
        "status": "ACTIVE",
        "email": "N/A",
    },
    "directors": [{"name": "JANE KAMAU", "nationality": "Kenyan", "gender": "N/A"}],
    "fiduciaries": [{"name": "PAUL OUMA", "fiduciary_type": "Company Secretary"}],
    "beneficial_owners": [
        {"name": "JANE KAMAU", "shareholdings": "1,600", "nationality": "Kenyan"},
        {"name": "PAUL OUMA", "shareholdings": "40%"},
    ],
    "proprietors": [],
    "documents": {"search_certificate": ""},
    "success": True,
}


class FakeSmileId(FakeServer):
    api_prefixes: ClassVar = ("/",)

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[str, dict[str, Any]] = {}
        # Put over answers, and what takes the place of one, as (status, body).
        self.results: dict[str, Any] = {}
        self.person: dict[str, Any] = {}
        self.company: dict[str, Any] = {}
        self.says: tuple[int, Any] | None = None
        self.is_at_work = False
        self.callback_url = ""
        self.has_job_status = True

    def adapter(self) -> SmileId:
        return SmileId(PARTNER, KEY, self.url, [self.host], self.callback_url)

    def asked(self, path: str) -> list[dict[str, Any]]:
        sent = [each for each in self.requests if each.path == path]
        return [json.loads(each.body) for each in sent]

    def api(self, request: Request) -> Answer:
        asked = json.loads(request.body)
        if asked.get("partner_id") != PARTNER or asked["signature"] != signed(
            KEY, asked["timestamp"]
        ):
            return _error("2205", "You are not authorized to do that.")
        if self.says:
            return Answer(*self.says)
        if request.path == "/v1/job_status":
            return self._status(asked)
        params = asked.get("partner_params") or {}
        wanted = {"country", "id_type", "id_number"} - asked.keys()
        if wanted or {"job_id", "user_id", "job_type"} - params.keys():
            return _error("2213", "Missing parameter")
        is_async = request.path.startswith("/v1/async_")
        if is_async and "callback_url" not in asked:
            return _error("2213", "Missing parameter")
        is_company = request.path.endswith("business_verification")
        if params["job_type"] != (7 if is_company else 5):
            return _error("2212", "Invalid job_type")
        if params["job_id"] in self.jobs:
            return _error("2215", "Job already exists for this job_id")
        answer = self._answer(asked, is_company=is_company)
        self.jobs[params["job_id"]] = answer
        if is_async:
            self.happened(self._sealed(answer))
            return Answer(200, {"success": True})
        return Answer(200, self._sealed(answer))

    def _answer(self, asked: dict[str, Any], *, is_company: bool) -> dict[str, Any]:
        digits = re.findall(r"\d", asked["id_number"])
        code, text = RESULTS.get(digits[-1], ("1012", "ID Number Validated"))
        word = "Verified" if code == "1012" else "Not Verified"
        action = "Verify_Business" if is_company else "Verify_ID_Number"
        found = COMPANY if is_company else {**PERSON, **self.person}
        if is_company:
            record = {**COMPANY["company_information"], **self.company}
            found = {**COMPANY, "company_information": record}
        return {
            "JSONVersion": "1.0.0",
            "SmileJobID": "0000001105",
            "PartnerParams": asked["partner_params"],
            "ResultText": text,
            "ResultCode": code,
            "IsFinalResult": "true",
            "Actions": {action: word},
            "Country": "KE",
            "IDType": asked["id_type"],
            "IDNumber": asked["id_number"],
            **(found if code == "1012" else {}),
            **self.results,
        }

    def _status(self, asked: dict[str, Any]) -> Answer:
        if not self.has_job_status:
            return _error("2098", "job_status error")
        job = self.jobs[asked["job_id"]]
        told = {"job_complete": not self.is_at_work, "code": "2302", "result": job}
        return Answer(200, self._sealed(told))

    def _sealed(self, answer: dict[str, Any]) -> dict[str, Any]:
        stamp = "2026-01-02T03:04:05.678Z"
        key = "somebody else's" if self.faults.wrong_signature else KEY
        return {**answer, "timestamp": stamp, "signature": signed(key, stamp)}


def signed(key: str, stamp: str) -> str:
    mac = hmac.new(key.encode(), digestmod="sha256")
    for part in (stamp, PARTNER, "sid_request"):
        mac.update(part.encode())
    return b64encode(mac.digest()).decode()


def _error(code: str, told: str) -> Answer:
    return Answer(400, {"code": code, "error": told})


@pytest.fixture
def smile_id() -> Iterator[FakeSmileId]:
    with FakeSmileId() as fake:
        yield fake
