from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest
from django.db import connection
from django.utils.timezone import now

from tests.checks.engine import only_result
from tests.checks.source import CLEAR, DOWN
from tests.world.clients import person
from verification.checks import engine
from verification.checks.models import CheckResult
from verification.checks.queue import RUN_DUE, claim, wake_up
from verification.jobs.models import Job

SECOND = timedelta(seconds=1)


@pytest.fixture
def one_check(api):
    api.create(person(idNumber="90000006") | {"checksRequested": ["IDENTITY"]})
    Job.objects.all().delete()


def wake_ups():
    jobs = Job.objects.filter(function=RUN_DUE).order_by("due_at")
    return list(jobs.values_list("due_at", flat=True))


def wait(seconds):
    """Make each check due so many seconds from now."""
    for result, due in zip(CheckResult.objects.all(), seconds, strict=True):
        at = now() + timedelta(seconds=due)
        CheckResult.objects.filter(pk=result.pk).update(next_attempt_at=at, turn_at=at)


def test_a_worker_is_woken_when_a_waiting_check_is_due(api, one_check):
    api.work()

    assert only_result().next_attempt_at > now() + 15 * SECOND
    assert wake_ups() == [only_result().next_attempt_at]


def test_a_worker_is_woken_when_a_source_that_was_down_is_asked_again(
    paying_api, source
):
    source.answers(DOWN, CLEAR)
    paying_api.create(person() | {"checksRequested": ["IDENTITY"]})
    Job.objects.all().delete()

    paying_api.work()

    (at,) = wake_ups()
    assert abs(at - max(only_result().next_attempt_at, now())) < 2 * SECOND


def test_each_of_several_that_wait_is_woken_for_in_its_time(api):
    api.create(person())
    Job.objects.all().delete()
    wait([30, 10, 20])
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


def test_a_worker_is_woken_when_the_lease_of_another_ends(api, one_check):
    claim(1)

    api.work()

    assert wake_ups() == [only_result().next_attempt_at]


def test_one_wake_up_is_enough_for_all_who_ask_for_it(api, one_check):
    for _ in range(5):
        api.work()

    assert len(wake_ups()) == 1


def test_a_sooner_wake_up_is_enough(api, one_check):
    wake_up(now() + SECOND)

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
def test_a_job_that_will_not_look_in_time_is_no_wake_up(api, one_check, useless):
    api.work()
    Job.objects.update(**({"due_at": now()} | useless))

    api.work()

    at = only_result().next_attempt_at
    assert Job.objects.filter(function=RUN_DUE, due_at=at, claimed_by="").exists()


def test_nobody_is_woken_when_nothing_waits(api):
    api.create(person())
    Job.objects.all().delete()

    api.work()

    assert wake_ups() == []


def test_a_job_that_runs_out_of_time_hands_over(api, one_check, monkeypatch):
    monkeypatch.setattr(engine, "JOB_SECONDS", 0)

    api.work()

    assert only_result().status == "PENDING"
    (at,) = wake_ups()
    assert at <= now()


def test_a_backlog_wakes_a_second_worker(api):
    api.create(*[person(idNumber=str(20000000 + n)) for n in range(30)])
    Job.objects.all().delete()

    api.work()

    assert len(wake_ups()) == 1
    assert not waiting().exists()


def test_a_small_request_wakes_no_second_worker(api):
    api.create(*[person(idNumber=str(20000000 + n)) for n in range(10)])
    Job.objects.all().delete()

    api.work()

    assert wake_ups() == []


@pytest.mark.django_db(transaction=True)
def test_a_check_that_another_holds_is_looked_at_again_soon(api, one_check):
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
