import sys
from datetime import date, timedelta
from uuid import UUID

import pytest
import time_machine
from django.db import connection, transaction
from django.utils.timezone import now

from tests.jobs.tasks import nothing
from verification.jobs.models import Job
from verification.jobs.queue import ensure_job_by, is_job, schedule_job


def test_enqueueing_is_one_statement(db, django_assert_num_queries):
    with django_assert_num_queries(1):
        schedule_job(nothing, 1, "a", UUID(int=7))

    assert Job.objects.get().arguments == [1, "a", str(UUID(int=7))]


def test_a_job_goes_when_its_transaction_rolls_back(transactional_db):
    with transaction.atomic():
        schedule_job(nothing)
        transaction.set_rollback(True)

    assert not Job.objects.exists()


@pytest.mark.parametrize("value", [None, 1.5, date(2026, 1, 1), {"name": "Ada"}])
def test_a_job_takes_nothing_but_ids(db, value):
    with pytest.raises(TypeError):
        schedule_job(nothing, value)


def test_jobs_are_named_by_their_dotted_path(db):
    schedule_job(nothing)

    assert Job.objects.get().function == "tests.jobs.tasks.nothing"


@pytest.mark.parametrize(
    "path",
    [
        "os.system",
        "tasks",
        "django_q.tasks.async_task",
        "tests.jobs.tasks.time.sleep",
        "tests.jobs.absent.nothing",
        "verification.jobs.queue.schedule_job",
        "verification.consents.links.ConsentLinks",
        # Imported there and defined elsewhere.
        "tests.jobs.test_queue.nothing",
    ],
)
def test_only_decorated_functions_of_our_apps_are_jobs(db, path):
    with pytest.raises(ValueError, match="not a function with @job"):
        schedule_job(path)


def test_looking_for_a_job_imports_no_foreign_module():
    assert not is_job("this.anything")
    assert not is_job("django.contrib.admin.tests.anything")

    assert not {"this", "django.contrib.admin.tests"} & sys.modules.keys()


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
        ensure_job_by(nothing, at + timedelta(seconds=seconds))

    assert Job.objects.get().due_at == at + timedelta(seconds=later_by)


def test_nobody_is_woken_for_nothing(db):
    ensure_job_by(nothing, None)

    assert not Job.objects.exists()
