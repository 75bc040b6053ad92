"""Enqueueing jobs, and naming the cluster that runs them."""

import json
import os
import socket
from collections.abc import Sequence
from uuid import UUID

from django.db import connection

CHANNEL = "verification_jobs"

# One statement, so that a caller pays one round trip. The row and the wake-up both
# wait for the caller's commit, and neither happens when it rolls back.
ENQUEUE = f"""
WITH job AS (
    INSERT INTO jobs_job (function, arguments) VALUES (%s, %s) RETURNING id
)
SELECT id, pg_notify('{CHANNEL}', '') FROM job
"""  # noqa: S608


def later(task: str, *ids: str | int | UUID) -> None:
    """Run the function at this dotted path soon after the current transaction commits.

    It may run more than once, and calls without ids that wait at the same time run
    as one: a job looks up what there is to do and leaves alone what is done.
    """
    for value in ids:
        if not isinstance(value, str | int | UUID):
            raise TypeError(f"{value!r} is not an id")
    enqueue(task, [str(i) if isinstance(i, UUID) else i for i in ids])


def enqueue(function: str, arguments: Sequence[str | int]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(ENQUEUE, [function, json.dumps(list(arguments))])
        return int(cursor.fetchone()[0])


def cluster_name() -> str:
    """The cluster this process belongs to; its supervisor keeps it over restarts."""
    return os.environ.get("JOB_CLUSTER") or f"{socket.gethostname()}-{os.getpid()}"
