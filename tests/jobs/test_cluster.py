import json
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest
from django.conf import settings

from tests.world.service import end_family, is_alive
from tests.world.waiting import until
from verification.jobs.processes import parent_death_hook
from verification.jobs.queue import CHANNEL, ENQUEUE

pytestmark = pytest.mark.slow

# At rest 15
RECOVERY_SECONDS = 60
# Of a processor; loading what jobs need takes two.
SECONDS_TO_FORK = 0.8
# The cluster and two workers.
PROCESSES = 3
WAITS = "waits up to 40 seconds for tests.jobs.tasks.run_while_exists"
NO_BEAT = """
UPDATE jobs_heartbeat SET beat_at = now() - interval '30 seconds'
WHERE cluster = (SELECT claimed_by FROM jobs_job WHERE id = %s)
"""
DUE_NOW = "UPDATE jobs_job SET due_at = now() WHERE id = %s AND claimed_by = ''"


@pytest.fixture
def jobs(service):
    """A service whose job cluster is whole, and has nothing to do."""
    with service.connect() as connection:
        connection.execute("DELETE FROM jobs_job")
    service.start_jobs()
    settle(service)
    yield service
    service.start_jobs()


def enqueue(jobs, name, ids="[]"):
    with jobs.connect() as connection:
        values = [f"tests.jobs.tasks.{name}", ids, None]
        row = connection.execute(ENQUEUE, values).fetchone()
        connection.execute("SELECT pg_notify(%s, '')", [CHANNEL])
        return row[0]


def job(jobs, id):
    with jobs.connect() as connection:
        return connection.execute(
            "SELECT attempts, gave_up_at FROM jobs_job WHERE id = %s", [id]
        ).fetchone()


def seconds_until_done(jobs, id, limit=RECOVERY_SECONDS):
    started_at = time.monotonic()
    while job(jobs, id):
        assert time.monotonic() - started_at < limit, jobs.log()[-3000:]
        time.sleep(0.02)
    return time.monotonic() - started_at


def until_begun(jobs, *ids):
    def has_begun(id):
        found = job(jobs, id)
        assert found, f"job {id} has ended already"
        return found[0]

    until(lambda: all(map(has_begun, ids)), seconds=RECOVERY_SECONDS)


def settle(jobs):
    """The cluster is whole, and nothing else of this service runs."""
    until(
        lambda: len(jobs.jobs_processes()) == PROCESSES and not orphans(jobs),
        lambda: (jobs.jobs_processes(), orphans(jobs)),
        seconds=RECOVERY_SECONDS,
    )


def orphans(jobs):
    ours = {process.pid for process in jobs.processes()}
    return [p for p in jobs.everything() if p.pid not in ours]


def kill(*processes):
    for process in processes:
        process.kill()


@pytest.fixture
def running(jobs, tmp_path):
    """A file; the jobs of `enqueue_running` run as long as it is there."""
    file = tmp_path / "running"
    file.touch()
    yield file
    file.unlink(missing_ok=True)


def enqueue_running(jobs, file, count=1):
    arguments = json.dumps([str(file)])
    ids = [enqueue(jobs, "run_while_exists", arguments) for _ in range(count)]
    # Each has made a file of its own.
    until(lambda: len([*file.parent.glob("running.*")]) == count)
    return ids


@contextmanager
def stopping(jobs, workers):
    """Stop the cluster; its stop has to end after the block.

    The block begins when so many workers have said for which job they wait.
    """
    before = jobs.log().count(WAITS)
    with ThreadPoolExecutor(1) as operator:
        stopped = operator.submit(jobs.stop_jobs)
        until(lambda: jobs.log().count(WAITS) >= before + workers)
        assert not stopped.done()
        yield
        stopped.result()


@pytest.mark.parametrize("count", [1, 2])
def test_killed_workers_are_replaced_without_loading_modules(jobs, count):
    before = jobs.jobs_processes()
    kill(*before[1 : 1 + count])

    seconds_until_done(jobs, enqueue(jobs, "nothing"))
    settle(jobs)
    new = [process for process in jobs.jobs_processes() if process not in before]
    assert len(new) == count
    for spent in (process.cpu_times() for process in new):
        assert spent.user + spent.system < SECONDS_TO_FORK


def test_worker_that_hangs_in_a_job_is_ended(jobs):
    with jobs.changed(web=False, JOB_SECONDS="3"):
        id = enqueue(jobs, "sleep", "[60]")

        until(lambda: job(jobs, id)[0] >= 2, seconds=RECOVERY_SECONDS)

        assert "job worker: ended by SIGALRM" in jobs.log()
        with jobs.connect() as connection:
            connection.execute("DELETE FROM jobs_job")


