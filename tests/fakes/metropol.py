"""A Metropol CRB that answers as the real one does, over a real socket.

def test_something(metropol):
    metropol.adapter().ask(...)          # 880000088 and the other test identities
    metropol.wraps = True                # the envelope of production
    metropol.data = {"credit_score": 0}  # put over every answer

`checkouts` says what faults it knows. Its guide is not public.
"""

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest

from tests.fakes.server import Answer, FakeServer, Request
from verification.providers.metropol import Metropol

PUBLIC, PRIVATE = "pub-test", "priv-test"
WINDOW = timedelta(seconds=45)
PATHS = {
    "/delinquency/status": {2},
    "/score/consumer": {3},
    "/report/credit_info": {8, 12},
    "/report/credit_info_enhanced": {10},
}
# Identity -> credit score, delinquency.
PEOPLE = {
    "550000055": (320, "004"),
    "770000077": (450, "004"),
    "880000088": (501, "005"),
    "990000099": (780, "003"),
    "PVT-0000099": (780, "003"),
}
THIN = "660000066"
ACCOUNT = {
    "account_currency": "KES",
    "account_number": "DM_88100521214888",
    "account_status": "Active",
    "current_balance": "6600.00000",
    "date_opened": "2014-04-29",
    "days_in_arrears": 0,
    "delinquency_code": "003",
    "highest_days_in_arrears": 0,
    "last_payment_date": "None",
    "original_amount": "60000.50000",
    "overdue_balance": "0.00000",
    "overdue_date": "None",
    "product_type_id": 14,
}
FULL = {
    "identity_verification": {
        "first_name": "Peter",
        "other_name": None,
        "surname": "Marangi",
        "dob": "1978-01-01",
    },
    "identity_scrub": {
        "phone": ["0722222222"],
        "physical_address": [
            {"address": "Moi Road", "country": "Kenya", "town": "Nakuru"}
        ],
        "employment": [{"employer_name": "Testing Metropol", "employment_date": None}],
    },
    "metro_score_trend": [{"month": "2026-05", "credit_score": 501}],
}


class FakeMetropol(FakeServer):
    api_prefixes: ClassVar = ("/",)

    def __init__(self) -> None:
        super().__init__()
        self.wraps = False
        # Members to replace in every answer and account; `says` are whole answers.
        self.data: dict[str, Any] = {}
        self.account: dict[str, Any] = {}
        self.says: list[tuple[int, Any]] = []
        # Lead of the server's clock, and the number of calls with that lead.
        self.ahead, self.ahead_times = timedelta(0), 0
        self.is_sold = True
        # Name and delinquency code of all people beside the test identities.
        self.anybody: tuple[int, str] | None = None
        self.seen: set[bytes] = set()

    def adapter(self, **keys: str) -> Metropol:
        options = {"public_key": PUBLIC, "private_key": PRIVATE, **keys}
        return Metropol(**options, url=f"{self.url}/v2_1", opened=[self.host])

    def api(self, request: Request) -> Answer:
        if refusal := self._refusal(request):
            return _error(refusal)
        if self.says:
            return Answer(*self.says.pop(0))
        path = request.path.removeprefix("/v2_1")
        asked = json.loads(request.body)
        if asked["report_type"] not in PATHS.get(path, ()):
            return Answer(404, "<html>no such page</html>")
        # Another order of the members is an error.
        first = list(asked)[:3]
        if first != ["report_type", "identity_number", "identity_type"]:
            return _error("E016")
        if not self.is_sold:
            return _error("E029")
        if request.body in self.seen:
            return _error("E409")
        self.seen.add(request.body)
        return self._answer(asked)

    def _refusal(self, request: Request) -> str:
        header = {
            name: request.headers.get(f"x-metropol-rest-api-{name}", "")
            for name in ("key", "hash", "timestamp")
        }
        stamp = header["timestamp"]
        signed = PRIVATE.encode() + request.body + PUBLIC.encode() + stamp.encode()
        if header["key"] != PUBLIC:
            return "E004"
        if len(stamp) != 20:
            return "E024"
        now = datetime.now(UTC)
        if self.ahead_times:
            self.ahead_times -= 1
            now += self.ahead
        sent = datetime.strptime(stamp + "+0000", "%Y%m%d%H%M%S%f%z")
        if abs(sent - now) > WINDOW:
            return "E025"
        if self.faults.wrong_signature:
            return "E027"
        return "" if header["hash"] == hashlib.sha256(signed).hexdigest() else "E027"

    def _answer(self, asked: dict[str, Any]) -> Answer:
        number, kind = asked["identity_number"], asked["report_type"]
        code = {"api_code": None, "api_code_description": None, "has_error": False}
        if number == THIN:
            thin = {"api_code": "E017", "api_code_description": "No account info"}
            return Answer(200, {**code, **thin, "identity_number": number})
        known = PEOPLE.get(number, self.anybody)
        if known is None:
            return _error("E018")
        score, delinquency = known
        data: dict[str, Any] = {
            "identity_number": number,
            "identity_type": asked["identity_type"],
        }
        if kind == 3:
            data["credit_score"] = score
        if kind == 2:
            data |= {"delinquency_code": delinquency, "loan_amount": 10000}
        if kind in {8, 10, 12}:
            nothing = {"last_12_months": 0, "last_3_months": 0, "last_6_months": 0}
            data |= {
                "account_info": [{**ACCOUNT, **self.account}],
                "credit_score": score,
                "delinquency_code": delinquency,
                "has_fraud": False,
                "is_guarantor": False,
                "no_of_bounced_cheques": nothing,
                "no_of_enquiries": {**nothing, "last_12_months": 3},
            }
        if kind == 12:
            data |= FULL
        if asked["identity_type"] == "005":
            data["company_name"] = "Baobab Traders Ltd"
        data |= self.data
        reference = {"trx_id": "3d05e0ef-2dad-4027-ba00-421c6d964d57"}
        if self.wraps:
            code |= {"api_code": 1010, "success": True}
            return Answer(200, {**code, **reference, "data": data})
        return Answer(200, {**code, **reference, **data})


def _error(code: str) -> Answer:
    told = {"api_code": code, "api_code_description": code, "has_error": True}
    return Answer(200, told)


@pytest.fixture
def metropol() -> Iterator[FakeMetropol]:
    with FakeMetropol() as fake:
        yield fake
