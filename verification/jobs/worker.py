"""A worker: claims one job after another, and runs it.

A claim holds an advisory lock with the job's id, so PostgreSQL knows whether the worker
that has claimed a job is still there. Workers look for claims without a lock, and make
those jobs due again. An alarm of the kernel ends a worker that hangs, in a job or not.

One worker of a cluster at a time claims, or waits for a notification: a new job wakes
one worker and not all.

Claims, ends of jobs and schedules wait for no standby: what a failover loses of them
is done again.
"""

import fcntl
import json
import logging
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import IO, Any, NamedTuple

from django.conf import settings
from django.db import Error, OperationalError, connection
from django.utils.module_loading import import_string
from django_q.models import Task
from django_q.scheduler import scheduler

from verification import tracing
from verification.db.base import run_sql
from verification.db.startup import DatabaseRefused, explain_error, require_schema
from verification.jobs import queue
from verification.jobs.models import failure_id
from verification.jobs.names import JobName
from verification.jobs.queue import CHANNEL, advisory_lock, cluster_name, is_job
from verification.outbound.client import LONGEST_SECONDS
from verification.values.clock import now
from verification.web.log import traceback_without_messages

# A running job may wait for the answer of one call, and then it records the answer.
GRACE_SECONDS = LONGEST_SECONDS + 10
# A job that was claimed this often and never ended probably kills its workers.
MAX_ATTEMPTS = 5
# A reconciliation reads the books of a provider from their first page to the last one.
LONG_JOBS: dict[str, int] = {JobName.RECONCILE_YESTERDAY: 8 * 60 * 60}
# An idle worker looks for jobs this often, also if nobody notifies it.
IDLE_SECONDS = 1
HOUSEKEEPING_SECONDS = 5
SCHEDULER_SECONDS = 30
RECONNECT_SECONDS = 1
# While the database is away, its worker says so again after this.
REPEAT_SECONDS = 60
# The jobs of a cluster without a heartbeat for this long are due at once.
DEAD_AFTER_SECONDS = 20

# Jobs without arguments that wait for the same function are merged: the claim takes one
# and deletes the others, as its run does the work of all. A job that is enqueued after
# this statement runs on its own. The claim counts the fewest attempts: otherwise new
# jobs would be given up together with one that several crashes have hit.
CLAIM = """
WITH first AS (
    SELECT id, function, arguments FROM jobs_job
    WHERE gave_up_at IS NULL AND due_at <= now() AND attempts < %(max_attempts)s
    ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
), same AS (
    SELECT id, attempts FROM jobs_job
    WHERE gave_up_at IS NULL AND due_at <= now() AND arguments = '[]'
        AND function = (SELECT function FROM first WHERE arguments = '[]')
        AND id <> (SELECT id FROM first)
    FOR UPDATE SKIP LOCKED
), merged AS (
    DELETE FROM jobs_job WHERE id IN (SELECT id FROM same)
)
UPDATE jobs_job SET claimed_by = %(cluster)s,
    attempts = 1 + least(attempts, (SELECT min(attempts) FROM same)),
    due_at = now() + %(lease)s * interval '1 second'
WHERE id IN (SELECT id FROM first)
RETURNING id, function, arguments, attempts, pg_try_advisory_lock(id),
    set_config('synchronous_commit', 'off', true)
"""
PROLONG = "UPDATE jobs_job SET due_at = now() + %s * interval '1 second' WHERE id = %s"
# The lock may be gone together with the session that held it.
UNLOCK = "SELECT pg_advisory_unlock_all()"
END = """
DELETE FROM jobs_job WHERE id = %s
RETURNING set_config('synchronous_commit', 'off', true)
"""
# The more attempts, the longer the wait: 1, 4, 9 and 16 seconds.
RETRY = """
UPDATE jobs_job SET claimed_by = '',
    due_at = now() + attempts * attempts * interval '1 second'
WHERE id = %s AND attempts = %s AND gave_up_at IS NULL
"""
# A job that this version does not know goes to other clusters, which may be of a newer
# one: after 1, 4, 9 and 16 minutes. Then it is given up, where an operator sees it.
LEAVE_TO_OTHERS = RETRY.replace("second", "minute")
# The workers of other clusters count as long as these have a heartbeat: an older
# version holds no locks.
TAKE_BACK = """
UPDATE jobs_job SET claimed_by = '',
    due_at = now() + attempts * attempts * interval '1 second'
WHERE claimed_by <> '' AND due_at > now() AND gave_up_at IS NULL
    AND (claimed_by = %s OR NOT EXISTS (
        SELECT FROM jobs_heartbeat
        WHERE cluster = claimed_by AND beat_at > now() - %s * interval '1 second'
    ))
    AND NOT EXISTS (
        SELECT FROM pg_locks JOIN pg_database d ON d.oid = database
        WHERE locktype = 'advisory' AND datname = current_database()
            AND (classid::bigint << 32) + objid::bigint = jobs_job.id AND objsubid = 1
    )
RETURNING id, function
"""
GIVE_UP = """
UPDATE jobs_job SET gave_up_at = now()
WHERE gave_up_at IS NULL AND due_at <= now() AND attempts >= %s
RETURNING id, function
"""
# After the database's clock was set back, schedules would pause for as long.
PULL_SCHEDULES = """
UPDATE django_q_schedule SET next_run = now() + minutes * interval '1 minute'
WHERE next_run > now() + (minutes + 1) * interval '1 minute'
"""

