import threading
import time
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone
from django_q.models import Schedule
from django_q.tasks import async_task

from tests.world.logs import log_lines as log_lines
from verification.jobs import queue
from verification.jobs.broker import (
    BEAT_ID,
    MAX_ATTEMPTS,
    WakeUpBroker,
    retry_soon,
)
from verification.jobs.cluster import _retry
from verification.jobs.models import Heartbeat, Job
from verification.jobs.queue import cluster_name, schedule_job

NOTHING = "tests.jobs.tasks.nothing"
NEWER = "tests.jobs.tasks.added_later"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def make_broker():
    brokers = []

    def make():
        brokers.append(WakeUpBroker())
        return brokers[-1]

    yield make
    for broker in brokers:
        broker.close()


@pytest.fixture
def broker(make_broker):
    return make_broker()


def make_due(**fields):
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobs_job SET due_at = now()")
    Job.objects.update(**fields)


def cut_off():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def dequeue(broker):
    jobs = []
    while not jobs:
        jobs = [job for job in broker.dequeue() or [] if job[0] != BEAT_ID]
    return jobs


def test_job_is_not_claimed_before_its_commit(broker):
    with transaction.atomic():
        schedule_job(NOTHING)
        assert broker.claim() == []

    assert len(broker.claim()) == 1


def test_waiting_wake_ups_run_as_one(broker):
    for _ in range(500):
        schedule_job(NOTHING)

    assert [job.function for job in broker.claim()] == [NOTHING]
    assert broker.claim() == []
    assert Job.objects.count() == 1


def test_wake_up_after_the_claim_runs_again(broker):
    schedule_job(NOTHING)
    broker.claim()
    schedule_job(NOTHING)

    assert len(broker.claim()) == 1


def test_wake_ups_of_two_functions_both_run(broker):
    schedule_job(NOTHING)
    schedule_job("tests.jobs.tasks.fail")

    assert len(broker.claim()) == 2


def test_job_for_later_waits_for_its_time(broker):
    schedule_job(NOTHING, at=timezone.now() + timedelta(seconds=1))
    assert broker.claim() == []

    time.sleep(1.1)

    assert len(broker.claim()) == 1


def test_jobs_with_the_same_ids_all_run(broker):
    schedule_job(NOTHING, 1)
    schedule_job(NOTHING, 1)

    assert [job.arguments for job in broker.claim()] == [[1], [1]]


def test_two_clusters_claim_different_jobs(make_broker):
    for i in range(40):
        schedule_job(NOTHING, i)
    one, other = make_broker(), make_broker()

    claimed = [job.id for _ in range(2) for b in (one, other) for job in b.claim()]

    assert len(claimed) == len(set(claimed)) == 40


def test_claimed_job_is_due_again_when_its_lease_ends(broker):
    schedule_job(NOTHING, 1)
    broker.claim()
    assert broker.claim() == []

    make_due()

    assert len(broker.claim()) == 1


def test_acknowledged_job_is_deleted(broker):
    schedule_job(NOTHING)

    broker.acknowledge(broker.claim()[0].id)

    assert not Job.objects.exists()


def test_job_claimed_too_often_is_given_up_and_stays(broker):
    schedule_job(NOTHING, 1)
    for attempt in range(MAX_ATTEMPTS):
        assert len(broker.claim()) == 1
        assert Job.objects.get().attempts == attempt + 1
        make_due()

    assert broker.claim() == []
    broker.do_housekeeping()

    assert Job.objects.get().gave_up_at is not None


def test_failed_wake_up_does_not_give_up_a_new_one(broker):
    schedule_job(NOTHING)
    make_due(attempts=MAX_ATTEMPTS - 1)
    schedule_job(NOTHING)

    broker.claim()

    assert Job.objects.get().attempts == 1


def test_failed_job_runs_again_before_its_lease_ends(broker):
    schedule_job(NOTHING, 1)
    job = broker.claim()[0]

    retry_soon(job.id)

    assert broker.claim() == []
    time.sleep(1.1)
    assert len(broker.claim()) == 1


def test_schedules_go_on_when_the_clock_was_set_back(broker):
    minute, day = (
        Schedule.objects.create(
            func=f"{NOTHING}{minutes}",
            schedule_type=Schedule.MINUTES,
            minutes=minutes,
            next_run=timezone.now() + timedelta(minutes=due),
        )
        for minutes, due in ((1, 60), (1440, 1400))
    )

    broker.do_housekeeping()

    before = day.next_run
    for schedule in (minute, day):
        schedule.refresh_from_db()
    assert minute.next_run < timezone.now() + timedelta(minutes=2)
    assert day.next_run == before


