"""The cost of the job engine itself, with jobs that do nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from benchmarks.figures import Figure, bench
from benchmarks.service import Service
from verification.jobs.queue import schedule_job

NOTHING = "benchmarks.tasks.nothing"
STAMP = "benchmarks.tasks.stamp"
ENQUEUE = """
INSERT INTO jobs_job (function, arguments)
SELECT %s, jsonb_build_array(n) FROM generate_series(1, %s) n
"""
WAITING = "SELECT count(*) FROM jobs_job"


@bench(samples=3, jobs=50, rounds=1)
def engine(
    service: Service, samples: int = 100, jobs: int = 3_000, rounds: int = 3
) -> Iterator[Figure]:
    with service.jobs(), service.connect() as db:
        db.execute(
            "CREATE TABLE IF NOT EXISTS bench_stamp (number int, at timestamptz)"
        )
        waits = [_start(db, number) for number in range(samples)]
        yield Figure("enqueued to started, idle", waits)
        yield Figure("enqueued to started, idle", waits, at=99)
        rates = [jobs / _drain(db, jobs) for _ in range(rounds)]
        yield Figure("jobs that do nothing", rates, "jobs/s", rate=True)


def _start(db: Any, number: int) -> float:
    """Enqueue a job. Returns the milliseconds until it runs."""
    time.sleep(0.07)
    enqueued = db.execute("SELECT clock_timestamp()").fetchone()[0]
    schedule_job(STAMP, number)
    stamp = "DELETE FROM bench_stamp WHERE number = %s RETURNING at"
    while not (row := db.execute(stamp, [number]).fetchone()):
        time.sleep(0.005)
    return (row[0] - enqueued).total_seconds() * 1000


def _drain(db: Any, jobs: int) -> float:
    with db.transaction():
        db.execute(ENQUEUE, [NOTHING, jobs])
        db.execute("NOTIFY verification_jobs")
    started = time.perf_counter()
    while db.execute(WAITING).fetchone()[0]:
        time.sleep(0.02)
    return time.perf_counter() - started
