"""A django-q2 broker on our own table, woken by LISTEN/NOTIFY."""

import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import psycopg
from django.db import connection
from django_q.brokers import Broker
from django_q.conf import Conf
from django_q.signing import SignedPackage
from django_q.utils import get_func_repr

from verification.db.base import open_session
from verification.jobs import processes, queue
from verification.jobs.models import Job
from verification.jobs.queue import CHANNEL, cluster_name, is_job, store_job
from verification.values.clock import now

# A job that was claimed this often and never ended probably kills its workers.
MAX_ATTEMPTS = 5
BEAT_SECONDS = 1
HOUSEKEEPING_SECONDS = 5
# A cluster without a heartbeat for this long is dead, and its jobs are due at once.
DEAD_AFTER_SECONDS = 20
RECONNECT_SECONDS = 0.5
BEAT_ID = -1

# Jobs without arguments that wait for the same function are merged: the claim takes one
# and deletes the others, as its run does the work of all. A job that is enqueued after
# this statement runs on its own. The claim takes the one with the fewest attempts:
# otherwise new jobs would be given up together with one that several crashes have hit.
CLAIM = """
WITH next AS (
    SELECT id, function, arguments, attempts FROM jobs_job
    WHERE gave_up_at IS NULL AND due_at <= now() AND attempts < %(max_attempts)s
    ORDER BY due_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), kept AS (
    SELECT DISTINCT ON (function, alone) id, function, arguments
    FROM (SELECT *, CASE WHEN arguments = '[]' THEN 0 ELSE id END AS alone FROM next) x
    ORDER BY function, alone, attempts, id
), same AS (
    SELECT id FROM jobs_job
    WHERE gave_up_at IS NULL AND due_at <= now() AND arguments = '[]'
        AND function IN (SELECT function FROM kept WHERE arguments = '[]')
        AND id NOT IN (SELECT id FROM kept)
    FOR UPDATE SKIP LOCKED
), merged AS (
    DELETE FROM jobs_job WHERE id IN (SELECT id FROM same)
)
UPDATE jobs_job SET attempts = attempts + 1, claimed_by = %(cluster)s,
    due_at = now() + %(lease)s * interval '1 second'
WHERE id IN (SELECT id FROM kept) RETURNING id, function, arguments
"""
GIVE_UP = """
UPDATE jobs_job SET gave_up_at = now()
WHERE gave_up_at IS NULL AND due_at <= now() AND attempts >= %s
RETURNING id, function
"""
# A new pusher takes back the jobs that its predecessor claimed, as it may not have
# passed them on.
TAKE_BACK = """
UPDATE jobs_job SET due_at = now(), claimed_by = ''
WHERE claimed_by = %s AND due_at > now() AND gave_up_at IS NULL
"""
TAKE_FROM_DEAD = """
UPDATE jobs_job SET due_at = now(), claimed_by = ''
WHERE claimed_by <> '' AND due_at > now() AND gave_up_at IS NULL AND NOT EXISTS (
    SELECT FROM jobs_heartbeat
    WHERE cluster = claimed_by AND beat_at > now() - %s * interval '1 second'
)
"""
# After the database's clock was set back, schedules would pause for as long.
PULL_SCHEDULES = """
UPDATE django_q_schedule SET next_run = now() + minutes * interval '1 minute'
WHERE next_run > now() + (minutes + 1) * interval '1 minute'
"""
# The more attempts, the longer the wait: 1, 4, 9 and 16 seconds.
RETRY_SOON = """
UPDATE jobs_job SET due_at = now() + attempts * attempts * interval '1 second'
WHERE id = %s AND gave_up_at IS NULL
"""
# A job that a stopping cluster has claimed and not begun: another one runs it at once,
# and its attempt does not count.
GIVE_BACK = """
UPDATE jobs_job SET due_at = now(), claimed_by = '', attempts = attempts - 1
WHERE id = %s AND claimed_by = %s AND gave_up_at IS NULL
"""
# A job that this version does not know goes to other clusters, which may be of a newer
# one: after 1, 4, 9 and 16 minutes. Then it is given up, where an operator sees it.
LEAVE_TO_OTHERS = """
UPDATE jobs_job SET claimed_by = '',
    due_at = now() + attempts * attempts * interval '1 minute'
WHERE id = ANY(%s)
"""

logger = logging.getLogger(__name__)


class ClaimedJob(NamedTuple):
    id: int
    function: str
    arguments: list[str | int]

    def package(self) -> tuple[int, str]:
        """Return the job in the form that django-q2's pusher expects."""
        task = {
            # Each attempt has the same id, so that failures share a row.
            "id": f"{self.id & 0xFFFFFFFFFFFFFFFF:032x}",
            "name": self.function[-100:],
            "func": self.function,
            "args": tuple(self.arguments),
            "kwargs": {},
            "started": now(),
        }
        return self.id, SignedPackage.dumps(task)


BEAT = ClaimedJob(BEAT_ID, queue.BEAT, [])


