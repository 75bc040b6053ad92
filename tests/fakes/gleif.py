"""A GLEIF that answers as the real one does, over a real socket.

def test_something(gleif):
    gleif.add("549300BUK5X61Q2X4S91", legalForm={"id": "8888", "other": "LTD"})
    gleif.adapter().ask(...)

`checkouts` says what faults it knows. https://www.gleif.org/en/lei-data/gleif-api
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from tests.fakes.server import Answer, FakeServer, Request
from verification.providers.gleif import Gleif

ACACIA, BARAKA = "5493001KJTIIGC8Y1R12", "7ZW8QJWVPR4P1J1KQY45"


class FakeGleif(FakeServer):
    api_prefixes: ClassVar = ("/",)

    def __init__(self) -> None:
        super().__init__()
        self.records: dict[str, dict[str, Any]] = {}
        # Answered instead, as (status, body).
        self.says: tuple[int, Any] | None = None
        self.add(ACACIA)

    def adapter(self) -> Gleif:
        return Gleif(f"{self.url}/api/v1", [self.host])

    def add(
        self, lei: str, *, registration: str = "ISSUED", **entity: Any
    ) -> dict[str, Any]:
        attributes = {
            "lei": lei,
            "bic": None,
            "entity": {
                "legalName": {"name": "ACACIA TEA LIMITED", "language": "en"},
                "otherNames": [],
                "legalAddress": {
                    "language": "en",
                    "addressLines": ["Plot 7", "Kampala Road"],
                    "city": "Kampala",
                    "region": "UG-102",
                    "country": "UG",
                    "postalCode": None,
                },
                "registeredAt": {"id": "RA000625", "other": None},
                "registeredAs": "C.12345",
                "jurisdiction": "UG",
                "category": "GENERAL",
                "legalForm": {"id": "8888", "other": "Private company"},
                "status": "ACTIVE",
                "creationDate": "2016-03-14T00:00:00Z",
                **entity,
            },
            "registration": {
                "status": registration,
                "corroborationLevel": "FULLY_CORROBORATED",
            },
        }
        self.records[lei] = attributes
        return attributes

    def api(self, request: Request) -> Answer:
        if self.says:
            return Answer(*self.says)
        if request.headers.get("accept") != "application/vnd.api+json":
            return _error(406, "Not Acceptable")
        *_, folder, last = request.path.split("/")
        if last == "lei-records":
            return self._list(request.query)
        if folder != "lei-records" or last not in self.records:
            return _error(404, "Record Not Found")
        return Answer(200, {"data": _resource(self.records[last])})

    def _list(self, query: dict[str, str]) -> Answer:
        wanted = {key: value for key, value in query.items() if key.startswith("f")}
        if not wanted:
            return _error(400, "Bad Request")
        found = [
            _resource(record)
            for record in self.records.values()
            if all(_fits(record, key, value) for key, value in wanted.items())
        ]
        size = int(query["page[size]"])
        pages = {"currentPage": 1, "perPage": size, "total": len(found)}
        return Answer(200, {"meta": {"pagination": pages}, "data": found[:size]})


def _fits(record: dict[str, Any], key: str, value: str) -> bool:
    entity = record["entity"]
    match key:
        case "filter[entity.registeredAs]":
            return bool(entity["registeredAs"] == value)
        case "filter[entity.legalAddress.country]":
            return bool(entity["legalAddress"]["country"] == value)
        case "filter[entity.legalName]":
            # A search by words, which finds more than the name.
            words = entity["legalName"]["name"].casefold().split()
            return any(word in words for word in value.casefold().split())
    raise AssertionError(key)


def _resource(attributes: dict[str, Any]) -> dict[str, Any]:
    return {"type": "lei-records", "id": attributes["lei"], "attributes": attributes}


def _error(status: int, title: str) -> Answer:
    return Answer(status, {"errors": [{"status": str(status), "title": title}]})


@pytest.fixture
def gleif() -> Iterator[FakeGleif]:
    with FakeGleif() as fake:
        yield fake
