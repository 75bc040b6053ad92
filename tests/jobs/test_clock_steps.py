"""The database's clock is set back by two hours.

The tests go the other way: what is done in `before_the_step` is done two hours ahead of
the database's clock.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
import time_machine
from django.utils.timezone import now

from tests.notifications.messages import email_message, enqueue
from tests.world.clients import Api, person
from tests.world.deliveries import configure_receiver, record_events
from tests.world.rules import store_rule
from verification.checks.models import CheckResult
from verification.db import breaker
from verification.digests import messages
from verification.jobs import queue
from verification.jobs.clock_steps import BOUNDS, MARGIN_SECONDS, mend_due_times
from verification.jobs.models import Heartbeat, Job
from verification.jobs.names import JobName
from verification.jobs.worker import LONG_JOBS
from verification.notifications import delivery
from verification.notifications.models import Notification
from verification.payments import refunds, settlement
from verification.payments.models import AuditWalk
from verification.sources.models import Source
from webhooks import attempts
from webhooks.models import Delivery

pytestmark = pytest.mark.django_db
STEP = timedelta(hours=2)


@contextmanager
def before_the_step() -> Iterator[None]:
    with time_machine.travel(now() + STEP):
        Heartbeat.objects.update_or_create(cluster="one", defaults={"beat_at": now()})
        yield


def beat() -> list[Job]:
    """Beat once; return the jobs that mend the due times."""
    queue.write_heartbeat()
    return list(Job.objects.filter(function=JobName.MEND_DUE_TIMES))


def mend() -> None:
    (job,) = beat()
    mend_due_times(*job.arguments)


def seconds_ahead(moment) -> float:
    return (moment - now()).total_seconds()


def test_first_beat_after_the_step_mends_due_times_once():
    with before_the_step():
        pass

    (job,) = beat()

    assert job.arguments == [pytest.approx(7200, abs=2), queue.MENDING_RUNS]
    assert seconds_ahead(job.due_at) < 1
    assert beat() == [job]


def test_beats_that_follow_each_other_mend_nothing():
    Heartbeat.objects.create(cluster="one", beat_at=now() + timedelta(seconds=2))

    assert beat() == []


def test_beats_of_before_the_step_show_no_working_cluster():
    with before_the_step():
        pass

    assert queue.count_working_clusters() == 0
    assert queue.heartbeat_age_seconds() is None


def test_orders_of_before_the_step_run_at_once(api: Api):
    with before_the_step():
        made = api.create(person())
    api.work()
    assert api.report(made["id"])["status"] == "RUNNING"

    mend()
    api.work()

    assert api.report(made["id"])["status"] == "READY"
    assert not Job.objects.filter(due_at__gt=now() + timedelta(minutes=1)).exists()


def test_waiting_messages_events_and_rules_are_due_at_once(api: Api):
    configure_receiver(api.workspace)
    rule = store_rule(api)
    with before_the_step():
        record_events(api.workspace)
        enqueue(email_message())
        rule.put_off_until = now()
        rule.save()
    Delivery.objects.update(next_attempt_at=now() + STEP)
    waiting = Notification.objects.filter(next_attempt_at__isnull=False)
    assert waiting.exists()

    mend()

    rule.refresh_from_db()
    due = [*Delivery.objects.all(), *waiting]
    times = [row.next_attempt_at for row in due] + [rule.put_off_until]
    assert max(map(seconds_ahead, times)) < 1


def test_retry_after_the_step_keeps_its_time(api: Api):
    with before_the_step():
        pass
    mend()
    (second,) = Job.objects.filter(
        function=JobName.MEND_DUE_TIMES, arguments__1=queue.MENDING_RUNS - 1
    )
    assert 4 < seconds_ahead(second.due_at) < 6
    api.create(person())
    retry_at = now() + timedelta(minutes=5)
    CheckResult.objects.update(next_attempt_at=retry_at, turn_at=retry_at)

    mend_due_times(*second.arguments)

    assert {r.next_attempt_at for r in CheckResult.objects.all()} == {retry_at}


def test_lease_ends_no_later_than_its_length(api: Api, settings):
    api.create(person())
    ends = now() + STEP + timedelta(seconds=30)
    CheckResult.objects.update(
        status="RUNNING", claims=1, next_attempt_at=ends, turn_at=ends
    )
    with before_the_step():
        pass

    mend()

    lease = settings.CHECK_LEASE_SECONDS
    for result in CheckResult.objects.all():
        assert lease - 5 < seconds_ahead(result.next_attempt_at) <= lease
        assert result.turn_at == result.next_attempt_at


def test_long_job_is_not_claimed_twice():
    ends = now() + timedelta(hours=8)
    for name in LONG_JOBS:
        Job.objects.create(function=name, claimed_by="one", due_at=ends)
    with before_the_step():
        pass

    mend()

    assert not Job.objects.exclude(claimed_by="").exclude(due_at=ends).exists()


def test_source_takes_calls_at_once():
    with before_the_step():
        Source.objects.create(
            name="one",
            free_at=now(),
            probed_at=now(),
            resting_until=now() + timedelta(seconds=30),
        )

    mend()

    source = Source.objects.get()
    assert seconds_ahead(source.free_at) <= 60
    assert seconds_ahead(source.probed_at) < 1
    assert seconds_ahead(source.resting_until) <= 300


def test_audit_reads_again_from_the_time_after_the_step():
    with before_the_step():
        AuditWalk.objects.create(name="NIGHT", read_to=now())
    mend()

    assert AuditWalk.objects.get().read_to <= now()


def test_bounds_are_as_long_as_what_they_bound():
    bounds = {(table, column): seconds for table, column, seconds in BOUNDS}

    for column in ("next_attempt_at", "leased_until"):
        assert bounds["webhooks_delivery", column] == attempts.LEASE_SECONDS
        lease = delivery.LEASE.total_seconds()
        assert bounds["notifications_notification", column] == lease
    for table in ("webhooks_configuration", "sources_source"):
        longest = bounds[table, "resting_until"]
        assert f"LEAST({longest}, " in breaker.COUNT_FAILURES
    rest = messages.REST.total_seconds()
    assert bounds["workspaces_messagewindow", "rests_until"] == rest
    unmarked = max(settlement.LEASE, refunds.LEASE).total_seconds()
    assert unmarked <= MARGIN_SECONDS
