import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils.timezone import now

from tests.fakes.opensanctions import FakeOpenSanctions
from tests.fakes.opensanctions import opensanctions as opensanctions
from tests.providers.inquiries import ask, codes, inquiry
from verification.providers.base import Refused, Unavailable
from verification.providers.opensanctions import REFUSALS
from verification.reports.models import RiskLevel

CHECK = "AML_SCREENING"
JANE = "Jane Wanjiku Kamau"


def finding_of(
    opensanctions: FakeOpenSanctions, name: str | None = JANE, **subject: Any
):
    asked = inquiry(CHECK, fullName=name, **subject)
    return ask(opensanctions.adapter(), asked)


def test_unlisted_subject_is_clear(opensanctions: FakeOpenSanctions):
    answer = finding_of(opensanctions)

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


def test_hit_has_its_list_and_its_score(opensanctions: FakeOpenSanctions):
    answer = finding_of(opensanctions, "Testperson Sanction")

    assert (codes(answer), answer.score) == (["SANCTIONS_HIT"], 95)
    assert "us_ofac_sdn (100%)" in answer.flags[0].message
    assert answer.details["hitCount"] == 1
    assert answer.details["hits"] == [
        {
            "lists": ["us_ofac_sdn"],
            "entryId": "NK-0",
            "name": "Sanction Testperson",
            "matchedName": None,
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
        # The score is below the threshold.
        ("Sanction Otherperson", [], 5),
        # A company is no person.
        ("Sanction Testcompany", [], 5),
    ],
)
def test_topic_maps_to_a_flag(opensanctions: FakeOpenSanctions, name, flags, score):
    answer = finding_of(opensanctions, name)

    assert (codes(answer), answer.score) == (flags, score)
    assert (RiskLevel.of(answer.score) == RiskLevel.LOW) == (not flags)


def test_query_holds_only_the_subject(opensanctions: FakeOpenSanctions):
    finding_of(opensanctions, dateOfBirth="1990-01-31", idNumber="1", email="a@b.test")
    company = {"subjectType": "COMPANY", "registrationNumber": "PVT-1"}
    answer = finding_of(opensanctions, "Sanction Testcompany", **company)

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
        # A doubtful result counts as a hit.
        ({"match": True, "score": 0.1}, ["PEP_HIT"]),
        ({"match": False, "score": 0.9}, ["PEP_HIT"]),
        ({"match": None, "score": 0.7}, ["PEP_HIT"]),
        ({"match": False, "score": 0.69}, []),
        ({"properties": None, "datasets": None}, ["WATCHLIST_HIT"]),
    ],
)
def test_result_maps_to_a_hit(opensanctions: FakeOpenSanctions, result, flags):
    opensanctions.result = result

    assert codes(finding_of(opensanctions, "Pep Testperson")) == flags


@pytest.mark.parametrize(
    ("result", "response"),
    [
        *(({"score": bad, "match": None}, {}) for bad in ("high", None, True, 7, -1)),
        ({}, {"status": 500}),
        ({}, {"status": None}),
        ({}, {"results": None}),
        ({}, {"results": ["Pep"]}),
        # The answer has fewer results than its total.
        ({}, {"results": []}),
        ({}, {"results": [], "total": None}),
    ],
)
def test_doubtful_answer_is_never_clean(opensanctions, result, response):
    opensanctions.result, opensanctions.response = result, response

    with pytest.raises(Unavailable):
        finding_of(opensanctions, "Pep Testperson")


def test_answer_without_the_query_is_unavailable(opensanctions: FakeOpenSanctions):
    opensanctions.says = (200, {"responses": {}})

    with pytest.raises(Unavailable, match="could not answer"):
        finding_of(opensanctions)


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
def test_status_maps_to_a_result(opensanctions, status, body, failure, told):
    opensanctions.says = (status, body)

    with pytest.raises(failure) as error:
        finding_of(opensanctions)

    assert told in error.value.message
    assert "Jane" not in error.value.message


def test_only_the_right_key_is_accepted(opensanctions):
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
def test_unknown_edition_is_unavailable(opensanctions, catalogued):
    opensanctions.catalogued = catalogued

    with pytest.raises(Unavailable, match="which edition"):
        finding_of(opensanctions)
    assert not opensanctions.asked()


def test_missing_catalogue_prevents_the_query(opensanctions):
    opensanctions.has_catalogue = False

    with pytest.raises(Unavailable, match="which edition"):
        finding_of(opensanctions)
    assert not opensanctions.asked()


def test_stale_index_is_unavailable_and_costs_nothing(opensanctions):
    opensanctions.version = f"{now() - timedelta(days=8):%Y%m%d%H%M%S}-abc"

    with pytest.raises(Unavailable, match="an index that is 8 days old"):
        finding_of(opensanctions)
    assert not opensanctions.asked()

    adapter = opensanctions.adapter(days=9)
    assert adapter.ask(inquiry(CHECK, fullName=JANE)).editions[0]["ageDays"] == 8


def test_collection_is_as_old_as_the_oldest_of_its_parts(opensanctions):
    opensanctions.catalogued = {"index_version": None}

    assert (
        finding_of(opensanctions).provider_reference
        == f"default {opensanctions.version}"
    )


def test_catalogue_is_cached_for_a_minute(opensanctions: FakeOpenSanctions):
    adapter = opensanctions.adapter()
    for _ in range(3):
        ask(adapter, inquiry(CHECK, fullName=JANE))

    assert len(opensanctions.requests) == 3 + 1


def test_faulty_answer_is_unavailable(opensanctions):
    opensanctions.faults.status = 500

    with pytest.raises(Unavailable):
        finding_of(opensanctions)


@pytest.mark.parametrize(("check", "name"), [("IDENTITY", JANE), (CHECK, None)])
def test_unsupported_inquiry_is_refused(opensanctions, check, name):
    with pytest.raises(Refused):
        opensanctions.adapter().ask(inquiry(check, fullName=name))
    assert not opensanctions.requests


@pytest.mark.parametrize(
    ("path", "may_be_charged"), [("/catalog", False), ("/match", True)]
)
def test_only_an_unanswered_query_may_be_charged(
    opensanctions, monkeypatch, path, may_be_charged
):
    monkeypatch.setattr("verification.providers.opensanctions.SECONDS", 0.1)
    opensanctions.faults.path, opensanctions.faults.slow = path, 0.4

    with pytest.raises(Unavailable) as error:
        finding_of(opensanctions)

    assert error.value.may_be_charged is may_be_charged
