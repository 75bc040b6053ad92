"""A worker dies between the call and the record of what came of it."""

import time
from datetime import timedelta

import pytest
from django.db import IntegrityError
from django.utils.timezone import now

from tests.checks.engine import definitions, ledger_totals, only_result
from tests.checks.source import CLEAR
from tests.sources.two import calls, orders
from tests.world.clock import let_time_pass
from verification.checks.due_checks import claim
from verification.checks.engine import (
    SourceQueues,
    admit_calls,
    call_provider,
    find_route,
)
from verification.checks.models import CheckResult
from verification.checks.results import record_outcomes
from verification.sources.models import Call

pytestmark = pytest.mark.slow


def call_without_recording():
    """Call the source like a worker that dies before it records the outcome."""
    called, go = admit_without_calling()
    policy = definitions()[called.definition_id].retry_policy
    return call_provider(go.provider, called, policy)


def admit_without_calling():
    (claimed,) = claim(1)
    return next(
        admit_calls([(claimed, find_route(claimed))], definitions(), SourceQueues())
    )


def assert_in_doubt(report, two):
    """Check that the source got one call, and the other source none."""
    assert report["checkResults"][0]["failure"]["code"] == "SOURCE_CALL_IN_DOUBT"
    assert calls() == [("second", "IN_DOUBT")]
    assert len(two.second.asked) == 1
    assert two.first.asked == []


def test_interrupted_call_is_repeated_when_repeats_are_free(paying_api, two):
    ordered = paying_api.create(*orders(1))
    call_without_recording()
    let_time_pass()

    paying_api.work()

    assert paying_api.report(ordered["id"])["status"] == "READY"
    assert calls() == [("first", "LOST"), ("first", "ANSWERED")]
    assert len({asked["reference"] for asked in two.first.asked}) == 1
    assert two.second.asked == []


def test_interrupted_call_is_in_doubt_when_repeats_are_paid(paying_api, two):
    two.set_route("second", "first")
    ordered = paying_api.create(*orders(1))
    call_without_recording()
    let_time_pass()

    paying_api.work()

    assert_in_doubt(paying_api.report(ordered["id"]), two)
    assert ledger_totals() == {"CHARGE": -50, "REVERSAL": 50}


def test_doubt_stays_when_the_next_worker_dies(paying_api, two):
    two.set_route("second", "first")
    ordered = paying_api.create(*orders(1))
    call_without_recording()
    let_time_pass()
    admit_without_calling()
    let_time_pass()

    paying_api.work()

    assert_in_doubt(paying_api.report(ordered["id"]), two)


def test_late_worker_does_not_end_a_call_in_doubt(paying_api, two):
    two.set_route("second")
    paying_api.create(*orders(1))
    late = call_without_recording()
    let_time_pass()
    paying_api.work()

    record_outcomes([late], definitions())

    assert calls() == [("second", "IN_DOUBT")]
    assert only_result().status == "FAILED"


def test_retry_by_the_client_calls_the_source_after_a_doubt(paying_api, two):
    two.set_route("second")
    ordered = paying_api.create(*orders(1))
    call_without_recording()
    let_time_pass()
    paying_api.work()

    paying_api.post(f"/reports/{ordered['id']}/retry")
    paying_api.work()

    assert paying_api.report(ordered["id"])["status"] == "READY"
    assert calls() == [("second", "IN_DOUBT"), ("second", "ANSWERED")]


def test_open_call_of_a_cancelled_check_is_in_doubt(paying_api, two):
    two.set_route("second")
    ordered = paying_api.create(*orders(1))
    call_without_recording()
    paying_api.post(f"/reports/{ordered['id']}/cancel")
    let_time_pass()

    paying_api.work()

    assert calls() == [("second", "IN_DOUBT")]
    assert only_result().status == "CANCELLED"


@pytest.mark.parametrize(
    ("is_cancelled", "ends"), [(True, "CANCELLED"), (False, "FAILED")]
)
def test_open_call_before_a_suspension_is_in_doubt(paying_api, two, is_cancelled, ends):
    two.set_route("second")
    ordered = paying_api.create(*orders(1))
    call_without_recording()
    paying_api.workspace.suspend("KYB is out of date.")
    let_time_pass()
    paying_api.work()
    paying_api.workspace.resume()
    if is_cancelled:
        paying_api.post(f"/reports/{ordered['id']}/cancel")
    two.set_route("nobody")
    let_time_pass()

    paying_api.work()

    assert calls() == [("second", "IN_DOUBT")]
    assert only_result().status == ends


@pytest.mark.parametrize("since", [[], ["NOT_ASKED"]])
def test_source_of_a_lost_answer_is_called_first(paying_api, two, since):
    two.set_route("second", "first")
    paying_api.create(*orders(1))
    (claimed,) = claim(1)
    made = {"attempt": 1, "tries": 0, "reference": "r", "result_id": claimed.result_id}
    for end in ["LOST", *since]:
        source = "first" if end == "LOST" else "second"
        Call.objects.create(source=source, end=end, ended_at=now(), **made)
    let_time_pass()

    paying_api.work()

    assert calls()[-1] == ("first", "ANSWERED")
    assert two.second.asked == []


def test_worker_that_dies_before_a_call_leaves_no_doubt(paying_api, two):
    two.set_route("second")
    ordered = paying_api.create(*orders(1))
    claim(1)
    let_time_pass()

    paying_api.work()

    assert paying_api.report(ordered["id"])["status"] == "READY"
    assert calls() == [("second", "ANSWERED")]


def test_answer_is_recorded_with_the_end_of_its_call(paying_api, two, monkeypatch):
    paying_api.create(*orders(1))
    two.first.answers(CLEAR)
    monkeypatch.setattr("verification.checks.results.follow_checks", lambda *a: 1 / 0)

    paying_api.work()

    assert calls() == [("first", "")]
    assert only_result().status == "RUNNING"
    assert Call.objects.get().ended_at is None


def test_failing_job_records_the_answers_of_open_calls(paying_api, two):
    two.set_route("second")
    going, broken = (paying_api.create(*orders(1)) for _ in range(2))
    result = only_result(report=broken["id"])
    # An open call of another run, beside which the table takes no second one.
    made = {"tries": 0, "reference": "r", "source": "second", "attempt": 9}
    Call.objects.create(result=result, **made)
    soon = now() + timedelta(seconds=2)
    CheckResult.objects.filter(pk=result.pk).update(next_attempt_at=soon)
    two.second.play = lambda asked: time.sleep(3) or CLEAR

    with pytest.raises(IntegrityError, match="one_call_under_way"):
        paying_api.work()

    assert paying_api.report(going["id"])["status"] == "READY"
    assert only_result(report=broken["id"]).status == "RUNNING"
