"""The job queue: mark functions as jobs, schedule them, and limit how many run at once.

`slot` keeps one kind of job from taking all workers of a cluster. `advisory_lock` keeps
two workers from doing the same work.

The heartbeat of a cluster shows that jobs are done, and not only that a process lives:
its workers write it to the table for `/readyz` after each claim, and long jobs do at
each step.
"""

import json
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime, timedelta
from functools import cache
from importlib import import_module
from math import ceil
from typing import Any, TypeVar
from uuid import UUID

from django.apps import apps
from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.models import Max, QuerySet
from django.db.models.functions import Now

from verification.db.base import run_sql
from verification.db.bulk_insert import Rows
from verification.jobs.models import Heartbeat, Job
from verification.jobs.names import JobName
from verification.values import clock
from verification.values.clock import now

Function = TypeVar("Function", bound=Callable[..., Any])
JobOrName = Callable[..., Any] | JobName
# The dotted paths of all jobs whose modules are loaded.
_JOBS: set[str] = set()
CHANNEL = "verification_jobs"
# A worker that waits for jobs beats once a second.
WORKING_SECONDS = 30
# Workers that hang for this long should have been replaced.
STUCK_SECONDS = settings.Q_CLUSTER["timeout"] + WORKING_SECONDS
MIN_PAUSE = timedelta(seconds=1)

ENQUEUE = """
INSERT INTO jobs_job (function, arguments, due_at)
VALUES (%s, %s, COALESCE(%s, now())) RETURNING id
"""
IS_SCHEDULED_BY = """
SELECT EXISTS (
    SELECT FROM jobs_job WHERE function = %s AND due_at <= %s AND arguments = '[]'
        AND claimed_by = '' AND gave_up_at IS NULL
)
"""

TRY_LOCK = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
UNLOCK = "SELECT pg_advisory_unlock(hashtextextended(%s, 0))"

# A beat does not wait for the standby: one that a failover loses is written again a
# second later, and work flows while commits wait. Returns the time, and by how many
# seconds the latest beat so far is later.
WRITE_HEARTBEAT = """
WITH before AS (SELECT max(beat_at) AS latest FROM jobs_heartbeat)
INSERT INTO jobs_heartbeat (cluster, beat_at)
SELECT %s, statement_timestamp()
WHERE set_config('synchronous_commit', 'off', true) = 'off'
ON CONFLICT (cluster) DO UPDATE SET beat_at = excluded.beat_at
RETURNING beat_at,
    coalesce(extract(epoch FROM (SELECT latest FROM before) - beat_at), 0)::float
"""
# So that one step is noticed once, and the beats of dead clusters get old.
END_FUTURE_BEATS = """
UPDATE jobs_heartbeat SET beat_at = statement_timestamp()
WHERE beat_at > statement_timestamp()
"""
# A clock that was set back by less is not noticed in the times that work waits.
LEAST_STEP_SECONDS = 5
# One every five seconds, for longer than a process takes to read the clock again.
MENDING_RUNS = 5

logger = logging.getLogger(__name__)
# Set when this worker is about to stop.
stopping = False
_written_at = 0.0


def job(function: Function) -> Function:
    """Mark a function as a job, which `schedule_job` and a schedule may run.

    A job takes nothing but ids. It may run more than once, and calls without ids that
    wait at the same time run as one: a job reads from the database what there is to do.
    """
    _JOBS.add(_path(function))
    return function


def schedule_job(
    function: JobOrName, *ids: str | int | UUID, at: datetime | None = None
) -> None:
    """Run a job soon after the current transaction commits.

    If `at` is given, the job runs at that time or up to a second later. Callers in a
    lower layer, which cannot import the function, pass its name.
    """
    store_job(_require_job(function), _arguments(ids), at=at)


def job_row(function: JobOrName, *ids: str | int | UUID, at: datetime) -> Rows:
    """Like `schedule_job`, as a row for a caller who also calls `notify_on_commit`."""
    row = {
        "function": _require_job(function),
        "arguments": _arguments(ids),
        "due_at": at,
    }
    return Rows(Job, [row])


def _arguments(ids: Sequence[str | int | UUID]) -> list[str | int]:
    for value in ids:
        if not isinstance(value, str | int | UUID):
            raise TypeError(f"{value!r} is not an id")
    return [str(i) if isinstance(i, UUID) else i for i in ids]


@cache
def is_job(path: str) -> bool:
    """Return whether this is the dotted path of a function with `@job` in our apps.

    Nothing else runs, or a row in the table could call any function. No module but
    one of an installed app in `JOB_PACKAGES` is imported to find out.
    """
    module, _, _ = path.rpartition(".")
    app = apps.get_containing_app_config(module)
    if app is None or app.name.partition(".")[0] not in settings.JOB_PACKAGES:
        return False
    with suppress(ImportError):
        import_module(module)
    return path in _JOBS


def store_job(
    path: str, arguments: Sequence[str | int], *, at: datetime | None = None
) -> int:
    """Like `schedule_job`, also for a job that only another version knows."""
    job_id = int(run_sql(ENQUEUE, [path, json.dumps(list(arguments)), at])[0][0])
    notify_on_commit()
    return job_id


