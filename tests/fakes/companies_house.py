"""A Companies House that answers as the real one does, over a real socket.

def test_something(companies_house):
    companies_house.profile = {"company_status": "liquidation"}    # put over the record
    companies_house.adapter().ask(...)

`checkouts` says what faults it knows.
https://developer.company-information.service.gov.uk
"""

import time
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from tests.fakes.server import Answer, FakeServer, Request
from verification.providers.companies_house import CompaniesHouse

KEY = "of no worth"
NUMBER = "00445790"
PROFILE = {
    "company_name": "ACACIA TEA LIMITED",
    "company_number": NUMBER,
    "company_status": "active",
    "type": "ltd",
    "date_of_creation": "2016-03-14",
    "registered_office_address": {
        "address_line_1": "1 Ivory House",
        "address_line_2": "St Katharine Docks",
        "locality": "London",
        "postal_code": "E1W 1AT",
        "country": "England",
    },
    "sic_codes": ["10831"],
}
OFFICERS = [
    {
        "name": "KAMAU, Jane Wanjiku",
        "officer_role": "director",
        "nationality": "Kenyan",
        "appointed_on": "2016-03-14",
    },
    {"name": "ACACIA SECRETARIES LLP", "officer_role": "corporate-secretary"},
    {"name": "OUMA, Paul", "officer_role": "director", "resigned_on": "2020-01-01"},
]
OWNERS = [
    {
        "name": "Ms Jane Wanjiku Kamau",
        "natures_of_control": ["ownership-of-shares-75-to-100-percent"],
    },
    {"name": "Mr Paul Ouma", "natures_of_control": ["voting-rights-25-to-50-percent"]},
    {
        "name": "Mr Peter Ouma",
        "natures_of_control": ["ownership-of-shares-25-to-50-percent"],
        "ceased_on": "2020-01-01",
    },
]


class FakeCompaniesHouse(FakeServer):
    api_prefixes: ClassVar = ("/",)

    def __init__(self) -> None:
        super().__init__()
        self.profile: dict[str, Any] = {}
        self.officers: list[dict[str, Any]] | None = OFFICERS
        self.owners: list[dict[str, Any]] | None = OWNERS
        # Other companies in the results of a search: number -> name.
        self.others: dict[str, str] = {}
        # Remaining requests, and seconds until the limit resets.
        self.left = 600
        self.reset_in: int | None = 120
        # An answer in place of the real one: (status, body).
        self.says: tuple[int, Any] | None = None

    def adapter(self, key: str = KEY) -> CompaniesHouse:
        return CompaniesHouse(key, self.url, [self.host])

    def api(self, request: Request) -> Answer:
        basic = "Basic " + b64encode(f"{KEY}:".encode()).decode()
        if request.headers.get("authorization") != basic:
            told = {"error": "Invalid Authorization", "type": "ch:service"}
            return Answer(401, told)
        if self.left <= 0:
            return Answer(429, "", self._reset())
        self.left -= 1
        if self.says:
            return Answer(*self.says)
        if request.path == "/search/companies":
            return self._search(request.query["q"])
        if request.path == f"/company/{NUMBER}":
            return Answer(200, {**PROFILE, **self.profile})
        if request.path == f"/company/{NUMBER}/officers":
            return _page(self.officers)
        if request.path == f"/company/{NUMBER}/persons-with-significant-control":
            return _page(self.owners)
        error = {"error": "company-profile-not-found", "type": "ch:service"}
        return Answer(404, {"errors": [error]})

    def _search(self, words: str) -> Answer:
        known = {NUMBER: PROFILE["company_name"], **self.others}
        asked = set(words.casefold().split())
        items = [
            {"title": name, "company_number": number, "company_status": "active"}
            for number, name in known.items()
            if asked & set(name.casefold().split())
        ]
        return Answer(200, {"items": items, "total_results": len(items)})

    def _reset(self) -> dict[str, str]:
        if self.reset_in is None:
            return {}
        return {"X-Ratelimit-Reset": str(int(time.time()) + self.reset_in)}


def _page(items: list[dict[str, Any]] | None) -> Answer:
    if items is None:
        return Answer(404, {"errors": [{"error": "not-found", "type": "ch:service"}]})
    shown = items[:100]
    return Answer(200, {"items": shown, "total_results": len(items)})


@pytest.fixture
def companies_house() -> Iterator[FakeCompaniesHouse]:
    with FakeCompaniesHouse() as fake:
        yield fake
