import threading
from datetime import timedelta
from tempfile import TemporaryFile

import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone
from django_q.models import Failure, Schedule
from django_q.tasks import async_task

from tests.world.logs import log_lines as log_lines
from tests.world.threads import run_at_once
from tests.world.waiting import until
from verification.db.base import run_sql
from verification.db.startup import explain_error
from verification.jobs import queue, worker
from verification.jobs.models import Heartbeat, Job
from verification.jobs.names import JobName
from verification.jobs.queue import cluster_name, schedule_job
from verification.jobs.worker import (
    MAX_ATTEMPTS,
    Worker,
    claim,
    do_housekeeping,
    run_job,
)

NOTHING = "tests.jobs.tasks.nothing"
FAIL = "tests.jobs.tasks.fail"
QUOTE = "tests.jobs.tasks.quote_a_person"
NEWER = "tests.jobs.tasks.added_later"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def start_worker(monkeypatch):
    """Return a function that runs a worker in a thread until the test ends."""
    # Only the main thread has signals, and one alarm would end the tests.
    monkeypatch.setattr(worker.signal, "signal", lambda *_: None)
    monkeypatch.setattr(worker.signal, "alarm", lambda *_: None)
    threads = []

    def run():
        with TemporaryFile() as claim_lock:
            Worker(claim_lock).run()
        connection.close()

    def start():
        threads.append(threading.Thread(target=run))
        threads[-1].start()
        return threads[-1]

    yield start
    monkeypatch.setattr(queue, "stopping", True)
    for thread in threads:
        thread.join()


def make_due(**fields):
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobs_job SET due_at = now()")
    Job.objects.update(**fields)


def claimed_elsewhere(cluster: str) -> int:
    """Claim a job in a session that ends, for this cluster. Returns its id."""

    def claim_and_die(_: int) -> int:
        job = claim()
        assert job
        connection.close()
        return job.id

    schedule_job(NOTHING, 1)
    (job_id,) = run_at_once(1, claim_and_die)
    until(lambda: not is_locked(job_id))
    Job.objects.update(claimed_by=cluster)
    return job_id


def is_locked(job_id: int) -> bool:
    locks = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = %s"
    with connection.cursor() as cursor:
        cursor.execute(locks, [job_id])
        return bool(cursor.fetchall())


def claimed():
    """Claim all due jobs; return their functions and arguments."""
    return [(job.function, job.arguments) for job in iter(claim, None)]


def test_job_is_not_claimed_before_its_commit():
    with transaction.atomic():
        schedule_job(NOTHING)
        assert run_at_once(1, lambda _: claim()) == [None]

    assert claim()


def test_waiting_wake_ups_run_as_one():
    for _ in range(3):
        schedule_job(NOTHING)

    assert claimed() == [(NOTHING, [])]
    assert Job.objects.count() == 1


def test_wake_up_after_the_claim_runs_again():
    schedule_job(NOTHING)
    claim()
    schedule_job(NOTHING)

    assert claim()


def test_wake_ups_of_two_functions_both_run():
    schedule_job(NOTHING)
    schedule_job(FAIL)

    assert claimed() == [(NOTHING, []), (FAIL, [])]


def test_job_for_later_waits_for_its_time():
    schedule_job(NOTHING, at=timezone.now() + timedelta(hours=1))
    assert claim() is None

    make_due()

    assert claim()


def test_jobs_with_the_same_ids_all_run():
    schedule_job(NOTHING, 1)
    schedule_job(NOTHING, 1)

    assert claimed() == [(NOTHING, [1])] * 2


def test_workers_claim_different_jobs():
    for i in range(20):
        schedule_job(NOTHING, i)

    def claim_all(_: int) -> list[int]:
        return [job.id for job in iter(claim, None)]

    found = [id for ids in run_at_once(4, claim_all) for id in ids]
    assert len(found) == len(set(found)) == 20


def test_claimed_job_is_due_again_when_its_lease_ends():
    schedule_job(NOTHING, 1)
    claim()
    assert claim() is None

    make_due()

    assert claim()


def test_job_that_ends_is_deleted_and_unlocked():
    schedule_job(NOTHING)

    run_job(claim())

    assert not Job.objects.exists()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT FROM pg_locks"
            " WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        )
        assert cursor.fetchall() == []