def ensure_job_by(function: JobOrName, due: datetime | None) -> None:
    """Run a job without ids by this time, unless it will run by then anyway.

    A job calls this at its end for the work that is left. It does nothing if
    `due` is None.
    """
    if due is None:
        return
    # Work that is due and was left is locked by another worker or waits for a limit.
    at = max(due, now() + MIN_PAUSE)
    if not run_sql(IS_SCHEDULED_BY, [_require_job(function), at])[0][0]:
        schedule_job(function, at=at)


def notify_on_commit() -> None:
    """Make clusters look for jobs after this transaction commits.

    Code that inserts jobs calls this. Clusters are notified once in a transaction.
    """
    # After the commit, because PostgreSQL commits transactions with NOTIFY one after
    # another, and each waits for the disk. If the process dies before it notifies, the
    # job starts up to a second later, as clusters also look once a second.
    if not any(call is _notify_clusters for _, call, *_ in connection.run_on_commit):
        transaction.on_commit(_notify_clusters, robust=True)


def _require_job(function: JobOrName) -> str:
    path = function if isinstance(function, str) else _path(function)
    if not is_job(path):
        raise ValueError(f"{path} is not a function with @job in one of our apps")
    return path


def _path(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _notify_clusters() -> None:
    run_sql("SELECT pg_notify(%s, '')", [CHANNEL])


def make_cluster_name(label: str) -> str:
    """Return a name that no other cluster has, whatever machines are called.

    Claims, heartbeats and slots belong to a name: two clusters that shared one would
    take each other's running jobs and slots.
    """
    # The columns of the name hold 100 characters.
    return f"{_cluster_label(label)}-{os.urandom(8).hex()}"


def _cluster_label(label: str) -> str:
    return (label or socket.gethostname())[:80]


def cluster_name() -> str:
    """Return the name of this process's cluster."""
    return os.environ.get("JOB_CLUSTER") or f"{socket.gethostname()}-{os.getpid()}"


def slot(kind: str, most: int) -> AbstractContextManager[bool]:
    """Hold one of the cluster's `most` slots of this kind; yield False if none is free.

    The database frees the slot of a worker that dies. A worker without a slot leaves
    the work to the others, which look for work once more after they free their slot.
    """
    return _hold_one([f"{cluster_name()}:{kind}:{number}" for number in range(most)])


def advisory_lock(name: str) -> AbstractContextManager[bool]:
    """Hold the lock with this name; yield False if a worker of any cluster holds it.

    Unlike a lease, the lock does not end while its holder lives.
    """
    return _hold_one([name])


@contextmanager
def _hold_one(names: list[str]) -> Iterator[bool]:
    taken = next((name for name in names if _execute_lock(TRY_LOCK, name)), None)
    try:
        yield taken is not None
    finally:
        if taken is not None:
            _execute_lock(UNLOCK, taken)


def _execute_lock(sql: str, name: str) -> bool:
    return bool(run_sql(sql, [name])[0][0])


def beat() -> bool:
    """Record that work flows; return False if the worker is stopping.

    Long jobs call this at each step, from the job's own thread and outside any
    transaction. It writes at most once a second.
    """
    global _written_at
    if time.monotonic() - _written_at >= 1 and not connection.in_atomic_block:
        _written_at = time.monotonic()
        try:
            write_heartbeat()
        except DatabaseError as e:
            logger.warning("heartbeat not written: %s", type(e).__name__)
    return not stopping


def write_heartbeat() -> None:
    """Record that the cluster works; mend due times if the clock was set back."""
    [(at, step)] = run_sql(WRITE_HEARTBEAT, [cluster_name()])
    clock.compare(at)
    if step >= LEAST_STEP_SECONDS:
        logger.warning("the database's clock was set back by %.0f s", step)
        run_sql(END_FUTURE_BEATS)
        arguments = json.dumps([ceil(step), MENDING_RUNS])
        run_sql(ENQUEUE, [JobName.MEND_DUE_TIMES, arguments, None])


def count_working_clusters() -> int:
    """Return in how many clusters work flowed within `WORKING_SECONDS`."""
    since = Now() - timedelta(seconds=WORKING_SECONDS)
    return _past_beats().filter(beat_at__gt=since).count()


def heartbeat_age_seconds() -> float | None:
    """Return the age of the newest heartbeat of all clusters, or None."""
    return _newest_age_seconds(_past_beats())


def own_heartbeat_age_seconds(label: str) -> float | None:
    """Like `heartbeat_age_seconds`, of the clusters that `make_cluster_name` names."""
    name = rf"^{re.escape(_cluster_label(label))}-[0-9a-f]{{16}}$"
    return _newest_age_seconds(_past_beats().filter(cluster__regex=name))


def _newest_age_seconds(beats: QuerySet[Heartbeat]) -> float | None:
    age = beats.aggregate(age=Now() - Max("beat_at"))["age"]
    return None if age is None else max(0.0, age.total_seconds())


def _past_beats() -> QuerySet[Heartbeat]:
    """Return the beats without those before the clock was set back."""
    ahead = Now() + timedelta(seconds=LEAST_STEP_SECONDS)
    return Heartbeat.objects.filter(beat_at__lte=ahead)
