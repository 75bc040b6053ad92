"""Schedule the job that runs due checks."""

from __future__ import annotations

from datetime import datetime

from verification.checks.models import CheckResult
from verification.db.bulk_insert import Rows
from verification.jobs.queue import ensure_job_by, job_row, schedule_job
from verification.reports.models import Report

RUN_DUE = "verification.checks.engine.run_due_checks"


def wake_up(at: datetime | None = None) -> None:
    """Run due checks after the caller's transaction commits, or at this time."""
    schedule_job(RUN_DUE, at=at)


def schedule_checks(report: Report, at: datetime) -> None:
    """Make the checks of a report that has just begun to run due."""
    CheckResult.objects.filter(report=report).update(next_attempt_at=at, turn_at=at)
    wake_up()


def wake_up_row(at: datetime) -> Rows:
    """Like `wake_up`, as a row that the caller inserts together with its own."""
    return job_row(RUN_DUE, at=at)


def schedule_next_run() -> None:
    """Schedule a job for the next due check, unless one will run by then anyway.

    Every run ends with this. The checks that are left wait for their source or for the
    lease of a worker that may have died. A run that dies before this call runs again.
    """
    ensure_job_by(RUN_DUE, _next_due_at())


def _next_due_at() -> datetime | None:
    # The order of the index: a check that is not due yet has its turn when it is due.
    waiting = CheckResult.objects.filter(next_attempt_at__isnull=False, waits_for="")
    times = waiting.order_by("turn_at", "id").values_list("next_attempt_at", flat=True)
    return _next_queued_at() or times.first()


def _next_queued_at() -> datetime | None:
    """Return when the next check that waits for a source's room is due.

    If a worker is calling that source, it picks these checks up before.
    """
    queued = CheckResult.objects.filter(next_attempt_at__isnull=False)
    times = queued.exclude(waits_for="").values_list("next_attempt_at", flat=True)
    return times.order_by("waits_for", "turn_at", "id").first()