def test_job_claimed_too_often_is_given_up_and_stays():
    schedule_job(NOTHING, 1)
    for attempt in range(MAX_ATTEMPTS):
        assert claim().attempts == attempt + 1
        make_due()

    assert claim() is None
    do_housekeeping()

    assert Job.objects.get().gave_up_at is not None


def test_failed_wake_up_does_not_give_up_a_new_one():
    schedule_job(NOTHING)
    make_due(attempts=MAX_ATTEMPTS - 1)
    schedule_job(NOTHING)

    claim()

    assert Job.objects.get().attempts == 1


def test_failed_job_runs_again_after_a_second():
    schedule_job(FAIL)
    run_job(claim())

    job = Job.objects.get()
    waits = (job.due_at - timezone.now()).total_seconds()
    assert (job.claimed_by, job.attempts) == ("", 1)
    assert 0 < waits <= 1


def test_attempts_of_a_failed_job_share_a_row_without_its_message(log_lines):
    schedule_job(QUOTE)
    for _ in range(2):
        run_job(claim())
        make_due()

    failure = Failure.objects.get()
    assert (failure.func, failure.attempt_count) == (QUOTE, 2)
    assert "in quote_a_person" in failure.result
    assert failure.result.endswith("builtins.ValueError")
    assert [line["message"].split("\n")[0] for line in log_lines()] == [
        f"job {Job.objects.get().pk} failed: {QUOTE}"
    ] * 2
    assert "Wanjiku" not in failure.result + str(log_lines())


def test_schedules_go_on_when_the_clock_was_set_back():
    minute, day = (
        Schedule.objects.create(
            func=f"{NOTHING}{minutes}",
            schedule_type=Schedule.MINUTES,
            minutes=minutes,
            next_run=timezone.now() + timedelta(minutes=due),
        )
        for minutes, due in ((1, 60), (1440, 1400))
    )

    do_housekeeping()

    before = day.next_run
    for schedule in (minute, day):
        schedule.refresh_from_db()
    assert minute.next_run < timezone.now() + timedelta(minutes=2)
    assert day.next_run == before


@pytest.mark.parametrize(
    ("cluster", "beats", "is_due"),
    [
        ("our own", True, True),
        ("dead", False, True),
        # One of an older version, which holds no locks.
        ("living", True, False),
    ],
)
def test_job_of_a_dead_worker_is_due(cluster, beats, is_due, monkeypatch):
    monkeypatch.setenv("JOB_CLUSTER", "our own")
    claimed_elsewhere(cluster)
    if beats:
        Heartbeat.objects.create(cluster=cluster)

    do_housekeeping()

    assert (Job.objects.get().claimed_by == "") is is_due


@pytest.mark.parametrize("cluster", ["our own", "without a heartbeat"])
def test_job_of_a_living_worker_stays_with_it(cluster, monkeypatch):
    monkeypatch.setenv("JOB_CLUSTER", "our own")
    schedule_job(NOTHING, 1)
    claim()
    Job.objects.update(claimed_by=cluster)

    run_at_once(1, lambda _: do_housekeeping())

    assert Job.objects.get().claimed_by == cluster


def test_function_without_job_never_runs():
    Job.objects.create(function="os.system", arguments=["touch /tmp/owned"])

    assert claim() is None


def test_job_of_a_newer_version_is_left_to_other_clusters(log_lines):
    Job.objects.create(function=NEWER, arguments=[7])

    assert claim() is None

    job = Job.objects.get()
    waits = (job.due_at - timezone.now()).total_seconds()
    assert (job.claimed_by, job.attempts, job.gave_up_at) == ("", 1, None)
    assert 50 < waits <= 60
    assert [line["message"] for line in log_lines()] == [
        f"job {job.pk} is unknown here: {NEWER}"
    ]


def test_job_that_no_version_knows_is_given_up_and_stays():
    Job.objects.create(function=NEWER, arguments=[7])
    for _ in range(MAX_ATTEMPTS):
        assert claim() is None
        make_due()

    do_housekeeping()

    job = Job.objects.get()
    assert (job.function, job.arguments) == (NEWER, [7])
    assert job.gave_up_at is not None


