"""Retention: erase expired reports, abandoned drafts and rules paused for long.

A report expires when its retention days have passed since its end. The days are those
of its workspace; if the workspace has raised them since, those of when the report was
ordered. A draft that nobody has changed for the same time is cancelled and erased. A
report stays while it has an open request of NEED_DATA, or a hold by staff. Rules that
have been paused for the same time are deleted: they hold a subject's details too.

A run claims reports and rules, writes their ids to the journal, and erases them. The
claim is final: later holds and corrections are refused, so that the journal names
the erased reports. It names drafts, too, that a client changed after the claim: these
stay. The next job finishes a run that a crash has stopped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from monitoring.models import Rule, RuleStatus
from monitoring.pauses import delete_rules, stop_rules
from verification.jobs.queue import advisory_lock, beat, job, schedule_job
from verification.privacy import journal
from verification.privacy.models import (
    OPEN_CORRECTIONS,
    Correction,
    Hold,
    RequestKind,
    RetentionRun,
    SubjectRequest,
)
from verification.privacy.personal_data import erase_reports, refresh_statistics
from verification.reports.ends import end_early
from verification.reports.models import UNENDED, Report, ReportStatus
from verification.reports.status import locked_reports
from verification.values.clock import now
from workspaces.models import Environment, Workspace

Row = TypeVar("Row", Report, Rule)

ACTOR = "retention"
# The reports of one run, which has one file in the journal.
RUN_SIZE = 5_000
# Small enough that nobody waits for the locks of a batch. A run has no more rules.
BATCH_SIZE = 200
# The cluster stops a job after two minutes.
JOB_SECONDS = 60.0
# Requests that nobody can answer once the report is erased
NEED_DATA = (
    RequestKind.ACCESS,
    RequestKind.PORTABILITY,
    RequestKind.CORRECTION,
    RequestKind.REVIEW,
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
        stop_at = time.monotonic() + JOB_SECONDS
        finish_runs(_open_runs())
        for cutoff in _cutoffs(now()):
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

    If `made_before` is set, only reports from before then; if `report_id` is set, that
    report alone, and no rules.
    """

    workspace: Workspace
    environment: str
    before: datetime
    made_before: datetime | None = None
    report_id: UUID | None = None

    def expired(self, at: datetime) -> QuerySet[Report]:
        """Return the ended reports that nothing holds, by their end."""
        ended = Report.objects.filter(
            **self._own, erased_at=None, completed_at__lt=self.before
        )
        if self.made_before:
            ended = ended.filter(created_at__lt=self.made_before)
        return ended.exclude(_is_held(at)).order_by("completed_at")

    def abandoned(self, at: datetime) -> QuerySet[Report]:
        """Return old drafts, and what the suspension of the workspace has stopped."""
        if self.made_before:
            return Report.objects.none()
        reports = Report.objects.filter(
            **self._own,
            status__in=UNENDED if self._was_suspended else UNENDED[:1],
            completed_at=None,
            updated_at__lt=self.before,
        )
        return reports.exclude(_is_held(at)).order_by("pk")

    def old_rules(self) -> QuerySet[Rule]:
        if self.made_before or self.report_id:
            return Rule.objects.none()
        rules = Rule.objects.filter(**self._own)
        if self._was_suspended:
            return rules
        return rules.filter(status=RuleStatus.PAUSED, paused_at__lt=self.before)

    @property
    def _was_suspended(self) -> bool:
        """Return whether the workspace has been suspended since before the cutoff."""
        suspended_at = self.workspace.suspended_at
        return suspended_at is not None and suspended_at < self.before

    @property
    def _own(self) -> dict[str, Any]:
        own = {"workspace": self.workspace, "environment": self.environment}
        return {**own, "pk": self.report_id} if self.report_id else own


def erase_before(cutoff: Cutoff, stop_at: float = math.inf) -> None:
    """Erase what the cutoff names, until this time of the monotonic clock."""
    finish_runs(_begin_runs(cutoff, stop_at))


def finish_runs(runs: Iterable[RetentionRun]) -> None:
    """Erase what the runs have claimed, and is not erased yet."""
    is_erased = False
    for run in runs:
        _finish(run)
        is_erased = True
    if is_erased:
        schedule_job(refresh_statistics)


def finish_open_runs() -> None:
    """Finish what a crash or a backup has interrupted, unless the job is at it."""
    with advisory_lock("retention") as is_mine:
        if is_mine:
            finish_runs(_open_runs())


def _open_runs() -> QuerySet[RetentionRun]:
    left = RetentionRun.objects.filter(report_ids__isnull=False)
    return left.select_related("workspace").order_by("pk")


def is_claimed(report: Report) -> bool:
    """Return whether the retention is about to erase a report that is locked."""
    return RetentionRun.objects.filter(report_ids__contains=[report.pk]).exists()