class WakeUpBroker(Broker):
    def __init__(self, list_key: str | None = None) -> None:
        super().__init__(list_key)
        # The pusher and the monitor each open their own connection.
        self._private: psycopg.Connection[Any] | None = None
        self._beat_at = 0.0
        self._housekeeping_at = 0.0
        self._settled = False
        self.on_sentinel_round: Callable[[], None] = lambda: None

    def enqueue(self, task: str) -> int:
        """Take a package from django-q2's scheduler or admin.

        A schedule may be of a newer version, whose clusters know its function.
        """
        package = SignedPackage.loads(task)
        function = get_func_repr(package["func"])
        # One wrong schedule must not keep the scheduler from the others.
        if package["kwargs"]:
            logger.error("a job has no keyword arguments: %s", function)
            return 0
        return store_job(function, package["args"])

    def dequeue(self) -> list[tuple[int, str]]:
        """Return jobs to run now, or an empty list after a wait."""
        if time.monotonic() >= self._beat_at:
            self._beat_at = time.monotonic() + BEAT_SECONDS
            return [BEAT.package()]
        try:
            self.do_housekeeping()
            jobs = self.claim()
            if not jobs:
                self._wait(self._beat_at - time.monotonic())
        except psycopg.Error as e:
            logger.warning("jobs cannot be claimed: %s", type(e).__name__)
            self.close()
            # The server may have claimed jobs and lost the answer.
            self._settled, self._housekeeping_at = False, 0.0
            time.sleep(RECONNECT_SECONDS)
            return []
        return [job.package() for job in jobs]

    def claim(self) -> list[ClaimedJob]:
        """Claim a batch of due jobs, and count the attempt.

        `jobs.claims` does not do it: this statement also deletes the wake-ups that wait
        for the same function, and runs on the broker's own connection.
        """
        values = {
            "limit": Conf.BULK,
            "lease": Conf.RETRY,
            "max_attempts": MAX_ATTEMPTS,
            "cluster": cluster_name(),
        }
        rows = self._connection().execute(CLAIM, values).fetchall()
        jobs = sorted(ClaimedJob(*row) for row in rows)
        known = [job for job in jobs if is_job(job.function)]
        if unknown := [job for job in jobs if job not in known]:
            self._leave_to_others(unknown)
        return known

    def _leave_to_others(self, jobs: list[ClaimedJob]) -> None:
        for job in jobs:
            logger.error("job %s is unknown here: %s", job.id, job.function)
        ids = [job.id for job in jobs]
        self._connection().execute(LEAVE_TO_OTHERS, [ids])

    def acknowledge(self, task_id: int) -> None:
        if task_id != BEAT_ID:
            self._delete(task_id)
        processes.signal_supervisor(processes.WORK_DONE)

    def delete(self, task_id: int) -> None:
        Job.objects.filter(pk=task_id).delete()

    def fail(self, task_id: int) -> None:
        self.delete(task_id)

    def queue_size(self) -> int:
        return Job.objects.filter(due_at__lte=now(), gave_up_at=None).count()

    def lock_size(self) -> int:
        return Job.objects.filter(due_at__gt=now(), gave_up_at=None).count()

    def purge_queue(self) -> None:
        Job.objects.all().delete()

    def delete_queue(self) -> None:
        self.purge_queue()

    def ping(self) -> bool:
        return True

    def info(self) -> str:
        return "PostgreSQL"

    def set_stat(self, key: str, value: str, timeout: int) -> None:
        # The sentinel saves its state at each round. The state is not used; the call is
        # a sign of life.
        self.on_sentinel_round()

    def _delete(self, task_id: int) -> None:
        for _ in range(2):
            try:
                self._connection().execute(
                    "DELETE FROM jobs_job WHERE id = %s", [task_id]
                )
                return
            except psycopg.Error:
                self.close()
        logger.warning("job %s is not acknowledged and will run again", task_id)

    def _wait(self, seconds: float) -> None:
        for _ in self._connection().notifies(timeout=max(0, seconds), stop_after=1):
            pass

    def do_housekeeping(self) -> None:
        if time.monotonic() < self._housekeeping_at:
            return
        self._housekeeping_at = time.monotonic() + HOUSEKEEPING_SECONDS
        conn = self._connection()
        if not self._settled:
            # Other clusters take the jobs of a cluster without a heartbeat.
            queue.write_heartbeat(conn.cursor())
            conn.execute(TAKE_BACK, [cluster_name()])
            self._settled = True
        conn.execute(PULL_SCHEDULES)
        conn.execute(TAKE_FROM_DEAD, [DEAD_AFTER_SECONDS])
        for id, function in conn.execute(GIVE_UP, [MAX_ATTEMPTS]).fetchall():
            logger.error("gave up job %s: %s", id, function)

    def _connection(self) -> psycopg.Connection[Any]:
        if self._private is None:
            self._private = open_session()
            # If a crash of the server undoes a claim or an acknowledgement, the job
            # only runs again.
            self._private.execute("SET synchronous_commit = off")
            self._private.execute(f"LISTEN {CHANNEL}")
        return self._private

    def close(self) -> None:
        if self._private is not None:
            self._private.close()
            self._private = None


def retry_soon(job_id: int) -> None:
    """Make a job whose run failed or died due before its lease ends."""
    with connection.cursor() as cursor:
        cursor.execute(RETRY_SOON, [job_id])


def give_back(job_id: int) -> None:
    """Leave a claimed job that has not begun to other clusters."""
    with connection.cursor() as cursor:
        cursor.execute(GIVE_BACK, [job_id, cluster_name()])