def test_killed_cluster_leaves_no_process(jobs):
    family = jobs.jobs_processes()

    kill(family[0])

    until(lambda: not any(is_alive(process) for process in family))
    assert orphans(jobs) == []


def test_job_of_a_killed_worker_runs_again_soon(jobs, running):
    (id,) = enqueue_running(jobs, running)

    kill(*jobs.jobs_processes()[1:])
    running.unlink()

    seconds_until_done(jobs, id)
    settle(jobs)


def test_long_job_is_not_interrupted(jobs):
    before = jobs.jobs_processes()

    # Longer than a round of housekeeping
    ids = [enqueue(jobs, "sleep", "[7]") for _ in range(2)]
    for id in ids:
        seconds_until_done(jobs, id)

    assert jobs.jobs_processes() == before


def test_stopping_cluster_ends_running_jobs_and_leaves_waiting_ones(jobs, running):
    ids = enqueue_running(jobs, running, 2)
    waiting = [enqueue(jobs, "nothing", f"[{number}]") for number in range(3)]

    with stopping(jobs, workers=2):
        running.unlink()

    assert [job(jobs, id) for id in ids] == [None, None]
    assert orphans(jobs) == []
    assert {job(jobs, id) for id in waiting} == {(0, None)}
    with jobs.connect() as connection:
        claimed = "SELECT count(*) FROM jobs_job WHERE claimed_by <> ''"
        assert connection.execute(claimed).fetchone() == (0,)


def test_second_ctrl_c_does_not_wait_for_running_jobs(jobs, running):
    enqueue_running(jobs, running)
    cluster = jobs.jobs_processes()[0]

    before = jobs.log().count(WAITS)
    cluster.send_signal(signal.SIGINT)
    until(lambda: jobs.log().count(WAITS) > before, lambda: jobs.log()[-3000:])
    assert is_alive(cluster)
    cluster.send_signal(signal.SIGINT)
    began = time.monotonic()
    jobs.stop_jobs()

    assert time.monotonic() - began < 20
    assert "does not wait longer for running jobs" in jobs.log()


@pytest.fixture
def twin(jobs):
    """Run a cluster; return a function that starts another with its JOB_CLUSTER."""
    environment = jobs.environment
    jobs.stop_jobs()
    jobs.set_environment(JOB_CLUSTER="twin")
    jobs.start_jobs()
    with ExitStack() as exits:
        yield partial(start_twin, jobs, exits)
        jobs.kill_jobs()
    jobs.environment = environment
    with jobs.connect() as connection:
        connection.execute("DELETE FROM jobs_job")


def start_twin(jobs, exits):
    other = subprocess.Popen(
        jobs.command("manage.py", "jobs"),
        cwd=settings.BASE_DIR,
        env=jobs.environment,
        preexec_fn=parent_death_hook(),
    )
    exits.callback(end_family, other, kill=True)
    until(lambda: len(twins(jobs)) >= 2)


def twins(jobs):
    """Return the clusters that beat a moment ago."""
    with jobs.connect() as connection:
        return connection.execute(
            "SELECT cluster FROM jobs_heartbeat WHERE cluster LIKE 'twin%'"
            " AND beat_at > now() - interval '15 seconds'"
        ).fetchall()


def test_clusters_of_one_name_leave_each_other_their_jobs(jobs, twin):
    # One for each worker
    ids = [enqueue(jobs, "sleep", "[600]") for _ in range(PROCESSES - 1)]
    until_begun(jobs, *ids)

    twin()

    # Only the other one has a worker for it.
    seconds_until_done(jobs, enqueue(jobs, "nothing"))
    assert {job(jobs, id) for id in ids} == {(1, None)}


@pytest.mark.timeout(180)
def test_stopping_cluster_keeps_its_running_job_from_others(jobs, twin, running):
    (id,) = enqueue_running(jobs, running)
    twin()

    with stopping(jobs, workers=1), jobs.connect() as connection:
        # Longer than two rounds of housekeeping
        ends_at = time.monotonic() + 12
        while time.monotonic() < ends_at:
            assert job(jobs, id) == (1, None)
            # To the other one it has been dead for longer than 20 seconds.
            connection.execute(NO_BEAT, [id])
            time.sleep(0.1)
        running.unlink()
    assert job(jobs, id) is None


@pytest.mark.timeout(240)
def test_job_that_kills_its_workers_is_given_up(jobs):
    id = enqueue(jobs, "kill_own_worker")

    with jobs.connect() as connection:

        def is_given_up():
            # The pauses between its attempts are over: half a minute in all.
            connection.execute(DUE_NOW, [id])
            return job(jobs, id)[1]

        until(is_given_up, lambda: jobs.log()[-3000:], seconds=180)

    seconds_until_done(jobs, enqueue(jobs, "nothing"))
    settle(jobs)
