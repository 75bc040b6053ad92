import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils.timezone import now

from tests.fakes.opensanctions import FakeOpenSanctions
from tests.fakes.opensanctions import opensanctions as opensanctions
from tests.providers.asking import ask, codes, inquiry
from verification.providers.base import Refused, Unavailable
from verification.providers.opensanctions import REFUSALS
from verification.reports.models import RiskLevel

CHECK = "AML_SCREENING"
JANE = "Jane Wanjiku Kamau"


def found(opensanctions: FakeOpenSanctions, name: str | None = JANE, **subject: Any):
    asked = inquiry(CHECK, fullName=name, **subject)
    return ask(opensanctions.adapter(), asked)


def test_whoever_is_on_no_list_is_clear(opensanctions: FakeOpenSanctions):
    answer = found(opensanctions)

    assert (answer.score, answer.flags) == (5, [])
    assert answer.provider_reference == f"default {opensanctions.version}"
    (edition,) = answer.editions or []
    assert edition["version"] == opensanctions.version
    assert (edition["list"], edition["ageDays"]) == ("default", 1)
    assert answer.details == {
        "screenedName": JANE,
        "lists": ["default"],
        "algorithm": "logic-v2",
        "threshold": 0.7,
        "hitCount": 0,
        "hits": [],
    }


def test_a_hit_has_its_list_and_its_score(opensanctions: FakeOpenSanctions):
    answer = found(opensanctions, "Testperson Sanction")

    assert (codes(answer), answer.score) == (["SANCTIONS_HIT"], 95)
    assert "us_ofac_sdn (100%)" in answer.flags[0].message
    assert answer.details["hitCount"] == 1
    assert answer.details["hits"] == [
        {
            "lists": ["us_ofac_sdn"],
            "entryId": "NK-0",
            "name": "Sanction Testperson",
            "topics": ["sanction"],
            "score": 1.0,
            "birthDates": ["1965"],
            "countries": ["RU"],
        }
    ]


@pytest.mark.parametrize(
    ("name", "flags", "score"),
    [
        ("Linked Testperson", ["SANCTIONS_HIT"], 95),
        ("Pep Testperson", ["PEP_HIT"], 50),
        ("Relative Testperson", ["PEP_HIT"], 50),
        ("Wanted Testperson", ["WATCHLIST_HIT"], 75),
        ("Poi Testperson", ["WATCHLIST_HIT"], 75),
        ("Debarred Testperson", ["WATCHLIST_HIT"], 75),
        ("Odd Testperson", ["WATCHLIST_HIT"], 75),
        ("Bare Testperson", ["WATCHLIST_HIT"], 75),
        ("Both Testperson", ["SANCTIONS_HIT", "PEP_HIT"], 95),
        # Below the threshold.
        ("Sanction Otherperson", [], 5),
        # A company is no person.
        ("Sanction Testcompany", [], 5),
    ],
)
def test_what_a_topic_becomes(opensanctions: FakeOpenSanctions, name, flags, score):
    answer = found(opensanctions, name)

    assert (codes(answer), answer.score) == (flags, score)
    assert (RiskLevel.of(answer.score) == RiskLevel.LOW) == (not flags)


def test_what_is_sent_is_the_subject_and_no_more(opensanctions: FakeOpenSanctions):
    found(opensanctions, dateOfBirth="1990-01-31", idNumber="1", email="a@b.test")
    company = {"subjectType": "COMPANY", "registrationNumber": "PVT-1"}
    answer = found(opensanctions, "Sanction Testcompany", **company)

    assert codes(answer) == ["SANCTIONS_HIT"]
    person, business = [json.loads(each.body) for each in opensanctions.asked()]
    assert person["queries"]["q"] == {
        "schema": "Person",
        "properties": {
            "name": [JANE],
            "birthDate": ["1990-01-31"],
            "country": ["ke"],
            "idNumber": ["1"],
        },
    }
    assert business["queries"]["q"] == {
        "schema": "Company",
        "properties": {
            "name": ["Sanction Testcompany"],
            "jurisdiction": ["ke"],
            "registrationNumber": ["PVT-1"],
        },
    }


@pytest.mark.parametrize(
    ("result", "flags"),
    [
        # A doubt is a hit.
        ({"match": True, "score": 0.1}, ["PEP_HIT"]),
        ({"match": False, "score": 0.9}, ["PEP_HIT"]),
        ({"match": None, "score": 0.7}, ["PEP_HIT"]),
        ({"match": False, "score": 0.69}, []),
        ({"properties": None, "datasets": None}, ["WATCHLIST_HIT"]),
    ],
)
def test_what_a_result_becomes(opensanctions: FakeOpenSanctions, result, flags):
    opensanctions.result = result

    assert codes(found(opensanctions, "Pep Testperson")) == flags