def test_commit_wakes_a_waiting_worker(start_worker, monkeypatch):
    monkeypatch.setattr(worker, "IDLE_SECONDS", 60)
    # A heartbeat of the test before would delay that of this worker by a minute.
    monkeypatch.setattr(queue, "_written_at", 0.0)
    start_worker()
    until(Heartbeat.objects.exists)

    schedule_job(NOTHING)

    until(lambda: not Job.objects.exists())
    # A worker that waits is notified of another job.
    monkeypatch.setattr(queue, "stopping", True)
    schedule_job(NOTHING)


def test_stopping_worker_that_waited_claims_no_job(start_worker, monkeypatch):
    monkeypatch.setattr(worker, "IDLE_SECONDS", 60)
    monkeypatch.setattr(queue, "_written_at", 0.0)
    waiting = start_worker()
    until(Heartbeat.objects.exists)
    monkeypatch.setattr(queue, "stopping", True)

    schedule_job(NOTHING, 1)

    waiting.join()
    assert Job.objects.get().attempts == 0


def test_worker_says_once_a_minute_why_it_cannot_claim_and_goes_on(
    start_worker, monkeypatch, caplog
):
    caplog.set_level("INFO")
    tries = []

    def explain(error):
        tries.append(error)
        return explain_error(error)

    monkeypatch.setattr(worker, "explain_error", explain)
    monkeypatch.setattr(worker, "RECONNECT_SECONDS", 0.01)
    monkeypatch.setattr(worker, "IDLE_SECONDS", 0.05)
    start_worker()
    until(Heartbeat.objects.exists)
    with monkeypatch.context() as away:
        away.setitem(connection.settings_dict, "PORT", 1)
        run_sql(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        # After the end of the session, which it says first.
        why = "cannot be claimed: The embedded database cannot be used (connection is"
        until(lambda: why in caplog.text)
        tried = len(tries)
        until(lambda: len(tries) > tried + 5)
        assert caplog.text.count(why) == 1
        away.setattr(worker, "REPEAT_SECONDS", 0)
        until(lambda: caplog.text.count(why) > 1)

    schedule_job(NOTHING)

    until(lambda: not Job.objects.exists())
    until(lambda: caplog.messages[-1] == "jobs can be claimed again")


def test_job_whose_session_ends_is_deleted():
    schedule_job("tests.jobs.tasks.lose_session")

    run_job(claim())

    assert not Job.objects.exists()


def test_job_that_waits_for_a_retry_is_unclaimed_while_the_database_is_away(
    monkeypatch,
):
    schedule_job(FAIL)
    job = claim()
    connection.close()
    with monkeypatch.context() as away:
        away.setitem(connection.settings_dict, "HOST", "/nowhere")
        with pytest.raises(OperationalError):
            run_job(job)
    connection.close()

    def is_unclaimed() -> bool:
        do_housekeeping()
        return Job.objects.get().due_at < timezone.now() + timedelta(seconds=5)

    # The server frees the lock of a closed connection after the close has returned.
    until(is_unclaimed)


def test_reconciliation_has_hours_until_it_is_ended_and_claimed_again(monkeypatch):
    alarms: list[int] = []
    monkeypatch.setattr(worker.signal, "signal", lambda *_: None)
    monkeypatch.setattr(worker.signal, "alarm", alarms.append)
    monkeypatch.setattr(
        worker, "run_job", lambda job: monkeypatch.setattr(queue, "stopping", True)
    )
    schedule_job(JobName.RECONCILE_YESTERDAY)

    with TemporaryFile() as claim_lock:
        Worker(claim_lock).run()

    assert alarms[-1] == 8 * 60 * 60
    assert Job.objects.get().due_at > timezone.now() + timedelta(hours=8)


def test_schedule_runs_while_the_worker_is_idle(start_worker):
    Schedule.objects.create(name="Nothing", func=NOTHING, next_run=timezone.now())

    start_worker()

    until(lambda: not Schedule.objects.filter(next_run__lt=timezone.now()).exists())


def test_package_of_django_q_becomes_a_job():
    async_task(NOTHING, 1, 2)

    assert claimed() == [(NOTHING, [1, 2])]


def test_beat_is_written_at_most_once_a_second(monkeypatch):
    monkeypatch.setattr(queue, "_written_at", 0)
    assert queue.heartbeat_age_seconds() is None

    queue.beat()
    first = Heartbeat.objects.get(cluster=cluster_name()).beat_at
    queue.beat()

    assert Heartbeat.objects.get().beat_at == first
    assert queue.heartbeat_age_seconds() < 1
