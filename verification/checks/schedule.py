"""Waking workers for checks that are due, or will be."""

from __future__ import annotations

from datetime import datetime

from verification.checks.models import CheckResult
from verification.db.bulk_insert import Rows
from verification.jobs.queue import ensure_job_by, job_row, schedule_job
from verification.reports.models import Report

RUN_DUE = "verification.checks.engine.run_due_checks"


def wake_up(at: datetime | None = None) -> None:
    """Say, with the caller's transaction, that checks are or will be due."""
    schedule_job(RUN_DUE, at=at)


def schedule_checks(report: Report, at: datetime) -> None:
    """Have the checks of a report that has just begun to run be asked."""
    CheckResult.objects.filter(report=report).update(next_attempt_at=at, turn_at=at)
    wake_up()


def wake_up_row(at: datetime) -> Rows:
    """The same as a row, which the caller inserts with rows of its own."""
    return job_row(RUN_DUE, at=at)


def schedule_next_run() -> None:
    """Have a worker look again when the next check is due, unless one will anyway.

    Every run ends with this. What is left then waits for its source, or for the lease
    of a worker that may have died; and a run that dies before this is run again.
    """
    ensure_job_by(RUN_DUE, _next_due_at())


def _next_due_at() -> datetime | None:
    # In the order of the index: what is not due yet has its turn when it is.
    waiting = CheckResult.objects.filter(next_attempt_at__isnull=False, waits_for="")
    times = waiting.order_by("turn_at", "id").values_list("next_attempt_at", flat=True)
    return _next_queued_at() or times.first()


def _next_queued_at() -> datetime | None:
    """Whoever has a call of that source under way goes on with these, if anybody."""
    queued = CheckResult.objects.filter(next_attempt_at__isnull=False)
    times = queued.exclude(waits_for="").values_list("next_attempt_at", flat=True)
    return times.order_by("waits_for", "turn_at", "id").first()
