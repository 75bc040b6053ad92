"""A worker dies between the call and the record of what came of it."""

import time
from datetime import timedelta

import pytest
from django.db import IntegrityError
from django.utils.timezone import now

from tests.checks.engine import definitions, only_result, paid
from tests.checks.source import CLEAR
from tests.sources.two import calls, orders
from tests.world.clock import let_time_pass
from verification.checks.engine import SourceQueues, admit_calls
from verification.checks.inquiries import call_provider, find_route
from verification.checks.models import CheckResult
from verification.checks.queue import claim
from verification.checks.results import record_outcomes
from verification.sources.models import Call


def asked_by_a_worker_that_dies():
    """Up to the answer; what is held in its hands."""
    called, go = decided_by_a_worker_that_dies()
    policy = definitions()[called.definition_id].retry_policy
    return call_provider(go.provider, called, policy)


def decided_by_a_worker_that_dies():
    (claimed,) = claim(1)
    return next(
        admit_calls([(claimed, find_route(claimed))], definitions(), SourceQueues())
    )


def assert_left_to_a_person(report, two):
    """The one that was asked was asked once, and nobody in its place."""
    assert report["checkResults"][0]["failure"]["code"] == "SOURCE_CALL_IN_DOUBT"
    assert calls() == [("second", "IN_DOUBT")]
    assert len(two.second.asked) == 1
    assert two.first.asked == []


def test_a_source_that_knows_our_reference_is_asked_for_the_same_again(paying_api, two):
    ordered = paying_api.create(*orders(1))
    asked_by_a_worker_that_dies()
    let_time_pass()

    paying_api.work()

    assert paying_api.report(ordered["id"])["status"] == "READY"
    assert calls() == [("first", "LOST"), ("first", "ANSWERED")]
    assert len({asked["reference"] for asked in two.first.asked}) == 1
    assert two.second.asked == []


def test_a_source_that_would_be_paid_again_is_left_to_a_person(paying_api, two):
    two.routed("second", "first")
    ordered = paying_api.create(*orders(1))
    asked_by_a_worker_that_dies()
    let_time_pass()

    paying_api.work()

    assert_left_to_a_person(paying_api.report(ordered["id"]), two)
    assert paid() == {"CHARGE": -50, "REVERSAL": 50}


def test_a_doubt_stays_where_whoever_found_it_dies_as_well(paying_api, two):
    two.routed("second", "first")
    ordered = paying_api.create(*orders(1))
    asked_by_a_worker_that_dies()
    let_time_pass()
    decided_by_a_worker_that_dies()
    let_time_pass()

    paying_api.work()

    assert_left_to_a_person(paying_api.report(ordered["id"]), two)


def test_a_late_worker_does_not_end_a_call_that_is_in_doubt(paying_api, two):
    two.routed("second")
    paying_api.create(*orders(1))
    late = asked_by_a_worker_that_dies()
    let_time_pass()
    paying_api.work()

    record_outcomes([late], definitions())

    assert calls() == [("second", "IN_DOUBT")]
    assert only_result().status == "FAILED"


def test_a_retry_by_the_client_is_another_run_and_is_asked(paying_api, two):
    two.routed("second")
    ordered = paying_api.create(*orders(1))
    asked_by_a_worker_that_dies()
    let_time_pass()
    paying_api.work()

    paying_api.post(f"/reports/{ordered['id']}/retry")
    paying_api.work()

    assert paying_api.report(ordered["id"])["status"] == "READY"
    assert calls() == [("second", "IN_DOUBT"), ("second", "ANSWERED")]


def test_what_a_cancelled_check_was_asked_for_is_in_doubt(paying_api, two):
    two.routed("second")
    ordered = paying_api.create(*orders(1))
    asked_by_a_worker_that_dies()
    paying_api.post(f"/reports/{ordered['id']}/cancel")
    let_time_pass()

    paying_api.work()

    assert calls() == [("second", "IN_DOUBT")]
    assert only_result().status == "CANCELLED"


@pytest.mark.parametrize(
    ("is_cancelled", "ends"), [(True, "CANCELLED"), (False, "FAILED")]
)
def test_what_was_asked_before_a_suspension_is_in_doubt_if_it_is_not_asked_again(
    paying_api, two, is_cancelled, ends
):
    two.routed("second")
    ordered = paying_api.create(*orders(1))
    asked_by_a_worker_that_dies()
    paying_api.workspace.suspend("KYB is out of date.")
    let_time_pass()
    paying_api.work()
    paying_api.workspace.resume()
    if is_cancelled:
        paying_api.post(f"/reports/{ordered['id']}/cancel")
    two.routed("nobody")
    let_time_pass()

    paying_api.work()

    assert calls() == [("second", "IN_DOUBT")]
    assert only_result().status == ends


@pytest.mark.parametrize("since", [[], ["NOT_ASKED"]])
def test_whose_answer_was_lost_is_asked_again_before_any_other(paying_api, two, since):
    two.routed("second", "first")
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


def test_a_worker_that_dies_before_any_source_leaves_no_doubt(paying_api, two):
    two.routed("second")
    ordered = paying_api.create(*orders(1))
    claim(1)
    let_time_pass()

    paying_api.work()

    assert paying_api.report(ordered["id"])["status"] == "READY"
    assert calls() == [("second", "ANSWERED")]


def test_an_answer_and_the_end_of_its_call_are_recorded_together(
    paying_api, two, monkeypatch
):
    paying_api.create(*orders(1))
    two.first.answers(CLEAR)
    monkeypatch.setattr("verification.checks.results.update_reports", lambda *a: 1 / 0)

    paying_api.work()

    assert calls() == [("first", "")]
    assert only_result().status == "RUNNING"
    assert Call.objects.get().ended_at is None


def test_answers_on_their_way_are_recorded_where_the_worker_comes_to_grief(
    paying_api, two
):
    two.routed("second")
    going, broken = (paying_api.create(*orders(1)) for _ in range(2))
    result = only_result(report=broken["id"])
    # A call of another run that nobody has ended: no other may be written beside it.
    made = {"tries": 0, "reference": "r", "source": "second", "attempt": 9}
    Call.objects.create(result=result, **made)
    soon = now() + timedelta(seconds=0.2)
    CheckResult.objects.filter(pk=result.pk).update(next_attempt_at=soon)
    two.second.play = lambda asked: time.sleep(0.5) or CLEAR

    with pytest.raises(IntegrityError, match="one_call_under_way"):
        paying_api.work()

    assert paying_api.report(going["id"])["status"] == "READY"
    assert only_result(report=broken["id"]).status == "RUNNING"
