"""A Prembly that answers as the real one does, over a real socket.

def test_something(prembly):
    prembly.answer_with = {"response_code": "02"}     # put over the envelope
    prembly.data = {"pin_status": "Inactive"}    # and over the record
    prembly.adapter().ask(...)

`checkouts` says what faults it knows. https://docs.prembly.com
"""

import json
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from tests.fakes.server import Answer, FakeServer, Request
from verification.providers.prembly import Prembly

APP, KEY = "app-1", "of no worth"
PERSON = {
    "citizenship": "KENYAN",
    "date_of_birth": "1990-01-31",
    "dob": "1990-01-31",
    "date_of_death": None,
    "dod": None,
    "error_occured": False,
    "first_name": "JANE",
    "other_name": "WANJIKU",
    "surname": "KAMAU",
    "last_name": "KAMAU",
    "gender": "F",
    "id_number": "10101010",
    "identity_number": "10101010",
    "identity_type": "001",
    "photo": None,
    "place_of_birth": "NYERI",
    "serial_number": "237890241",
}
TAXPAYER = {
    "pin": "A123456789B",
    "taxpayer_name": "JANE WANJIKU KAMAU",
    "pin_status": "Active",
    "itax_status": "iPage Updated",
    "obligation_details": "Income Tax - Resident Individual Registered 29/01/2013",
}
COMPANY = {
    "verified": True,
    "status": "registered",
    "registrationNumber": "PVT-AB12CDE",
    "registrationDate": "22 September 2001",
    "postalAddress": "P.O. Box 1234 - 00100",
    "physicalAddress": "Moi Avenue, Nairobi",
    "phoneNumber": "",
    "businessName": "ACACIA TEA LIMITED",
    "branch": None,
    "partners": [{"name": "JANE KAMAU", "type": "Director", "nationality": "Kenyan"}],
}
# Path -> the key of the body that names the record, the record, and its own key.
RECORDS: dict[str, tuple[str, dict[str, Any], str]] = {
    "/verification/ke/national_id": ("number", PERSON, "id_number"),
    "/verification/ke/tax/pin": ("number", TAXPAYER, "pin"),
    "/verification/ke/brs/search/advanced": (
        "company_id",
        COMPANY,
        "registrationNumber",
    ),
}


class FakePrembly(FakeServer):
    api_prefixes: ClassVar = ("/",)

    def __init__(self) -> None:
        super().__init__()
        self.answer_with: dict[str, Any] = {}
        self.data: dict[str, Any] = {}
        # Answered instead, as (status, body).
        self.says: tuple[int, Any] | None = None

    def adapter(self, key: str = KEY) -> Prembly:
        return Prembly(APP, key, self.url, [self.host])

    def asked(self) -> dict[str, Any]:
        return dict(json.loads(self.requests[-1].body))

    def api(self, request: Request) -> Answer:
        given = request.headers.get("app-id"), request.headers.get("x-api-key")
        if given != (APP, KEY):
            return Answer(401, {"status": False, "detail": "Invalid credentials"})
        if self.says:
            return Answer(*self.says)
        if request.path not in RECORDS:
            return Answer(404, {"detail": "Not found."})
        key, record, own = RECORDS[request.path]
        asked = json.loads(request.body)
        if not asked.get(key) or (key == "company_id" and not asked.get("check_type")):
            return Answer(400, {"status": False, "detail": "Missing parameter"})
        is_known = asked[key].lstrip("0") == str({**record, **self.data}[own])
        envelope: dict[str, Any] = {
            "status": is_known,
            "detail": "Verification successful" if is_known else "Record not found",
            "response_code": "00" if is_known else "01",
            "verification": {
                "status": "VERIFIED" if is_known else "NOT-VERIFIED",
                "reference": "2eb008cb-b489-4d28-a9e4-7b21e89b2a99",
            },
            "session": {},
            "billing_info": {
                "was_charged": True,
                "amount": "50.00",
                "currency": "KES",
            },
        }
        data = {"data": {**record, **self.data}} if is_known else {}
        return Answer(200, {**envelope, **data, **self.answer_with})


@pytest.fixture
def prembly() -> Iterator[FakePrembly]:
    with FakePrembly() as fake:
        yield fake
