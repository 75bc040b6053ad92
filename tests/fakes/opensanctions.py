"""A yente that answers as the real one does, over a real socket.

def test_something(opensanctions):
    opensanctions.adapter().ask(...)             # "Sanction Testperson" is listed
    opensanctions.result = {"score": "high"}     # put over every result

`checkouts` says what faults it knows. https://www.opensanctions.org/docs/api/
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from django.utils.timezone import now

from tests.fakes.server import Answer, FakeServer, Request
from verification.providers.opensanctions import OpenSanctions

KEY = "of no worth"
# Name -> schema, topics, dataset. Nobody here exists.
ENTITIES = {
    "Sanction Testperson": ("Person", ["sanction"], "us_ofac_sdn"),
    "Linked Testperson": ("Person", ["sanction.linked"], "eu_fsf"),
    "Pep Testperson": ("Person", ["role.pep"], "wd_peps"),
    "Relative Testperson": ("Person", ["role.rca"], "wd_peps"),
    "Wanted Testperson": ("Person", ["wanted", "crime.fin"], "interpol_red"),
    "Poi Testperson": ("Person", ["poi"], "some_list"),
    "Debarred Testperson": ("Person", ["debarment"], "worldbank_debarred"),
    "Odd Testperson": ("Person", ["topic.of.tomorrow"], "some_list"),
    "Bare Testperson": ("Person", [], "some_list"),
    "Both Testperson": ("Person", ["role.pep", "sanction"], "us_ofac_sdn"),
    "Sanction Testcompany": ("Company", ["sanction"], "us_ofac_sdn"),
}


class FakeOpenSanctions(FakeServer):
    api_prefixes: ClassVar = ("/",)

    def __init__(self) -> None:
        super().__init__()
        self.key = ""
        # Name -> schema, topics, dataset
        self.entities = dict(ENTITIES)
        self.has_catalogue = True
        # Put over what the catalogue says of the dataset.
        self.catalogued: dict[str, Any] = {}
        self.version = f"{now() - timedelta(days=1):%Y%m%d%H%M%S}-abc"
        # Put over results, over the answer to the query, and in place of any answer
        # to a match, as (status, body).
        self.result: dict[str, Any] = {}
        self.response: dict[str, Any] = {}
        self.says: tuple[int, Any] | None = None

    def adapter(self, key: str = "", **options: Any) -> OpenSanctions:
        return OpenSanctions(self.url, key, opened=[self.host], **options)

    def asked(self) -> list[Request]:
        return [each for each in self.requests if each.path.startswith("/match")]

    def api(self, request: Request) -> Answer:
        given = request.headers.get("authorization", "")
        if self.key and given != f"ApiKey {self.key}":
            return Answer(401, {"detail": "Invalid API key"})
        if request.path == "/catalog":
            if not self.has_catalogue:
                return Answer(404, {"detail": "Not Found"})
            part = {"name": "un_sc_sanctions", "index_version": self.version}
            listed = {
                "name": "default",
                # The newest version, and the version of the index.
                "version": f"{now():%Y%m%d%H%M%S}-new",
                "index_version": self.version,
                "children": ["un_sc_sanctions", "eu_fsf"],
                **self.catalogued,
            }
            return Answer(200, {"datasets": [part, listed]})
        if self.says:
            return Answer(*self.says)
        if request.path != "/match/default":
            return Answer(404, {"detail": "No such dataset"})
        return self._match(json.loads(request.body), request.query)

    def _match(self, asked: dict[str, Any], query: dict[str, str]) -> Answer:
        (name, one), *more = asked["queries"].items()
        if more or query["algorithm"] not in {"logic-v2", "best"}:
            return Answer(400, {"detail": "Unknown algorithm"})
        # Each word of a name has a weight; results below the threshold are left out.
        found = [
            result
            for number, caption in enumerate(self.entities)
            if (result := self._result(number, caption, one))
            and result["score"] >= float(query["threshold"])
        ]
        response = {
            "status": 200,
            "results": [{**r, **self.result} for r in found[: int(query["limit"])]],
            "total": {"value": len(found), "relation": "eq"},
            "query": one,
            **self.response,
        }
        return Answer(200, {"responses": {name: response}, "limit": query["limit"]})

    def _result(
        self, number: int, caption: str, asked: dict[str, Any]
    ) -> dict[str, Any] | None:
        schema, topics, dataset = self.entities[caption]
        words = set(asked["properties"]["name"][0].casefold().split())
        own = set(caption.casefold().split())
        if asked["schema"] != schema or not words & own:
            return None
        score = len(words & own) / len(words | own)
        return {
            "id": f"NK-{number}",
            "caption": caption,
            "schema": schema,
            "properties": {
                "name": [caption],
                "birthDate": ["1965"],
                "topics": topics,
                "country": ["ru"],
            },
            "datasets": [dataset],
            "target": True,
            "first_seen": "2022-03-03T13:05:11",
            "score": score,
            "match": score >= 0.7,
        }


@pytest.fixture
def opensanctions() -> Iterator[FakeOpenSanctions]:
    with FakeOpenSanctions() as fake:
        yield fake
