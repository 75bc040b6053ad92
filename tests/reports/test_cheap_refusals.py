"""A refused body of 2 MB costs no more than the largest accepted order."""

import json
from collections.abc import Callable

import pytest

from tests.world.clients import Api, company
from tests.world.orders import two_checks
from tests.world.processor import processor_seconds

SIZE = 2 * 1024 * 1024 - 100


def fill_body(pattern: str) -> str:
    """Repeat the pattern with growing numbers until the body is full."""
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
    "members of the body": lambda: in_object(fill_body('"m#":1')),
    "members of a report": lambda: in_reports(in_object(fill_body('"m#":1'))),
    "members of a subject": lambda: in_reports(
        '{"subject":{' + fill_body('"m#":1') + "}}"
    ),
    "members of every report": lambda: in_reports(
        *[report(**{f"m{n}": 1 for n in range(380)})] * 480
    ),
    "members of every subject": lambda: in_reports(
        *[report(subject={f"m{n}": 1 for n in range(380)})] * 480
    ),
    "wrong reports": lambda: in_reports(fill_body("#")),
    "long purposes": lambda: in_reports(*[report(purpose="x" * 3900)] * 500),
    "long phones": lambda: in_reports(
        *[report(subject={**COMPANY, "phone": "+" + "1" * 3700})] * 500
    ),
    "unknown checks": lambda: in_checks(fill_body('"A#"')),
    "no checks": lambda: in_checks(fill_body("[#]")),
    "checks of every report": lambda: in_reports(
        *[report(checksRequested=["x"] * 700)] * 500
    ),
    "a member twice": lambda: in_object(fill_body('"m":#')),
    "nested arrays": lambda: in_object('"reports":' + "[" * 900 + "]" * 900),
    "halves of pairs": lambda: in_reports(fill_body('"\\ud800#"')),
    "huge numbers": lambda: in_reports(fill_body("1e99#")),
    "spaces": lambda: "[" + " " * SIZE + "]",
}


def measure_seconds(api: Api, body: str, status: int) -> float:
    """Return the processor seconds of a request to create reports."""
    assert len(body) <= SIZE + 100

    def create() -> None:
        assert api.raw("/reports", body).status_code == status

    return processor_seconds(create, rounds=2)


@pytest.mark.slow
def test_refusal_costs_no_more_than_the_largest_order(api: Api):
    largest = in_reports(*[json.dumps(two_checks())] * 500)
    accepted_seconds = measure_seconds(api, largest, 201)

    for name, make_body in HOSTILE.items():
        assert measure_seconds(api, make_body(), 400) < accepted_seconds, name


@pytest.mark.usefixtures("new_minute")
def test_large_order_counts_as_several_requests(api: Api):
    api.key.creates_per_minute = 10
    api.key.save()
    item = json.loads(report(draft=True))

    small = api.post("/reports", {"reports": [item] * 100})
    large = api.post("/reports", {"reports": [item] * 301})

    assert "r=9;" in small["RateLimit"]
    assert "r=5;" in large["RateLimit"]


@pytest.mark.usefixtures("new_minute")
def test_large_order_is_served_when_it_exceeds_the_limit(api: Api):
    api.key.creates_per_minute = 2
    api.key.save()
    item = json.loads(report(draft=True))

    statuses = [
        api.post("/reports", {"reports": [item] * count}).status_code
        for count in (400, 1)
    ]

    assert statuses == [201, 429]