logger = logging.getLogger(__name__)


class ClaimedJob(NamedTuple):
    id: int
    function: str
    arguments: list[str | int]
    attempts: int


class Worker:
    def __init__(self, claim_lock: IO[bytes]) -> None:
        """Of the workers with the same file one at a time claims."""
        self._claim_lock = claim_lock
        self._job: ClaimedJob | None = None
        self._housekeeping_at = self._scheduler_at = 0.0

    def run(self) -> None:
        """Claim and run jobs until SIGTERM; then end after the running one."""
        signal.signal(signal.SIGTERM, self._stop)
        try:
            require_schema()
        except DatabaseRefused as e:
            # The cluster tries again later.
            sys.exit(str(e))
        except OperationalError:
            # The worker goes on trying to reach the server.
            connection.close()
        said, said_at = "", 0.0
        while not queue.stopping:
            signal.alarm(settings.Q_CLUSTER["timeout"])
            try:
                self._go_round()
                if said:
                    logger.info("jobs can be claimed again")
                    said = ""
            except Error as e:
                why = explain_error(e) if isinstance(e, OperationalError) else ""
                why = why or type(e).__name__
                if why != said or time.monotonic() >= said_at + REPEAT_SECONDS:
                    logger.warning("jobs cannot be claimed: %s", why)
                    said, said_at = why, time.monotonic()
                # The locks of its claims go with the session.
                connection.close()
                self._housekeeping_at = 0.0
                time.sleep(RECONNECT_SECONDS)

    def _stop(self, *_: Any) -> None:
        queue.stopping = True
        if self._job:
            text = "job cluster: stops, and waits up to %d seconds for %s"
            logger.info(text, GRACE_SECONDS, self._job.function)

    def _go_round(self) -> None:
        self._do_housekeeping()
        with self._claiming_alone():
            self._job = None if queue.stopping else claim() or _wait_and_claim()
        if self._job:
            if seconds := LONG_JOBS.get(self._job.function):
                signal.alarm(seconds)
                run_sql(PROLONG, [seconds + settings.Q_CLUSTER["retry"], self._job.id])
            run_job(self._job)
            self._job = None
            queue.beat()

    @contextmanager
    def _claiming_alone(self) -> Iterator[None]:
        # While there is no job, one worker waits for it and all others for that one.
        signal.alarm(0)
        # The kernel unlocks the file when its worker ends.
        fcntl.lockf(self._claim_lock, fcntl.LOCK_EX)
        signal.alarm(settings.Q_CLUSTER["timeout"])
        try:
            yield
        finally:
            fcntl.lockf(self._claim_lock, fcntl.LOCK_UN)

    def _do_housekeeping(self) -> None:
        moment = time.monotonic()
        if moment >= self._housekeeping_at:
            self._housekeeping_at = moment + HOUSEKEEPING_SECONDS
            do_housekeeping()
        if moment >= self._scheduler_at:
            self._scheduler_at = moment + SCHEDULER_SECONDS
            with advisory_lock("job schedules") as is_mine, _without_standby():
                if is_mine:
                    scheduler()


