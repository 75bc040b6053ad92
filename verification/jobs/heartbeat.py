"""The heartbeat of the clusters: work that really flowed, not a process that lives.

A beat is a job of its own, made once a second by the broker, that goes the way of
every job: pusher, worker, monitor. The worker writes it here for `/readyz`; the
monitor's acknowledgement tells the cluster's supervisor.
"""

import logging
import os
import time
from contextlib import suppress

from django.db import DatabaseError, connection
from django.db.models import Max
from django.db.models.functions import Now

from verification.jobs.models import Heartbeat
from verification.jobs.queue import cluster_name
from verification.jobs.sharing import Flag

BEAT = "verification.jobs.heartbeat.beat"
WRITE = """
INSERT INTO jobs_heartbeat (cluster, beat_at) VALUES (%s, statement_timestamp())
ON CONFLICT (cluster) DO UPDATE SET beat_at = excluded.beat_at
"""
logger = logging.getLogger(__name__)
# Set when this process's cluster is about to stop.
stopping = Flag()
_written_at = 0.0


def beat() -> bool:
    """Show that work flows; False when the cluster is stopping and we should end.

    Work that takes long calls it at each step, from its own thread and outside any
    transaction. It writes at most once a second.
    """
    global _written_at
    if time.monotonic() - _written_at >= 1 and not connection.in_atomic_block:
        _written_at = time.monotonic()
        try:
            with connection.cursor() as cursor:
                cursor.execute(WRITE, [cluster_name()])
        except DatabaseError as e:
            logger.warning("heartbeat not written: %s", type(e).__name__)
    return not stopping.is_set()


def age_seconds() -> float | None:
    """How long ago work last flowed in any cluster; None when it never has."""
    age = Heartbeat.objects.aggregate(age=Now() - Max("beat_at"))["age"]
    return None if age is None else max(0.0, age.total_seconds())


def tell_supervisor(sign: bytes) -> None:
    if pipe := os.environ.get("JOB_SUPERVISOR_PIPE"):
        # Full or closed: the supervisor is slow, or gone and we shall be as well.
        with suppress(OSError):
            os.write(int(pipe), sign)
