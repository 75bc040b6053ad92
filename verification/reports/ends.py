"""The end of a report: the function that ends it, and the table of what follows.

The engine moves a report with its checks (`follow_checks`), which ends it with the last
one. A verb ends it earlier (`end_early`): it cancels the report, or fails it at a gate.
Both call `end_reports`, and FOLLOW_UPS lists what follows at which ends.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q

from verification.checks.due_checks import make_due
from verification.checks.events import report_event
from verification.checks.models import CheckResult, ResultStatus
from verification.consents.models import ConsentStatus
from verification.db.base import run_sql
from verification.db.bulk_insert import Rows, insert
from verification.decisions.cases import close_cases, reports_in_review
from verification.decisions.models import PolicyState, PolicyVersion
from verification.jobs.claims import BATCH_SIZE, sweep
from verification.jobs.models import Job
from verification.jobs.names import JobName
from verification.jobs.queue import job, job_row, notify_on_commit
from verification.payments.models import PaymentStatus
from verification.payments.refunds import refund_parts
from verification.payments.settlement import close_checkouts
from verification.references.models import Reference, ReferenceStatus
from verification.reports.hosted_links import cancel_requests
from verification.reports.models import UNENDED, Report, ReportStatus, RiskLevel
from verification.reports.pricing import charge_items, charge_movements
from verification.reports.status import (
    CHECK_ENDED,
    ENGINE,
    NotCancellable,
    Transition,
    apply_transitions,
    lock_report,
    locked_reports,
)
from verification.sources.calls import ARE_AT_SOURCE, close_calls
from verification.values.clock import now
from webhooks.events import NewEvent, event_rows
from webhooks.models import Event
from workspaces.ledger import Kind, Movement, account_of, book
from workspaces.models import CLOSED_REASON, Account, Client, Environment

# Results that no worker has; an early end cancels them and gives their price back.
UNCLAIMED = Q(status=ResultStatus.PENDING) | Q(status=ResultStatus.RUNNING, claims=0)
# A client's cancellation also leaves those whose answer the source still owes.
UNCALLED = UNCLAIMED & ~ARE_AT_SOURCE
OF_CLOSED = {"workspace__suspension_reason": CLOSED_REASON}


@dataclass(slots=True)
class Progress:
    """A locked report, with the state of its checks and of its consent."""

    report: Report
    stack: list[tuple[str, str, UUID]] = field(default_factory=list)
    consent_status: str = ConsentStatus.NOT_REQUIRED.value
    has_policy: bool = False
    score: int | None = None
    # The sum over all checks. A retry raises it, so each end of a report has its own.
    runs: int = 0

    def count(self, *statuses: ResultStatus) -> int:
        return sum(status in statuses for _, status, _ in self.stack)


@dataclass(slots=True)
class End:
    """An end of a report that is about to be written."""

    progress: Progress
    move: Transition
    # The reversals of an early end, before the checks end; otherwise None
    reversals: Sequence[Movement] | None = None
    event: NewEvent | None = None

    @property
    def report(self) -> Report:
        return self.progress.report

    def is_early(self) -> bool:
        return self.reversals is not None

    def is_told(self) -> bool:
        """Return whether the end sends an event.

        The client knows its own cancellations, and a withdrawal has its own events.
        """
        return self.move.target != ReportStatus.CANCELLED

    def asks_policy(self) -> bool:
        return self.is_for_decision() and self.progress.has_policy

    def needs_case(self) -> bool:
        hours = self.report.workspace.decision_hours
        return self.is_for_decision() and hours is not None

    def is_for_decision(self) -> bool:
        """Its checks were run; monitoring raises alerts instead."""
        return not self.is_early() and self.report.monitoring_id is None

    def is_repeated(self) -> bool:
        """It was retried, so that decisions may rest on earlier results."""
        return self.progress.runs > len(self.progress.stack)

    def leaves_queue(self) -> bool:
        return self.is_early() and self.is_repeated()

    def is_compared(self) -> bool:
        """Calls of a cancelled run may go on: `compare_lost_runs` compares it later."""
        return self.report.monitoring_id is not None and self.is_told()


# It may return rows of jobs.
FollowUp = Callable[[Sequence[End], datetime], Iterable[Rows] | None]


def end_reports(
    ends: Sequence[End], at: datetime, others: Sequence[Transition] = ()
) -> Rows:
    """End locked reports, and do what follows; `others` are moves that end nothing.

    Its caller inserts the jobs that it returns, and the events of the ends.
    """
    apply_transitions([*others, *(end.move for end in ends)], at)
    jobs = [
        row
        for applies, follow_up in FOLLOW_UPS
        if (chosen := [end for end in ends if applies(end)])
        for rows in follow_up(chosen, at) or ()
        for row in rows.records
    ]
    return Rows(Job, jobs)


def follow_checks(
    reports: Mapping[UUID, Report], at: datetime
) -> tuple[dict[UUID, Progress], list[NewEvent], Rows]:
    """Move each report to the status of its checks. The caller has locked the reports.

    Returns their progress, and the events and jobs to insert for ended reports. A
    cancelled report stays cancelled.
    """
    progress = _read_progress(reports.values())
    moves, ends, unmoved = [], [], []
    for one in progress.values():
        if one.report.status in {ReportStatus.RUNNING, ReportStatus.PARTIAL}:
            move = _next_move(one, at)
            if move is None:
                unmoved.append(one)
            elif "completed_at" in move.changes:
                ends.append(End(one, move))
            else:
                moves.append(move)
    jobs = end_reports(ends, at, moves)
    _write_scores([one.report for one in unmoved if _update_score(one)], at)
    return progress, [end.event for end in ends if end.event], jobs


@transaction.atomic
def cancel(client: Client, report_id: UUID) -> Report:
    """Cancel the report. Raises NotCancellable if it has ended."""
    report = lock_report(client, report_id)
    if report.is_ended:
        raise NotCancellable(report.status)
    target, account = ReportStatus.CANCELLED, client.account
    end_early(
        report,
        target,
        "cancelled",
        client.actor,
        now(),
        account=account,
        stopped=UNCALLED,
    )
    return report


@job
def cancel_open_reports() -> None:
    """Cancel the reports of closed workspaces, whose payers get their money back."""
    unended = Report.objects.filter(
        **OF_CLOSED,
        environment__in=Environment.values,
        status__in=UNENDED,
        completed_at=None,
    )
    # In the order of ids PostgreSQL might read all that have ended.
    due = Report.objects.filter(pk__in=unended.values("pk")[:BATCH_SIZE])
    sweep(due, _cancel_open_report)


@transaction.atomic
def _cancel_open_report(report_id: UUID) -> None:
    # Staff may have resumed the workspace.
    report = locked_reports().get(pk=report_id, **OF_CLOSED)
    if not report.is_ended:
        target = ReportStatus.CANCELLED
        end_early(report, target, "cancelled", "service", now(), stopped=UNCALLED)


def end_early(
    report: Report,
    target: ReportStatus,
    trigger: str,
    actor: str,
    at: datetime,
    failure: tuple[str, str] = ("", ""),
    *,
    account: Account | None = None,
    stopped: Q = UNCLAIMED,
) -> None:
    """Move a locked report to FAILED or CANCELLED; `failure` is its code and message.

    The checks in `stopped` are cancelled and their charges reversed, as those of failed
    checks are already. Completed checks stay billed. A call under way still records its
    answer.
    """
    uncalled = list(report.results.select_for_update().filter(stopped))
    CheckResult.objects.filter(pk__in=[result.pk for result in uncalled]).update(
        status=ResultStatus.CANCELLED, next_attempt_at=None, completed_at=at
    )
    # A worker that died may have left a call open for a check that it had claimed.
    close_calls(result.pk for result in uncalled if result.fence)
    code, message = failure
    changes = {"completed_at": at, "failure_code": code, "failure_message": message}
    move = Transition(report, target, trigger, actor, changes)
    reversals: list[Movement] = []
    # A draft is not charged.
    if uncalled and report.status != ReportStatus.DRAFT:
        account = account or account_of(report.workspace, report.environment)
        client, charged = (
            Client(report.workspace, account, actor),
            charge_items(uncalled),
        )
        reversals = charge_movements(client, report, charged, Kind.REVERSAL)
    end = End(_read_progress([report])[report.pk], move, reversals)
    jobs = end_reports([end], at)
    if end.event or jobs.records:
        insert(event_rows([end.event] if end.event else [], at), jobs)
        notify_on_commit()


def close_references(results: Iterable[UUID]) -> None:
    """Expire the references of checks that stop. The caller holds their report."""
    waiting = Reference.objects.filter(
        result_id__in=results, status=ReferenceStatus.PENDING
    )
    if found := list(waiting):
        cancel_requests(*found)
        waiting.update(status=ReferenceStatus.EXPIRED)
        for reference in found:
            # A worker may have asked just now and be about to wait for the answer.
            make_due(reference.result_id, now())


def refresh_score(report: Report, at: datetime) -> None:
    """Set the score of a locked report whose present results have changed."""
    if _update_score(_read_progress([report])[report.pk]):
        _write_scores([report], at)


def _close_requests(ends: Sequence[End], at: datetime) -> None:
    for end in ends:
        if consent := getattr(end.report, "consent", None):
            cancel_requests(consent)
        close_references(end.report.results.values_list("pk", flat=True))


def _close_cases(ends: Sequence[End], at: datetime) -> None:
    ids = {end.report.pk for end in ends}
    close_cases(ids - reports_in_review(ids), at)


def _return_payments(ends: Sequence[End], at: datetime) -> None:
    """Give back parts of a payment that is not complete, and close its checkouts."""
    for end in ends:
        payment = getattr(end.report, "payment", None)
        if payment and payment.is_outstanding:
            payment.status = PaymentStatus.CANCELLED
            payment.save(update_fields=["status"])
            refund_parts(payment.pk)
            close_checkouts(payment.pk)
            cancel_requests(payment)


def _reverse_charges(ends: Sequence[End], at: datetime) -> None:
    book([movement for end in ends for movement in end.reversals or ()], at)


def _render_events(ends: Sequence[End], at: datetime) -> None:
    for end in ends:
        report, progress = end.report, end.progress
        is_ready = report.status == ReportStatus.READY
        end.event = report_event(
            Event.Name.REPORT_READY if is_ready else Event.Name.REPORT_FAILED,
            f"{report.pk}:{progress.runs}",
            report,
            progress.stack,
            consent_status=progress.consent_status,
        )


def _apply_policies(ends: Sequence[End], at: datetime) -> Iterable[Rows]:
    return [job_row(JobName.APPLY_POLICY, end.report.pk, at=at) for end in ends]


def _job(name: JobName) -> FollowUp:
    """Return a follow-up that is one job for all reports."""
    return lambda ends, at: [job_row(name, *(end.report.pk for end in ends), at=at)]


# At which ends, and what follows. First comes what the transaction does itself, with
# the lock of the account last, then the jobs after it. `payments.refunds` later returns
# what a payer paid for checks that failed, as a retry may still do them; `digests`
# writes to members.
FOLLOW_UPS: list[tuple[Callable[[End], bool], FollowUp]] = [
    (End.is_early, _close_requests),
    (End.leaves_queue, _close_cases),
    (End.is_early, _return_payments),
    (End.is_early, _reverse_charges),
    (End.is_told, _render_events),
    (End.asks_policy, _apply_policies),
    (End.needs_case, _job(JobName.OPEN_CASES)),
    (End.is_repeated, _job(JobName.REVIEW_DECISIONS)),
    (End.is_compared, _job(JobName.COMPARE_RUNS)),
]


def _read_progress(reports: Iterable[Report]) -> dict[UUID, Progress]:
    progress = {report.pk: Progress(report) for report in reports}
    policies = PolicyVersion.objects.filter(
        workspace=OuterRef("report__workspace"),
        environment=OuterRef("report__environment"),
        state=PolicyState.ACTIVE,
    )
    # A second query, because a consent that is read by the locking statement could be
    # older than the lock.
    rows = (
        CheckResult.objects.filter(report__in=list(progress))
        .order_by("report_id", "position")
        .values_list("report_id", "name", "status", "id", "score", "attempt")
        .annotate(
            consent_status=F("report__consent__status"), has_policy=Exists(policies)
        )
    )
    for report_id, name, status, result_id, score, attempt, consent, policy in rows:
        one = progress[report_id]
        one.consent_status = consent or one.consent_status
        one.has_policy = policy
        one.stack.append((name, status, result_id))
        one.runs += attempt
        if status == ResultStatus.COMPLETED and score is not None:
            # The worst finding decides, as an average would hide it.
            one.score = max(score, one.score or 0)
    return progress


def _next_move(progress: Progress, at: datetime) -> Transition | None:
    """Return the status change that is due, or None."""
    report, checks = progress.report, len(progress.stack)
    changes: dict[str, Any] = {
        "risk_score": progress.score,
        "risk_level": RiskLevel.of(progress.score).value,
    }
    target = ReportStatus.PARTIAL
    if open_checks := progress.count(ResultStatus.PENDING, ResultStatus.RUNNING):
        if open_checks == checks or report.status == ReportStatus.PARTIAL:
            return None
    else:
        changes["completed_at"] = at
        completed = progress.count(ResultStatus.COMPLETED)
        if completed == checks:
            target = ReportStatus.READY
        else:
            target = ReportStatus.PARTIAL if completed else ReportStatus.FAILED
            changes["failure_code"] = "CHECKS_FAILED"
            changes["failure_message"] = (
                f"{checks - completed} of {checks} checks could not be completed."
            )
    return Transition(report, target, CHECK_ENDED, ENGINE, changes)


def _update_score(progress: Progress) -> bool:
    """Update the report's score; return True if it changed."""
    report = progress.report
    has_changed = report.risk_score != progress.score
    report.risk_score = progress.score
    report.risk_level = RiskLevel.of(progress.score).value
    return has_changed


def _write_scores(reports: list[Report], at: datetime) -> None:
    if not reports:
        return
    rows = [(report.pk, report.risk_score, report.risk_level) for report in reports]
    run_sql(
        """
        UPDATE reports_report r
        SET risk_score = u.score, risk_level = u.level, updated_at = %s
        FROM unnest(%s::uuid[], %s::smallint[], %s::text[]) AS u(id, score, level)
        WHERE r.id = u.id
        """,
        [at, *map(list, zip(*rows, strict=True))],
    )
