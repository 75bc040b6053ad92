import threading
import time
from datetime import timedelta
from statistics import median

import pytest
from django.utils.timezone import now

from tests.checks.engine import only_result
from tests.checks.source import CLEAR, DOWN, route_all_checks
from tests.sources.two import calls, orders
from tests.world.clients import person
from tests.world.clock import let_time_pass
from tests.world.clock import longest_pauses as longest_pauses
from verification.checks.due_checks import claim
from verification.checks.engine import SourceQueues
from verification.checks.models import CheckResult
from verification.providers import registry
from verification.settings.providers import Limit
from verification.sources import calls as calls_of_sources
from verification.sources.models import Call, Source


class ConcurrencyMeter:
    """A source that answers after a moment and notes the most concurrent calls."""

    def __init__(self, seconds=0.03):
        self.now, self.most, self._seconds = 0, 0, seconds
        self._lock = threading.Lock()

    def __call__(self, asked):
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(self._seconds)
        with self._lock:
            self.now -= 1
        return CLEAR


def mark_as_answering(name):
    """Record a recent answer, so that the careful limit does not apply."""
    Source.objects.update_or_create(name=name, defaults={"answered_at": now()})


def completed():
    return CheckResult.objects.filter(status="COMPLETED").count()


def test_source_gets_at_most_its_limit_of_calls(paying_api, two, settings):
    two.set_route("first")
    mark_as_answering("first")
    settings.SOURCE_LIMITS = {"first": Limit(3)}
    two.first.play = ConcurrencyMeter()
    paying_api.create(*orders(9))

    paying_api.work()

    assert two.first.play.most == 3
    assert completed() == 9
    assert CheckResult.objects.exclude(tries=0).count() == 0


def test_calls_of_other_workers_count(paying_api, two, settings):
    two.set_route("first")
    mark_as_answering("first")
    settings.SOURCE_LIMITS = {"first": Limit(2)}
    paying_api.create(*orders(3))
    held = claim(2)
    made = {"attempt": 1, "tries": 0, "reference": "r", "source": "first"}
    theirs = [Call.objects.create(result_id=c.result_id, **made) for c in held]

    paying_api.work()

    assert two.first.asked == []
    assert only_result(waits_for="first").status == "RUNNING"

    Call.objects.filter(pk=theirs[0].pk).update(end="ANSWERED", ended_at=now())
    paying_api.work()
    assert completed() == 1
    assert not CheckResult.objects.exclude(waits_for="").exists()


def test_calls_of_dead_workers_do_not_count(paying_api, two, settings):
    two.set_route("first")
    settings.SOURCE_LIMITS = {"first": Limit(1)}
    paying_api.create(*orders(2))
    (held,) = claim(1)
    made = {"attempt": 1, "tries": 0, "reference": "r", "source": "first"}
    begun = now() - timedelta(seconds=settings.CHECK_LEASE_SECONDS)
    Call.objects.create(result_id=held.result_id, begun_at=begun, **made)

    paying_api.work()

    assert completed() == 1


def test_source_gets_at_most_its_calls_a_minute(paying_api, two, settings):
    two.set_route("first")
    mark_as_answering("first")
    settings.SOURCE_LIMITS = {"first": Limit(64, a_minute=60)}
    paying_api.create(*orders(5))

    paying_api.work()

    # One, and one for the second in which nobody asked.
    assert len(two.first.asked) == 2
    waiting = CheckResult.objects.filter(status="RUNNING")
    due = [(r.next_attempt_at - now()).total_seconds() for r in waiting]
    assert sorted(round(seconds, -1) for seconds in due) == [0, 0, 0]
    assert min(due) > 0.5
    assert {(r.tries, r.waits_for) for r in waiting} == {(0, "")}


@pytest.mark.parametrize("answered", [None, timedelta(minutes=2)])
def test_breaker_opens_within_twenty_calls(paying_api, two, answered):
    two.set_route("first")
    two.first.answers(DOWN)
    if answered:
        Source.objects.create(name="first", answered_at=now() - answered)
    paying_api.create(*orders(25))

    paying_api.work()

    assert 10 <= len(two.first.asked) <= 20
    source = Source.objects.get()
    assert 25 < (source.resting_until - now()).total_seconds() <= 30
    # All have had their try, and none waits for a place at the source.
    assert not CheckResult.objects.filter(tries=0).exists()
    assert not CheckResult.objects.exclude(waits_for="").exists()


