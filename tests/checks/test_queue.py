from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest
import time_machine
from django.db import connection
from django.utils.timezone import now

from tests.checks.engine import only_result
from tests.checks.source import CLEAR, DOWN
from tests.world.clients import Api, person
from tests.world.clock import longest_pauses as longest_pauses
from verification.checks import engine
from verification.checks.due_checks import (
    MAX_SMALL_REQUEST,
    TURN_INTERVAL,
    assign_turns,
    claim,
)
from verification.checks.models import CheckResult
from verification.db.ids import uuid7
from verification.jobs.models import Job
from verification.jobs.names import JobName
from verification.jobs.queue import schedule_job

pytestmark = pytest.mark.django_db
SECOND = timedelta(seconds=1)


@pytest.fixture
def one_check(api):
    api.create(person(idNumber="90000006") | {"checksRequested": ["IDENTITY"]})
    Job.objects.all().delete()


def wake_ups():
    jobs = Job.objects.filter(function=JobName.RUN_DUE_CHECKS).order_by("due_at")
    return list(jobs.values_list("due_at", flat=True))


def make_due_in(seconds):
    """Make each check due so many seconds from now."""
    for result, due in zip(CheckResult.objects.all(), seconds, strict=True):
        at = now() + timedelta(seconds=due)
        CheckResult.objects.filter(pk=result.pk).update(next_attempt_at=at, turn_at=at)


def test_small_request_is_due_at_once():
    at = now()

    assert assign_turns(uuid7(), MAX_SMALL_REQUEST, at) == [at] * MAX_SMALL_REQUEST


def test_turns_of_a_large_request_follow_each_other():
    at = now()

    given = assign_turns(uuid7(), 100, at)

    assert given == [at + number * TURN_INTERVAL for number in range(100)]


def test_second_large_request_comes_after_the_first():
    account, at = uuid7(), now()
    first = assign_turns(account, 100, at)

    second = assign_turns(account, 100, at)

    assert second[0] == first[-1] + TURN_INTERVAL


def test_large_request_takes_no_turns_in_the_past():
    account, at = uuid7(), now()
    assign_turns(account, 100, at)

    later = at + timedelta(hours=1)

    assert assign_turns(account, 100, later)[0] == later


def test_large_request_does_not_delay_another_account(api: Api, another_api: Api):
    # At one moment, however long a busy machine takes for them.
    with time_machine.travel(now(), tick=False):
        api.create(*[person(idNumber=str(20000000 + n)) for n in range(20)])
        single = another_api.create(person())

    claimed = claim(20)

    assert single["id"] in {str(c.report.pk) for c in claimed}


def test_workers_run_checks_before_their_turn_when_idle(api: Api):
    api.create(person())
    CheckResult.objects.update(turn_at=now() + timedelta(hours=1))

    assert len(claim(10)) == 3


def test_run_schedules_a_job_for_the_next_due_check(api, one_check):
    api.work()

    assert only_result().next_attempt_at > now() + 15 * SECOND
    assert wake_ups() == [only_result().next_attempt_at]


def test_run_schedules_a_job_for_the_next_try(paying_api, source, longest_pauses):
    source.answers(DOWN, CLEAR)
    paying_api.create(person() | {"checksRequested": ["IDENTITY"]})
    Job.objects.all().delete()

    paying_api.work()

    (at,) = wake_ups()
    assert abs(at - max(only_result().next_attempt_at, now())) < 2 * SECOND


def test_each_waiting_check_gets_a_job_in_time(api):
    api.create(person())
    Job.objects.all().delete()
    make_due_in([30, 10, 20])
    third, first, second = CheckResult.objects.values_list("next_attempt_at", flat=True)

    api.work()
    assert wake_ups() == [first]

    Job.objects.all().delete()
    CheckResult.objects.filter(next_attempt_at=first).update(next_attempt_at=now())
    api.work()
    assert wake_ups() == [second]
    assert second < third


def waiting():
    return CheckResult.objects.filter(next_attempt_at__isnull=False)


def test_run_schedules_a_job_for_the_end_of_a_lease(api, one_check):
    claim(1)

    api.work()

    assert wake_ups() == [only_result().next_attempt_at]


def test_two_runs_schedule_one_job(api, one_check):
    for _ in range(5):
        api.work()

    assert len(wake_ups()) == 1


def test_run_schedules_no_job_after_an_earlier_one(api, one_check):
    schedule_job(JobName.RUN_DUE_CHECKS, at=now() + SECOND)

    api.work()

    assert len(wake_ups()) == 1


@pytest.mark.parametrize(
    "useless",
    [
        {"due_at": now() + timedelta(days=1)},
        {"claimed_by": "a cluster that is at it"},
        {"gave_up_at": now()},
        {"function": "verification.jobs.schedules.purge_failures"},
    ],
)
def test_other_jobs_do_not_replace_the_next_run(api, one_check, useless):
    api.work()
    Job.objects.update(**({"due_at": now()} | useless))

    api.work()

    at = only_result().next_attempt_at
    assert Job.objects.filter(
        function=JobName.RUN_DUE_CHECKS, due_at=at, claimed_by=""
    ).exists()


def test_run_schedules_no_job_when_no_check_waits(api):
    api.create(person())
    Job.objects.all().delete()

    api.work()

    assert wake_ups() == []


def test_job_schedules_another_when_its_time_is_up(api, one_check, monkeypatch):
    monkeypatch.setattr(engine, "JOB_SECONDS", 0)

    api.work()

    assert only_result().status == "PENDING"
    (at,) = wake_ups()
    assert at <= now()


def test_backlog_starts_a_second_worker(api):
    api.create(*[person(idNumber=str(20000000 + n)) for n in range(30)])
    Job.objects.all().delete()

    api.work()

    assert len(wake_ups()) == 1
    assert not waiting().exists()


def test_small_request_starts_no_second_worker(api):
    api.create(*[person(idNumber=str(20000000 + n)) for n in range(10)])
    Job.objects.all().delete()

    api.work()

    assert wake_ups() == []


@pytest.mark.django_db(transaction=True)
def test_locked_check_is_tried_again_after_a_second(api, one_check):
    with held_by_another():
        api.work()

    (at,) = wake_ups()
    assert now() < at < now() + 2 * SECOND


@contextmanager
def held_by_another():
    values = connection.get_connection_params()
    values.pop("context", None)
    with psycopg.connect(**values) as other:
        other.execute("SELECT FROM checks_checkresult FOR UPDATE")
        yield
