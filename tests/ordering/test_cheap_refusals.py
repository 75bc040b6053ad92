"""What a refused body of 2 MB costs, against the dearest that is accepted."""

import gc
import json
import time
from collections.abc import Callable, Iterator

import pytest

from tests.clients import Api, company
from tests.orders import two_checks

SIZE = 2 * 1024 * 1024 - 100


def many(pattern: str) -> str:
    """The pattern with growing numbers, as often as a body holds it."""
    times = (SIZE - 500) // (len(pattern) + 6)
    return ",".join(pattern.replace("#", str(n)) for n in range(times))


def in_object(members: str) -> str:
    return "{" + members + "}"


def in_reports(*items: str) -> str:
    return in_object('"reports":[' + ",".join(items) + "]")


def in_checks(names: str) -> str:
    return in_reports(in_object('"checksRequested":[' + names + "]"))


def report(**members: object) -> str:
    return json.dumps({**company(), **members})


COMPANY = company()["subject"]
HOSTILE: dict[str, Callable[[], str]] = {
    "members of the body": lambda: in_object(many('"m#":1')),
    "members of a report": lambda: in_reports(in_object(many('"m#":1'))),
    "members of a subject": lambda: in_reports('{"subject":{' + many('"m#":1') + "}}"),
    "members of every report": lambda: in_reports(
        *[report(**{f"m{n}": 1 for n in range(380)})] * 480
    ),
    "members of every subject": lambda: in_reports(
        *[report(subject={f"m{n}": 1 for n in range(380)})] * 480
    ),
    "wrong reports": lambda: in_reports(many("#")),
    "long purposes": lambda: in_reports(*[report(purpose="x" * 3900)] * 500),
    "long phones": lambda: in_reports(
        *[report(subject={**COMPANY, "phone": "+" + "1" * 3700})] * 500
    ),
    "unknown checks": lambda: in_checks(many('"A#"')),
    "no checks": lambda: in_checks(many("[#]")),
    "checks of every report": lambda: in_reports(
        *[report(checksRequested=["x"] * 700)] * 500
    ),
    "a member twice": lambda: in_object(many('"m":#')),
    "nested arrays": lambda: in_object('"reports":' + "[" * 900 + "]" * 900),
    "halves of pairs": lambda: in_reports(many('"\\ud800#"')),
    "huge numbers": lambda: in_reports(many("1e99#")),
    "spaces": lambda: "[" + " " * SIZE + "]",
}


def seconds(api: Api, body: str) -> tuple[float, int]:
    assert len(body) <= SIZE + 100
    begun_at = time.process_time()
    answer = api.raw("/reports", body)
    return time.process_time() - begun_at, answer.status_code


@pytest.fixture(autouse=True)
def no_garbage_of_others() -> Iterator[None]:
    # A round of the collector over what other tests have left takes 0.2 s.
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def accepted(api: Api) -> float:
    """The CPU seconds of 500 reports, in the process of the web server."""
    body = in_reports(*[json.dumps(two_checks())] * 500)
    seconds(api, in_reports(report()))
    taken, status = seconds(api, body)
    assert status == 201
    return taken


@pytest.mark.parametrize("name", HOSTILE)
def test_a_refusal_costs_no_more_than_the_dearest_order(
    api: Api, accepted: float, name: str
):
    body = HOSTILE[name]()

    taken, status = min(seconds(api, body) for _ in range(2))

    assert status == 400
    assert taken < accepted


def test_a_large_order_counts_as_several_requests(api: Api):
    api.key.creates_per_minute = 10
    api.key.save()
    item = json.loads(report(draft=True))

    small = api.post("/reports", {"reports": [item] * 100})
    large = api.post("/reports", {"reports": [item] * 301})

    assert "r=9;" in small["RateLimit"]
    assert "r=5;" in large["RateLimit"]


def test_a_large_order_is_served_where_the_limit_is_lower_than_it_counts(api: Api):
    api.key.creates_per_minute = 2
    api.key.save()
    item = json.loads(report(draft=True))

    statuses = [
        api.post("/reports", {"reports": [item] * count}).status_code
        for count in (400, 1)
    ]

    assert statuses == [201, 429]