@pytest.mark.parametrize(
    ("result", "response"),
    [
        *(({"score": bad, "match": None}, {}) for bad in ("high", None, True, 7, -1)),
        ({}, {"status": 500}),
        ({}, {"status": None}),
        ({}, {"results": None}),
        ({}, {"results": ["Pep"]}),
        # Fewer than it says there are.
        ({}, {"results": []}),
        ({}, {"results": [], "total": None}),
    ],
)
def test_an_answer_in_doubt_is_never_clean(opensanctions, result, response):
    opensanctions.result, opensanctions.response = result, response

    with pytest.raises(Unavailable):
        found(opensanctions, "Pep Testperson")


def test_an_answer_without_the_query_is_none(opensanctions: FakeOpenSanctions):
    opensanctions.says = (200, {"responses": {}})

    with pytest.raises(Unavailable, match="could not answer"):
        found(opensanctions)


@pytest.mark.parametrize(
    ("status", "body", "failure", "told"),
    [
        (400, {"detail": JANE}, Refused, "status 400"),
        *((s, {"detail": JANE}, Refused, told) for s, told in REFUSALS.items()),
        (422, {"detail": JANE}, Refused, "status 422"),
        (429, {"detail": JANE}, Unavailable, "status 429"),
        (500, {"detail": JANE}, Unavailable, "status 500"),
        (503, "<html>", Unavailable, "status 503"),
        (200, "<html>", Unavailable, "not with JSON"),
        (200, [], Unavailable, "no object"),
    ],
)
def test_what_a_status_becomes(opensanctions, status, body, failure, told):
    opensanctions.says = (status, body)

    with pytest.raises(failure) as error:
        found(opensanctions)

    assert told in error.value.message
    assert "Jane" not in error.value.message


def test_a_wrong_key_is_refused_and_the_right_one_taken(opensanctions):
    opensanctions.key = "of no worth"
    asked = inquiry(CHECK, fullName=JANE)

    with pytest.raises(Refused, match="does not take the key"):
        opensanctions.adapter("another").ask(asked)
    assert opensanctions.adapter("of no worth").ask(asked).score == 5


@pytest.mark.parametrize(
    "catalogued",
    [
        {"index_version": None, "children": []},
        {"index_version": "static"},
        {"index_version": "20269999"},
        {"name": "other"},
    ],
)
def test_nobody_is_clean_of_an_edition_that_is_not_told(opensanctions, catalogued):
    opensanctions.catalogued = catalogued

    with pytest.raises(Unavailable, match="which edition"):
        found(opensanctions)
    assert not opensanctions.asked()


def test_nobody_is_asked_about_where_the_catalogue_is_away(opensanctions):
    opensanctions.has_catalogue = False

    with pytest.raises(Unavailable, match="which edition"):
        found(opensanctions)
    assert not opensanctions.asked()


def test_stale_index_is_no_answer_and_is_not_paid_for(opensanctions):
    opensanctions.version = f"{now() - timedelta(days=8):%Y%m%d%H%M%S}-abc"

    with pytest.raises(Unavailable, match="an index that is 8 days old"):
        found(opensanctions)
    assert not opensanctions.asked()

    adapter = opensanctions.adapter(days=9)
    assert adapter.ask(inquiry(CHECK, fullName=JANE)).editions[0]["ageDays"] == 8


def test_collection_is_as_old_as_the_oldest_of_its_parts(opensanctions):
    opensanctions.catalogued = {"index_version": None}

    assert found(opensanctions).provider_reference == f"default {opensanctions.version}"


def test_the_catalogue_is_read_once_in_a_while(opensanctions: FakeOpenSanctions):
    adapter = opensanctions.adapter()
    for _ in range(3):
        ask(adapter, inquiry(CHECK, fullName=JANE))

    assert len(opensanctions.requests) == 3 + 1


@pytest.mark.parametrize("fault", [{"status": 500}, {"html": True}, {"half": True}])
def test_a_bad_day_is_no_answer(opensanctions, fault: dict[str, Any]):
    for name, value in fault.items():
        setattr(opensanctions.faults, name, value)

    with pytest.raises(Unavailable):
        found(opensanctions)


def test_a_slow_source_is_not_waited_for(opensanctions, monkeypatch):
    monkeypatch.setattr("verification.providers.opensanctions.SECONDS", 0.2)
    opensanctions.faults.slow = 0.6

    with pytest.raises(Unavailable, match="in time"):
        found(opensanctions)


@pytest.mark.parametrize(("check", "name"), [("IDENTITY", JANE), (CHECK, None)])
def test_what_it_cannot_be_asked_is_refused(opensanctions, check, name):
    with pytest.raises(Refused):
        opensanctions.adapter().ask(inquiry(check, fullName=name))
    assert not opensanctions.requests


@pytest.mark.parametrize(
    ("path", "may_be_charged"), [("/catalog", False), ("/match", True)]
)
def test_query_that_is_not_answered_may_be_charged_and_the_catalogue_not(
    opensanctions, monkeypatch, path, may_be_charged
):
    monkeypatch.setattr("verification.providers.opensanctions.SECONDS", 0.2)
    opensanctions.faults.path, opensanctions.faults.slow = path, 0.6

    with pytest.raises(Unavailable) as error:
        found(opensanctions)

    assert error.value.may_be_charged is may_be_charged
