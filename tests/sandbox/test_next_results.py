"""The client sets how the next runs of a check end in its sandbox."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now

from tests.world.clients import Api, error_codes, person
from tests.world.clock import longest_pauses as longest_pauses
from verification.checks.due_checks import claim
from verification.checks.models import CheckResult, NextResult
from verification.checks.next_results import purge_next_results, with_next_outcome

SET = {"check": "CRB_SCORE", "idNumber": "12345678", "outcome": "ADVERSE"}


def set_result(api: Api, **changes: Any) -> None:
    answer = api.post("/sandbox/results", {**SET, **changes})
    assert answer.status_code == 200, answer.content


def run(api: Api, **subject: Any) -> list[bool]:
    """Order a report; return whether each of its checks raises a flag."""
    made = api.create({**person(**subject), "reuse": False})
    api.work()
    report = api.report(made["id"])
    assert report["status"] == "READY"
    return [bool(r["flags"]) for r in report["checkResults"]]


ORDINARY, ADVERSE = [False, False, False], [False, False, True]


def test_next_run_ends_as_set_and_then_as_ever(api: Api):
    set_result(api)

    assert run(api, idNumber="87654321") == ORDINARY
    assert run(api, idNumber="12345678") == ADVERSE
    assert run(api) == ORDINARY
    assert not NextResult.objects.exists()


def test_request_replaces_what_was_set(api: Api):
    set_result(api, times=5)
    set_result(api, times=2)
    assert [run(api) for _ in "123"] == [ADVERSE, ADVERSE, ORDINARY]

    set_result(api)
    set_result(api, times=0)
    assert run(api) == ORDINARY


def test_check_whose_worker_died_finds_its_outcome_again(api: Api):
    set_result(api)
    api.create(person())
    (claimed,) = (c for c in claim(10) if c.name == "CRB_SCORE")
    assert with_next_outcome(claimed).next_outcome == "ADVERSE"

    other = replace(claimed, result_id=claimed.report.pk)

    assert with_next_outcome(other).next_outcome == ""
    assert with_next_outcome(claimed).next_outcome == "ADVERSE"


def test_outcome_lasts_until_the_last_try(api: Api, longest_pauses):
    set_result(api, outcome="RECOVERS")
    made = api.create({**person(), "checksRequested": ["CRB_SCORE"]})

    for waiting in (1, 1, 0):
        api.work()
        assert NextResult.objects.count() == waiting
        CheckResult.objects.filter(next_attempt_at__isnull=False).update(
            next_attempt_at=now(), turn_at=now()
        )

    assert api.report(made["id"])["status"] == "READY"


def test_other_clients_keep_their_results(api: Api, another_api: Api):
    set_result(api)

    assert run(another_api) == ORDINARY
    assert NextResult.objects.count() == 1


def test_sandbox_without_next_results_costs_no_statement(api: Api, another_api: Api):
    api.create(person())
    set_result(another_api)

    with CaptureQueriesContext(connection) as captured:
        api.work()

    assert not any("checks_nextresult" in query["sql"] for query in captured)


def test_result_that_no_run_takes_is_deleted(api: Api):
    set_result(api)
    NextResult.objects.update(created_at=now() - timedelta(days=8))

    purge_next_results()

    assert not NextResult.objects.exists()


def test_wrong_result_is_refused(api: Api):
    for changes, errors in (
        ({"idNumber": None}, {"#/idNumber": "required"}),
        ({"kraPin": "A123456789Z"}, {"#/kraPin": "not-allowed-here"}),
        ({"outcome": "FINE"}, {"#/outcome": "invalid-choice"}),
        ({"times": 25}, {"#/times": "out-of-range"}),
        ({"check": "CRB"}, {"#/check": "unknown-check"}),
        ({"check": "BUSINESS_VERIFICATION"}, {"#/idNumber": "not-allowed-here"}),
        (
            {"idNumber": None, "registrationNumber": "PVT-AB12CDE"},
            {"#/registrationNumber": "not-allowed-here"},
        ),
    ):
        body = {k: v for k, v in {**SET, **changes}.items() if v is not None}

        assert error_codes(api.refused("/sandbox/results", body)) == errors
