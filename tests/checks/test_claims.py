import threading
from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest
from django.db import connection
from django.utils.timezone import now

from tests.checks.engine import (
    FAILED,
    HOUR,
    definitions,
    events,
    found,
    ledger_totals,
    only_result,
    snapshot_tables,
)
from tests.world.clients import person
from tests.world.clock import let_time_pass
from tests.world.threads import run_at_once
from verification.checks.due_checks import claim
from verification.checks.models import CheckResult
from verification.checks.results import Retry, record_outcomes
from webhooks.models import Event

FOUND, NOT_FOUND = found(5), found(80)
LATE_ENDINGS = [NOT_FOUND, FAILED, Retry(now(), tries=3)]


@pytest.fixture
def one_check(api):
    """A report of one check, waiting to be claimed."""
    return api.create(person() | {"checksRequested": ["IDENTITY"]})


def claim_one():
    (claimed,) = claim(1)
    return claimed


@pytest.mark.django_db(transaction=True)
def test_two_workers_claim_different_checks(api):
    api.create(*[person(idNumber=str(20000000 + n)) for n in range(30)])
    claimed, lock = [], threading.Lock()

    def work(_):
        while claims := claim(7):
            with lock:
                claimed.extend(c.result_id for c in claims)

    assert run_at_once(4, work) == [None] * 4

    assert len(claimed) == len(set(claimed)) == 90


@pytest.mark.parametrize("join", ["nestloop", "mergejoin"])
def test_claim_takes_the_longest_due_checks_first(api, join):
    api.create(person())
    results = list(CheckResult.objects.order_by("position"))
    for hours, result in enumerate(results):
        due = now() - timedelta(hours=hours)
        CheckResult.objects.filter(pk=result.pk).update(
            next_attempt_at=due, turn_at=due
        )

    with connection.cursor() as cursor:
        for other in {"nestloop", "hashjoin", "mergejoin"} - {join}:
            cursor.execute(f"SET LOCAL enable_{other} = off")
    order = [claim_one().result_id, *[claimed.result_id for claimed in claim(10)]]

    assert order == [result.pk for result in reversed(results)]


def test_claim_lasts_as_long_as_its_lease(one_check, settings):
    settings.CHECK_LEASE_SECONDS = 90
    before = now()

    claim_one()

    lease = only_result().next_attempt_at - before
    assert timedelta(seconds=85) < lease < timedelta(seconds=95)
    assert only_result().status == "RUNNING"
    assert claim(10) == []


def test_claim_skips_checks_that_are_not_due(one_check):
    CheckResult.objects.update(next_attempt_at=now() + timedelta(seconds=5))

    assert claim(10) == []


def test_check_of_a_dead_worker_is_claimed_after_its_lease(one_check):
    first = claim_one()
    let_time_pass()

    second = claim_one()

    assert second.result_id == first.result_id
    assert (second.fence, second.claims) == (first.fence + 1, first.claims + 1)
    assert second.started_at == first.started_at - HOUR


@pytest.mark.parametrize(
    ("ending", "is_first"), [*product(LATE_ENDINGS, [True]), (FAILED, False)]
)
def test_late_answer_is_ignored_after_a_newer_claim(one_check, ending, is_first):
    late = claim_one()
    let_time_pass()
    both = [(claim_one(), FOUND), (late, ending)]

    record_outcomes(both[::-1] if is_first else both, definitions())

    result = only_result()
    assert result.status == "COMPLETED"
    assert ("check.completed", f"{result.pk}:1") in events()
    assert "check.failed" not in dict(events())
    assert "REVERSAL" not in ledger_totals()


def test_late_worker_overwrites_no_result(one_check):
    late = claim_one()
    let_time_pass()
    record_outcomes([(claim_one(), FOUND)], definitions())
    before = snapshot_tables()

    for ending in LATE_ENDINGS:
        record_outcomes([(late, ending)], definitions())

        assert snapshot_tables() == before, ending


def test_late_worker_writes_nothing_during_another_claim(one_check):
    late = claim_one()
    let_time_pass()
    in_time = claim_one()
    before = snapshot_tables()

    for ending in LATE_ENDINGS:
        record_outcomes([(late, ending)], definitions())

        assert snapshot_tables() == before, ending
    record_outcomes([(in_time, FOUND)], definitions())
    assert only_result().score == 5


def test_outcome_recorded_twice_counts_once(one_check):
    claimed = claim_one()
    record_outcomes([(claimed, FAILED)], definitions())
    before = snapshot_tables()

    record_outcomes([(claimed, FAILED)], definitions())

    assert snapshot_tables() == before


def test_worker_of_an_earlier_attempt_overwrites_nothing(api, one_check):
    late = claim_one()
    let_time_pass()
    record_outcomes([(claim_one(), FAILED)], definitions())
    assert api.post(f"/reports/{one_check['id']}/retry").status_code == 200

    record_outcomes([(late, FOUND)], definitions())

    assert only_result().status == "PENDING"
    assert ledger_totals() == {"CHARGE": -100, "REVERSAL": 50}


def test_sixth_claim_without_an_outcome_fails_the_check(api, one_check, log_lines):
    for _ in range(5):
        assert len(claim(10)) == 1
        let_time_pass()

    api.work()

    report = api.report(one_check["id"])
    (result,) = report["checkResults"]
    assert (report["status"], result["status"]) == ("FAILED", "FAILED")
    assert result["failure"]["code"] == "ENGINE_GAVE_UP"
    assert result["failure"]["retryable"] is True
    assert ledger_totals() == {"CHARGE": -50, "REVERSAL": 50}
    assert Event.objects.filter(name="check.failed").count() == 1
    assert any(result["id"] in line["message"] for line in log_lines())
    api.post(f"/reports/{one_check['id']}/retry")
    api.work()
    assert api.report(one_check["id"])["status"] == "READY"


def test_fifth_claim_without_an_outcome_calls_the_source(api, one_check):
    for _ in range(4):
        claim(10)
        let_time_pass()

    api.work()

    assert api.report(one_check["id"])["status"] == "READY"


def test_pending_answers_do_not_count_as_dead_workers(one_check):
    for _ in range(8):
        claimed = claim_one()
        assert claimed.claims == 1
        record_outcomes([(claimed, Retry(now(), tries=0))], definitions())


def test_fence_of_another_result_does_not_match(api):
    api.create(person())
    first, second, _ = claim(3)
    swapped = replace(first, fence=second.fence + 5)

    record_outcomes([(swapped, FOUND)], definitions())

    assert only_result(pk=first.result_id).status == "RUNNING"