def claim() -> ClaimedJob | None:
    """Claim a due job and count the attempt; without a due job return None."""
    values = {
        "max_attempts": MAX_ATTEMPTS,
        "cluster": cluster_name(),
        "lease": settings.Q_CLUSTER["retry"],
    }
    for id, function, arguments, attempts, *_ in run_sql(CLAIM, values):
        job = ClaimedJob(id, function, json.loads(arguments), attempts)
        if is_job(function):
            return job
        logger.error("job %s is unknown here: %s", id, function)
        with _without_standby():
            run_sql(LEAVE_TO_OTHERS, [id, attempts])
        run_sql(UNLOCK)
    return None


def run_job(job: ClaimedJob) -> None:
    """Run a claimed job; delete it, or make it due again if it fails."""
    started = now()
    ids = {"verification.arguments": [str(id) for id in job.arguments]}
    function = import_string(job.function)
    with tracing.span(f"job {function.__qualname__}", ids, kind="CONSUMER") as span:
        try:
            function(*job.arguments)
        except Exception as e:
            span.fail("job failed")
            failure = traceback_without_messages(e)
            logger.error("job %s failed: %s\n%s", job.id, job.function, failure)
        else:
            failure = ""
    if not connection.is_usable():
        connection.close()
    if failure:
        _retry(job, started, failure)
    else:
        run_sql(END, [job.id])
    run_sql(UNLOCK)


def _retry(job: ClaimedJob, started: datetime, failure: str) -> None:
    """Make a failed job due again; its attempts share a row of django-q2's table."""
    row = {
        "name": job.function[-100:],
        "func": job.function,
        "args": tuple(job.arguments),
        "started": started,
        "stopped": now(),
        "result": failure,
        "success": False,
        "attempt_count": job.attempts,
    }
    with _without_standby():
        Task.objects.update_or_create(id=failure_id(job.id), defaults=row)
        run_sql(RETRY, [job.id, job.attempts])


def do_housekeeping() -> None:
    """Release the jobs of dead workers, and give up jobs that failed too often."""
    with _without_standby():
        run_sql(PULL_SCHEDULES)
        for id, function in run_sql(TAKE_BACK, [cluster_name(), DEAD_AFTER_SECONDS]):
            logger.warning("job %s has lost its worker: %s", id, function)
        for id, function in run_sql(GIVE_UP, [MAX_ATTEMPTS]):
            logger.error("gave up job %s: %s", id, function)


def _wait_and_claim() -> ClaimedJob | None:
    """Claim a job after a notification or IDLE_SECONDS, unless one is due already."""
    run_sql(f"LISTEN {CHANNEL}")
    job = claim()
    if job is None:
        queue.beat()
        with connection.wrap_database_errors:
            list(connection.connection.notifies(timeout=IDLE_SECONDS, stop_after=1))
        # A signal does not end the wait.
        job = None if queue.stopping else claim()
    # A server that notifies a session which does not read would end it.
    run_sql(f"UNLISTEN {CHANNEL}")
    return job


@contextmanager
def _without_standby() -> Iterator[None]:
    """Let the session commit at once; an error within ends the session."""
    run_sql("SET synchronous_commit = off")
    yield
    run_sql("RESET synchronous_commit")
