import sys
import threading
from datetime import date, timedelta
from uuid import UUID

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.utils.timezone import now

from tests.api.test_problems import unreachable_database as unreachable_database
from tests.jobs.tasks import nothing
from tests.world.threads import run_at_once
from verification.jobs.models import Job
from verification.jobs.queue import (
    ensure_job_by,
    is_job,
    make_cluster_name,
    schedule_job,
    slot,
)


def test_enqueueing_is_one_statement(db, django_assert_num_queries):
    with django_assert_num_queries(1):
        schedule_job(nothing, 1, "a", UUID(int=7))

    assert Job.objects.get().arguments == [1, "a", str(UUID(int=7))]


@pytest.mark.parametrize(
    ("label", "seconds", "is_alive"),
    [("", 140, True), ("", 160, False), ("other", 1, False), ("", -7200, False)],
)
def test_jobs_are_alive_while_work_flows_through_this_cluster(
    db, monkeypatch, label, seconds, is_alive
):
    monkeypatch.delenv("JOB_CLUSTER", raising=False)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO jobs_heartbeat VALUES (%s, now() - %s * interval '1 s')",
            [make_cluster_name(label), seconds],
        )

    if is_alive:
        call_command("jobs", "--alive")
    else:
        with pytest.raises(CommandError, match="through this machine's job cluster"):
            call_command("jobs", "--alive")


def test_jobs_stay_alive_while_the_database_is_away(
    transactional_db, unreachable_database, capsys
):
    call_command("jobs", "--alive")

    assert "not known without the database" in capsys.readouterr().out


def test_job_is_gone_when_its_transaction_rolls_back(transactional_db):
    with transaction.atomic():
        schedule_job(nothing)
        transaction.set_rollback(True)

    assert not Job.objects.exists()


@pytest.mark.parametrize("value", [None, 1.5, date(2026, 1, 1), {"name": "Ada"}])
def test_job_takes_only_ids(db, value):
    with pytest.raises(TypeError, match="is not an id"):
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


def test_is_job_imports_no_foreign_module():
    assert not is_job("this.anything")
    assert not is_job("django.contrib.admin.tests.anything")

    assert not {"this", "django.contrib.admin.tests"} & sys.modules.keys()


def test_claim_finds_its_jobs_by_index(db):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(
            "EXPLAIN SELECT id FROM jobs_job WHERE gave_up_at IS NULL "
            "AND due_at <= now() ORDER BY due_at, id LIMIT 10"
        )

        assert "jobs_due" in str(cursor.fetchall())


@pytest.mark.parametrize(("seconds", "later_by"), [(-60, 1), (0, 1), (0.5, 1), (9, 9)])
def test_due_work_is_tried_again_after_a_second(db, seconds, later_by):
    at = now()

    with time_machine.travel(at, tick=False):
        ensure_job_by(nothing, at + timedelta(seconds=seconds))

    assert Job.objects.get().due_at == at + timedelta(seconds=later_by)


def test_no_job_is_scheduled_without_a_due_time(db):
    ensure_job_by(nothing, None)

    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_slot_limits_the_workers_of_a_kind():
    all_asked = threading.Barrier(4)

    def hold(_: int) -> bool:
        with slot("tests", 2) as free:
            all_asked.wait()
            return free

    assert sorted(run_at_once(4, hold)) == [False, False, True, True]


def hold_another(_: int) -> bool:
    with slot("others", 1) as free:
        return free


@pytest.mark.django_db(transaction=True)
def test_each_kind_has_its_own_slots():
    with slot("tests", 1) as free:
        assert free
        assert run_at_once(1, hold_another) == [True]


@pytest.mark.django_db(transaction=True)
def test_slot_is_free_after_its_use():
    assert run_at_once(1, hold_another) == [True]
    assert run_at_once(1, hold_another) == [True]


@pytest.mark.django_db(transaction=True)
def test_slot_of_a_dead_worker_is_free():
    def die(_: int) -> None:
        slot("others", 1).__enter__()
        connection.close()

    assert run_at_once(1, die) == [None]
    assert run_at_once(1, hold_another) == [True]