def rested(name="first", rests=1):
    past = now() - timedelta(seconds=1)
    Source.objects.update_or_create(
        name=name,
        defaults={"failures_in_row": 10, "rests": rests, "resting_until": past},
    )


def test_one_call_probes_the_source_after_a_rest(
    paying_api, two, monkeypatch, longest_pauses
):
    # No other check is due again while the job goes on.
    monkeypatch.setattr(calls_of_sources, "PROBE_WAIT", timedelta(minutes=5))
    two.set_route("first")
    rested(rests=2)
    two.first.play = lambda asked: time.sleep(0.2) or DOWN
    paying_api.create(*orders(5))

    paying_api.work()

    assert len(two.first.asked) == 1
    assert calls() == [("first", "UNAVAILABLE")]
    assert sorted(CheckResult.objects.values_list("tries", flat=True)) == [
        0,
        0,
        0,
        0,
        1,
    ]
    source = Source.objects.get()
    assert 115 < (source.resting_until - now()).total_seconds() <= 120
    assert source.probed_at is None


def test_answer_closes_the_breaker(paying_api, two):
    two.set_route("first")
    rested()
    paying_api.create(*orders(5))

    paying_api.work()
    let_time_pass()
    paying_api.work()

    assert completed() == 5
    source = Source.objects.get()
    assert (source.failures_in_row, source.rests, source.resting_until) == (0, 0, None)


def test_probe_of_a_dead_worker_is_replaced(paying_api, two, settings):
    rested()
    lease = timedelta(seconds=settings.CHECK_LEASE_SECONDS)
    Source.objects.update(probed_at=now() - lease)
    paying_api.create(*orders(1))

    paying_api.work()

    assert calls() == [("first", "ANSWERED")]


def test_hanging_source_does_not_delay_others(paying_api, two):
    routes = route_all_checks("first") | {"CRB_SCORE": {"*": ["second"]}}
    registry.configure(two.sources, routes)
    mark_as_answering("second")
    done = threading.Event()
    two.first.play = lambda asked: done.wait(10) and CLEAR

    def last_of_them(asked):
        if len(two.second.asked) == 70:
            done.set()
        return CLEAR

    two.second.play = last_of_them
    paying_api.create(*orders(70))
    scores = [{**o, "checksRequested": ["CRB_SCORE"]} for o in orders(70)]
    paying_api.create(*scores)

    started = time.monotonic()
    paying_api.work()

    assert time.monotonic() - started < 9
    assert completed() == 140


def test_waiting_checks_run_in_the_order_of_turns(paying_api, two, settings):
    two.set_route("first")
    settings.SOURCE_LIMITS = {"first": Limit(1)}
    for number in range(5):
        paying_api.create(
            person(idNumber=str(30000000 + number)) | {"checksRequested": ["IDENTITY"]}
        )

    paying_api.work()

    asked = [int(asked["idNumber"]) for asked in two.first.asked]
    assert asked == sorted(asked)
    assert completed() == 5


def test_waiting_check_of_a_removed_source_calls_the_others(paying_api, two):
    two.set_route("first")
    paying_api.create(*orders(2))
    Source.objects.create(name="first")
    CheckResult.objects.update(status="RUNNING", waits_for="first")
    registry.configure(
        {"second": two.sources["second"]}, route_all_checks("first", "second")
    )

    paying_api.work()

    assert calls() == [("second", "ANSWERED")] * 2
    assert completed() == 2


def test_job_claims_no_more_waiting_checks_than_threads(db):
    Source.objects.bulk_create(Source(name=name) for name in ("first", "second"))

    assert SourceQueues().rooms(70) == {"first": 64, "second": 6}


def test_duration_excludes_the_wait_for_the_source(paying_api, two, settings):
    two.set_route("first")
    mark_as_answering("first")
    settings.SOURCE_LIMITS = {"first": Limit(1)}
    two.first.play = ConcurrencyMeter(seconds=0.2)
    paying_api.create(*orders(3))

    paying_api.work()

    assert completed() == 3
    took = list(CheckResult.objects.values_list("duration_ms", flat=True))
    assert min(took) >= 200
    assert median(took) < 400, took
