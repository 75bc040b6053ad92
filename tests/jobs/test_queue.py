from datetime import date, timedelta
from uuid import UUID

import pytest
import time_machine
from django.db import connection, transaction
from django.utils.timezone import now

from verification.jobs.models import Job
from verification.jobs.queue import ensure_job_by, schedule_job


def test_enqueueing_is_one_statement(db, django_assert_num_queries):
    with django_assert_num_queries(1):
        schedule_job("tests.jobs.tasks.nothing", 1, "a", UUID(int=7))

    assert Job.objects.get().arguments == [1, "a", str(UUID(int=7))]


def test_a_job_goes_when_its_transaction_rolls_back(transactional_db):
    with transaction.atomic():
        schedule_job("tests.jobs.tasks.nothing")
        transaction.set_rollback(True)

    assert not Job.objects.exists()


@pytest.mark.parametrize("value", [None, 1.5, date(2026, 1, 1), {"name": "Ada"}])
def test_a_job_takes_nothing_but_ids(db, value):
    with pytest.raises(TypeError):
        schedule_job("tests.jobs.tasks.nothing", value)


@pytest.mark.parametrize(
    "function", ["os.system", "tests.jobs.apps.tasks", "subprocess.tasks.run", "tasks"]
)
def test_only_tasks_of_our_apps_are_jobs(db, function):
    with pytest.raises(ValueError, match="not in the tasks of an app"):
        schedule_job(function)


def test_a_claim_finds_its_jobs_by_index(db):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(
            "EXPLAIN SELECT id FROM jobs_job WHERE gave_up_at IS NULL "
            "AND due_at <= now() ORDER BY due_at, id LIMIT 10"
        )

        assert "jobs_due" in str(cursor.fetchall())


@pytest.mark.parametrize(("seconds", "later_by"), [(-60, 1), (0, 1), (0.5, 1), (9, 9)])
def test_what_is_due_is_looked_at_again_after_a_second(db, seconds, later_by):
    at = now()

    with time_machine.travel(at, tick=False):
        ensure_job_by("tests.jobs.tasks.nothing", at + timedelta(seconds=seconds))

    assert Job.objects.get().due_at == at + timedelta(seconds=later_by)


def test_nobody_is_woken_for_nothing(db):
    ensure_job_by("tests.jobs.tasks.nothing", None)

    assert not Job.objects.exists()
