"""Retention: erase expired reports, abandoned drafts and rules paused for long.

A report expires when its retention days have passed since its end. The days are those
of its workspace; if the workspace has raised them since, those of when the report was
ordered. A draft that nobody has changed for the same time is cancelled and erased. A
report stays while it has an open correction or a hold by staff. Rules that have been
paused for the same time are deleted, because they hold a subject's details too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from monitoring.models import Rule, RuleStatus
from verification.db.ids import uuid7
from verification.jobs.queue import advisory_lock, beat, job, schedule_job
from verification.privacy import journal
from verification.privacy.models import (
    OPEN_CORRECTIONS,
    Correction,
    Hold,
    RetentionRun,
)
from verification.privacy.personal_data import erase_reports, refresh_statistics
from verification.reports.cancel import end_report
from verification.reports.models import Report, ReportStatus
from verification.reports.status import locked_reports
from verification.values.clock import now
from workspaces.ledger import account_of
from workspaces.models import Client, Environment, Workspace

ACTOR = "retention"
# Small enough that nobody waits for the locks of a batch.
BATCH_SIZE = 200
# The cluster stops a job after two minutes.
JOB_SECONDS = 60.0
# The statuses of a report that nothing moves while its workspace is suspended
UNENDED = (
    ReportStatus.DRAFT,
    ReportStatus.PENDING_CONSENT,
    ReportStatus.PENDING_PAYMENT,
    ReportStatus.RUNNING,
    ReportStatus.PARTIAL,
)
# Pages that shorten a retention announce up to this number of reports.
MAX_COUNT = 10_000


@job
def erase_expired_reports() -> None:
    """Erase the reports of all workspaces whose retention is over, in batches.

    It works for `JOB_SECONDS` at most, and then schedules itself to go on.
    """
    with advisory_lock("retention") as is_mine:
        if not is_mine:
            return
        stop_at, at = time.monotonic() + JOB_SECONDS, now()
        due = [cutoff for cutoff in _cutoffs(at) if cutoff.is_due(at)]
        if not due:
            return
        # Before the rows: a backup from before must not bring them back.
        journal.mark_known(journal.write_retention(uuid7(), at, due))
        for cutoff in due:
            erase_before(cutoff, stop_at)
            if not beat():
                return
            if time.monotonic() > stop_at:
                break
        else:
            return
    # After the lock is free: the next run needs it.
    schedule_job(erase_expired_reports)


def _cutoffs(at: datetime) -> Iterator[Cutoff]:
    for workspace in Workspace.objects.order_by("pk"):
        for environment in Environment.values:
            present = workspace.retention(environment)
            yield Cutoff(workspace, environment, at - present)
            # Reports from before the retention was made longer.
            terms = workspace.retention_terms.filter(environment=environment)
            for term in terms.filter(days__lt=present.days).order_by("pk"):
                before = at - timedelta(term.days)
                yield Cutoff(workspace, environment, before, term.ended_at)


@dataclass(frozen=True, slots=True)
class Cutoff:
    """The reports of a workspace and environment whose retention is over at a time.

    If `made_before` is set, only reports from before then.
    """

    workspace: Workspace
    environment: str
    before: datetime
    made_before: datetime | None = None

    def is_due(self, at: datetime) -> bool:
        return (
            self.expired(at).exists()
            or self.abandoned(at).exists()
            or self.old_rules().exists()
        )

    def expired(self, at: datetime) -> QuerySet[Report]:
        """Return the reports that nothing holds."""
        expired = _expired(self.workspace, self.environment, self.before, at)
        return expired if self._is_present else expired.filter(**self._older)

    def abandoned(self, at: datetime) -> QuerySet[Report]:
        """Return old drafts, and what the suspension of the workspace has stopped."""
        statuses = UNENDED if self._was_suspended else UNENDED[:1]
        reports = Report.objects.filter(
            **self._own,
            status__in=statuses,
            completed_at=None,
            updated_at__lt=self.before,
        )
        return reports.exclude(_is_held(at)) if self._is_present else reports.none()

    def old_rules(self) -> QuerySet[Rule]:
        rules = Rule.objects.filter(**self._own)
        if not self._is_present:
            return rules.none()
        if self._was_suspended:
            return rules
        return rules.filter(status=RuleStatus.PAUSED, paused_at__lt=self.before)

    @property
    def _was_suspended(self) -> bool:
        """Return whether the workspace has been suspended since before the cutoff."""
        suspended_at = self.workspace.suspended_at
        return suspended_at is not None and suspended_at < self.before

    @property
    def _is_present(self) -> bool:
        return self.made_before is None

    @property
    def _own(self) -> dict[str, Any]:
        return {"workspace": self.workspace, "environment": self.environment}

    @property
    def _older(self) -> dict[str, Any]:
        return {"created_at__lt": self.made_before}


def erase_before(cutoff: Cutoff, stop_at: float = math.inf) -> None:
    """Erase what the cutoff names, until this time of the monotonic clock."""
    at = now()
    cutoff.old_rules().delete()
    erased = _erase_abandoned(cutoff, stop_at)
    erased += _erase_in_batches(cutoff.expired(at), stop_at)
    if erased:
        RetentionRun.objects.create(
            workspace=cutoff.workspace,
            environment=cutoff.environment,
            before=cutoff.before,
            report_count=erased,
        )
        schedule_job(refresh_statistics)


def _expired(
    workspace: Workspace, environment: str, before: datetime, at: datetime
) -> QuerySet[Report]:
    """Return the reports that ended before then and that nothing holds."""
    ended = Report.objects.filter(
        workspace=workspace,
        environment=environment,
        erased_at=None,
        completed_at__lt=before,
    )
    return ended.exclude(_is_held(at)).order_by("completed_at")


def count_expired(workspace: Workspace, environment: str, days: int) -> int:
    """Return how many reports a retention of so many days would erase at once.

    It counts no further than MAX_COUNT + 1.
    """
    at = now()
    cutoff = Cutoff(workspace, environment, at - timedelta(days))
    count = sum(
        rows.order_by()[: MAX_COUNT + 1].count()
        for rows in (cutoff.expired(at), cutoff.abandoned(at))
    )
    return min(count, MAX_COUNT + 1)


def kept_until(report: Report) -> datetime | None:
    """Return when the retention of an ended report is over; a hold may keep it."""
    if report.completed_at is None:
        return None
    days = report.workspace.retention_of(report.environment, report.created_at)
    return report.completed_at + days


def _is_held(at: datetime) -> Q:
    corrections = Correction.objects.filter(
        report=OuterRef("pk"), status__in=OPEN_CORRECTIONS
    )
    holds = Hold.objects.open(at).filter(report=OuterRef("pk"))
    return Q(Exists(corrections)) | Q(Exists(holds))


def _erase_in_batches(expired: QuerySet[Report], stop_at: float) -> int:
    erased = 0
    after: datetime | None = None
    while beat() and time.monotonic() < stop_at:
        begun = time.monotonic()
        # Begin at the end of the last batch: its rows are still in the index.
        rest = expired if after is None else expired.filter(completed_at__gte=after)
        count, after = _erase_batch(rest)
        if after is None:
            return erased
        erased += count
        # Leave half of the time to others.
        time.sleep(time.monotonic() - begun)
    return erased


@transaction.atomic
def _erase_batch(expired: QuerySet[Report]) -> tuple[int, datetime | None]:
    """Erase a batch; return its size, and when its last report ended, or None."""
    locked = expired.select_for_update(of=("self",), no_key=True, skip_locked=True)
    rows = list(locked.values_list("pk", "completed_at")[:BATCH_SIZE])
    if not rows:
        return 0, None
    # A hold may have been made between the reading of a row and its lock.
    found = Report.objects.filter(pk__in=[pk for pk, _ in rows])
    free = list(found.exclude(_is_held(now())).values_list("pk", flat=True))
    erase_reports(free, now())
    return len(free), rows[-1][1]


def _erase_abandoned(cutoff: Cutoff, stop_at: float) -> int:
    """Cancel and erase reports that have not ended; return how many."""
    erased = 0
    while beat() and time.monotonic() < stop_at:
        begun = time.monotonic()
        ids = cutoff.abandoned(now()).order_by("pk").values_list("pk", flat=True)
        done = sum(_erase_unended(pk, cutoff) for pk in list(ids[:BATCH_SIZE]))
        if not done:
            break
        erased += done
        time.sleep(time.monotonic() - begun)
    return erased


@transaction.atomic
def _erase_unended(report_id: UUID, cutoff: Cutoff) -> int:
    report = locked_reports().get(pk=report_id)
    # Anything may have changed between the reading and the lock.
    current = replace(cutoff, workspace=report.workspace)
    if not current.abandoned(now()).filter(pk=report_id).exists():
        return 0
    client = Client(
        report.workspace, account_of(report.workspace, report.environment), ACTOR
    )
    at = now()
    end_report(client, report, ReportStatus.CANCELLED, "retention is over", at)
    erase_reports([report.pk], at)
    return 1