def count_expired(workspace: Workspace, environment: str, days: int) -> int:
    """Return the number of reports that a retention of these days would erase at once.

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


def kept_longer(reports: Iterable[Report], at: datetime) -> set[UUID]:
    """Return the ids of the reports that an open request or a hold keeps."""
    ids = [report.pk for report in reports]
    held = Report.objects.filter(_is_held(at), pk__in=ids)
    return {*held.values_list("pk", flat=True)}


def erasure_time(report: Report) -> datetime | None:
    """Return the time when the retention erases an ended report or a draft.

    A report that is held, erased or claimed for erasure has None.
    """
    time = kept_until(report)
    if time is None and report.status == ReportStatus.DRAFT:
        time = report.updated_at + report.workspace.retention(report.environment)
    if report.erased_at or is_claimed(report) or kept_longer([report], now()):
        return None
    return time


@transaction.atomic
def erase_ahead(report: Report) -> bool:
    """Claim a locked report of the sandbox before its time, for the job to erase it.

    Returns False if the report is not to be erased.
    """
    only = Cutoff(report.workspace, report.environment, now(), report_id=report.pk)
    run, _ = _claim(only, None)
    if run:
        schedule_job(erase_expired_reports)
    return run is not None


def _is_held(at: datetime) -> Q:
    corrections = Correction.objects.filter(
        report=OuterRef("pk"), status__in=OPEN_CORRECTIONS
    )
    requests = SubjectRequest.objects.open().filter(
        report=OuterRef("pk"), kind__in=NEED_DATA
    )
    # No deadline or mail ends a join of the sandbox.
    requests = requests.exclude(
        environment=Environment.SANDBOX, proved_address__isnull=False
    )
    holds = Hold.objects.open(at).filter(report=OuterRef("pk"))
    return Q(Exists(corrections)) | Q(Exists(requests)) | Q(Exists(holds))


def _begin_runs(cutoff: Cutoff, stop_at: float) -> Iterator[RetentionRun]:
    """Claim what the cutoff names in runs; each is finished before the next begins."""
    after: datetime | None = None
    while beat() and time.monotonic() < stop_at:
        run, after = _claim(cutoff, after)
        if run is None:
            return
        yield run


@transaction.atomic
def _claim(
    cutoff: Cutoff, after: datetime | None
) -> tuple[RetentionRun | None, datetime | None]:
    """Begin a run, unless nothing is left; return it, and where the next one looks.

    `after` is when the last report of the run before ended.
    """
    # Rules come before the reports of their runs.
    old_rules = _lock(cutoff.old_rules().order_by("pk"))
    rules = list(old_rules.values_list("pk", flat=True)[:BATCH_SIZE])
    stop_rules(rules)
    at = now()
    expired = cutoff.expired(at)
    if after is not None:
        # Erased rows are still in the index.
        expired = expired.filter(completed_at__gte=after)
    ended = list(_lock(expired).values_list("pk", "completed_at")[:RUN_SIZE])
    room = RUN_SIZE - len(ended)
    unended = list(_lock(cutoff.abandoned(at)).values_list("pk", flat=True)[:room])
    # Before the lock of its row a report may have been held, and a suspension lifted.
    at = now()
    cutoff.workspace.refresh_from_db()
    found = Report.objects.filter(pk__in=[pk for pk, _ in ended])
    free = list(found.exclude(_is_held(at)).values_list("pk", flat=True))
    free += cutoff.abandoned(at).filter(pk__in=unended).values_list("pk", flat=True)
    if not (free or rules):
        return None, None
    run = RetentionRun.objects.create(
        workspace=cutoff.workspace,
        environment=cutoff.environment,
        before=cutoff.before,
        report_count=len(free),
        report_ids=free,
        rule_ids=rules,
        created_at=at,
    )
    return run, ended[-1][1] if ended else after


def _lock(rows: QuerySet[Row]) -> QuerySet[Row]:
    """Lock the rows as they are read; skip locked ones."""
    return rows.select_for_update(of=("self",), no_key=True, skip_locked=True)


def _finish(run: RetentionRun) -> None:
    """Write the journal, then erase; a run that the cluster stops goes on later."""
    report_ids = run.report_ids
    if report_ids is None:
        return
    journal.write_retention(run)
    with transaction.atomic():
        delete_rules(run.rule_ids or [])
    for start in range(0, len(report_ids), BATCH_SIZE):
        if not beat():
            return
        begun = time.monotonic()
        _erase_batch(run, report_ids[start : start + BATCH_SIZE])
        # Leave half of the time to others.
        time.sleep(time.monotonic() - begun)
    RetentionRun.objects.filter(pk=run.pk).update(report_ids=None, rule_ids=None)


@transaction.atomic
def _erase_batch(run: RetentionRun, report_ids: Sequence[UUID]) -> None:
    # A draft may have been edited or launched since the claim.
    is_old = Q(completed_at__lt=run.created_at)
    is_old |= Q(completed_at=None, updated_at__lt=run.created_at)
    left = locked_reports().filter(is_old, pk__in=report_ids, erased_at=None)
    left = left.order_by("pk")
    ended_at = dict(left.values_list("pk", "completed_at"))
    at = now()
    unended = [pk for pk, completed_at in ended_at.items() if completed_at is None]
    for report in locked_reports().filter(pk__in=unended).order_by("pk"):
        end_early(report, ReportStatus.CANCELLED, "retention is over", ACTOR, at)
    erase_reports(list(ended_at), at)