def test_new_pusher_takes_back_the_jobs_of_its_cluster(broker, make_broker):
    schedule_job(NOTHING, 1)
    broker.claim()

    heir = make_broker()
    heir.do_housekeeping()

    assert len(heir.claim()) == 1


def test_jobs_of_a_dead_cluster_are_due(broker):
    schedule_job(NOTHING, 1)
    broker.claim()
    Job.objects.update(claimed_by="dead")

    broker.do_housekeeping()

    assert len(broker.claim()) == 1


def test_jobs_of_a_living_cluster_stay_with_it(broker):
    schedule_job(NOTHING, 1)
    broker.claim()
    Job.objects.update(claimed_by="living")
    Heartbeat.objects.create(cluster="living")

    broker.do_housekeeping()

    assert broker.claim() == []


def test_function_without_job_never_runs(broker):
    Job.objects.create(function="os.system", arguments=["touch /tmp/owned"])

    assert broker.claim() == []


def test_job_of_a_newer_version_is_left_to_other_clusters(broker, log_lines):
    Job.objects.create(function=NEWER, arguments=[7])

    assert broker.claim() == []

    job = Job.objects.get()
    waits = (job.due_at - timezone.now()).total_seconds()
    assert (job.claimed_by, job.attempts, job.gave_up_at) == ("", 1, None)
    assert 50 < waits <= 60
    assert [line["message"] for line in log_lines()] == [
        f"job {job.pk} is unknown here: {NEWER}"
    ]


def test_job_that_no_version_knows_is_given_up_and_stays(broker):
    Job.objects.create(function=NEWER, arguments=[7])
    for _ in range(MAX_ATTEMPTS):
        assert broker.claim() == []
        make_due()

    broker.do_housekeeping()

    job = Job.objects.get()
    assert (job.function, job.arguments) == (NEWER, [7])
    assert job.gave_up_at is not None


def test_commit_wakes_a_waiting_broker(broker):
    dequeue_one = threading.Thread(target=dequeue, args=[broker])
    dequeue_one.start()
    time.sleep(0.3)
    enqueued_at = time.monotonic()

    schedule_job(NOTHING)
    dequeue_one.join()

    assert time.monotonic() - enqueued_at < 0.2


def test_broker_reconnects(broker):
    broker.claim()
    schedule_job(NOTHING)

    cut_off()

    assert len(dequeue(broker)) == 1


def test_job_whose_claim_was_lost_is_claimed_again(broker):
    broker.do_housekeeping()
    schedule_job(NOTHING, 1)
    # The server has committed this claim, and the connection ends before its answer.
    (lost,) = broker.claim()
    cut_off()

    ((job_id, _),) = dequeue(broker)

    assert job_id == lost.id


def test_failed_job_waits_for_the_database_to_be_due_again(broker, monkeypatch):
    schedule_job(NOTHING, 1)
    (job,) = broker.claim()
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "HOST", "/nowhere")
    back = threading.Timer(0.6, monkeypatch.undo)
    back.start()

    _retry(job.id, patience=10)

    back.join()
    assert Job.objects.get().due_at < timezone.now() + timedelta(seconds=5)


def test_broker_beats_while_the_database_is_away(broker, monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "HOST", "/nowhere")

    beats = [job for _ in range(4) for job in broker.dequeue() or []]

    assert beats
    assert {id for id, _ in beats} == {BEAT_ID}


def test_acknowledgement_survives_a_lost_connection(broker):
    schedule_job(NOTHING)
    job = broker.claim()[0]
    cut_off()

    broker.acknowledge(job.id)

    assert not Job.objects.exists()


def test_package_of_django_q_becomes_a_job(broker):
    async_task(NOTHING, 1, 2)

    assert [(j.function, j.arguments) for j in broker.claim()] == [(NOTHING, [1, 2])]


def test_beat_is_written_at_most_once_a_second(monkeypatch):
    monkeypatch.setattr(queue, "_written_at", 0)
    assert queue.heartbeat_age_seconds() is None

    queue.beat()
    first = Heartbeat.objects.get(cluster=cluster_name()).beat_at
    queue.beat()

    assert Heartbeat.objects.get().beat_at == first
    assert queue.heartbeat_age_seconds() < 1
