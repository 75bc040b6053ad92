import re
import threading
from datetime import timedelta

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from django_q.models import Failure, Schedule
from django_q.scheduler import scheduler

from verification.jobs.models import Heartbeat, Job
from verification.jobs.names import JobName
from verification.jobs.queue import is_job
from verification.jobs.schedules import FAILURE_RETENTION, SCHEDULES, purge_failures


def test_setup_keeps_the_next_times_when_run_again(db):
    call_command("setup_schedules")
    Schedule.objects.update(next_run=timezone.now() + timedelta(days=1))
    before = list(Schedule.objects.order_by("pk").values())

    call_command("setup_schedules")

    assert list(Schedule.objects.order_by("pk").values()) == before


def test_setup_deletes_removed_schedules(db):
    Schedule.objects.create(name="Old", func="tests.jobs.tasks.nothing")

    call_command("setup_schedules")

    assert {s.func for s in Schedule.objects.all()} == set(SCHEDULES)


def test_name_stands_for_a_job():
    assert [name for name in JobName if not is_job(name)] == []


def test_every_job_has_a_name():
    paths = set()
    for package in settings.JOB_PACKAGES - {"tests"}:
        for file in (settings.BASE_DIR / package).rglob("*.py"):
            module = ".".join(file.relative_to(settings.BASE_DIR).with_suffix("").parts)
            found = re.findall(
                r"^@job\n(?:@.*\n)*def (\w+)", file.read_text(), re.MULTILINE
            )
            paths |= {f"{module}.{function}" for function in found}

    assert paths == set(JobName)


@pytest.mark.django_db(transaction=True)
def test_several_clusters_run_a_schedule_once():
    call_command("setup_schedules")
    Schedule.objects.update(next_run=timezone.now() - timedelta(hours=2))

    def run():
        scheduler()
        connection.close()

    clusters = [threading.Thread(target=run) for _ in range(4)]
    for cluster in clusters:
        cluster.start()
    for cluster in clusters:
        cluster.join()

    functions = sorted(Job.objects.values_list("function", flat=True))
    assert functions == sorted(SCHEDULES)


@pytest.mark.django_db(transaction=True)
def test_wrong_schedule_does_not_stop_the_others():
    due = timezone.now() - timedelta(hours=1)
    call_command("setup_schedules")
    Schedule.objects.create(
        name="Wrong", func="os.abort", kwargs="{'now': True}", next_run=due
    )
    Schedule.objects.update(next_run=due)

    scheduler()

    assert Job.objects.count() == len(SCHEDULES)


@pytest.mark.django_db(transaction=True)
def test_schedule_of_a_newer_version_becomes_a_job():
    Schedule.objects.create(name="Newer", func="tests.jobs.tasks.added_later")

    scheduler()

    assert Job.objects.get().function == "tests.jobs.tasks.added_later"


def test_purge_deletes_failures_after_a_month(db):
    old, new = timezone.now() - FAILURE_RETENTION - timedelta(days=1), timezone.now()
    for id, at in (("old", old), ("new", new)):
        Failure.objects.create(id=id, started=at, stopped=at, success=False)
        Heartbeat.objects.create(cluster=id, beat_at=at)
        Job.objects.create(function=id, gave_up_at=at)

    purge_failures()

    assert Failure.objects.get().pk == "new"
    assert Heartbeat.objects.get().pk == "new"
    assert Job.objects.get().function == "new"
