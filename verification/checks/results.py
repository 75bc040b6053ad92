"""Record the outcomes of checks: results, reports, money and events in one transaction.

The outcomes of its checks decide a report's status, score and events.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import F
from django.utils.timezone import now

from verification.checks.events import check_body, check_event, report_event
from verification.checks.models import CheckDefinition, CheckResult, ResultStatus
from verification.checks.queue import Claim
from verification.consents.models import ConsentStatus
from verification.db.bulk_insert import Rows, insert
from verification.jobs.queue import job_row
from verification.providers.base import Finding
from verification.reports.models import PaymentMode, Report, ReportStatus, RiskLevel
from verification.reports.status import Transition, apply_transitions, locked_reports
from verification.sources.calls import EndedCall, end_calls, erase_answers
from verification.sources.models import CallOutcome
from verification.values.wire import utc_text
from webhooks.events import NewEvent, event_rows
from webhooks.models import Event
from workspaces.ledger import Kind, Movement, entries, move_balances
from workspaces.models import Account

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Completed:
    """The source answered. `finding` is {summary, flags, details, evidence}."""

    score: int | None
    finding: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failed:
    """The check could not be done. `end` is the outcome of the source's call."""

    code: str
    message: str
    retryable: bool
    end: CallOutcome = field(default=CallOutcome.REFUSED, compare=False)
    may_be_charged: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Retry:
    """There is no answer yet: the check is due again at this time.

    With `waits_for`, the check is due when that source has room for it.
    """

    at: datetime
    tries: int
    waits_for: str = ""
    end: CallOutcome = field(default=CallOutcome.NOT_YET, compare=False)
    why: str = field(default="", compare=False)
    may_be_charged: bool = field(default=False, compare=False)
    # The source's own id of the inquiry that it has accepted.
    job: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The report was cancelled or the consent withdrawn before the call."""


Outcome = Completed | Failed | Retry | Cancelled
EndedCheck = tuple[Claim, Outcome]
Definitions = Mapping[Any, CheckDefinition]
ENGINE = "engine"
CHECK_ENDED = "check ended"
COMPARE = "monitoring.alerts.compare_runs"
MAX_DURATION_MS = 2**31 - 1

UPDATE = """
UPDATE checks_checkresult r
SET status = u.status, claims = 0, tries = u.tries, next_attempt_at = u.due,
    turn_at = COALESCE(u.due, r.turn_at), waits_for = u.waits_for,
    completed_at = CASE WHEN u.due IS NULL THEN %s END,
    started_at = u.started, duration_ms = u.duration, score = u.score,
    risk_level = u.level, finding = u.finding, failure_code = u.code,
    failure_message = u.message, failure_retryable = u.retryable
FROM unnest(
    %s::uuid[], %s::int[], %s::text[], %s::smallint[], %s::timestamptz[], %s::int[],
    %s::smallint[], %s::text[], %s::bytea[], %s::text[], %s::text[], %s::bool[],
    %s::text[], %s::timestamptz[]
) AS u(id, fence, status, tries, due, duration, score, level, finding, code, message,
    retryable, waits_for, started)
WHERE r.id = u.id AND r.fence = u.fence AND r.status = 'RUNNING'
RETURNING r.id, r.fence, r.price
"""


def completed_with(found: Finding, not_told: Sequence[str] = ()) -> Completed:
    """`not_told` are the output fields that the source never tells."""
    return Completed(
        found.score,
        {
            "summary": found.summary,
            "flags": [asdict(flag) for flag in found.flags],
            "details": found.details,
            "evidence": {
                "provider": found.provider,
                "providerReference": found.provider_reference,
                "retrievedAt": utc_text(now()),
                "responseDigest": found.response_digest,
                "nameComparison": found.name_comparison,
                "editions": found.editions,
                "fieldsNotTold": list(not_told),
            },
        },
    )


def call_end_of(outcome: Outcome) -> EndedCall:
    """Return the end of the call that led to this outcome."""
    match outcome:
        case Failed(code=code, end=end, may_be_charged=charged):
            return EndedCall(end, code, charged)
        case Retry(end=end, why=why, may_be_charged=charged, job=job):
            return EndedCall(end, why, charged, job)
    return EndedCall(CallOutcome.ANSWERED)


def record_outcomes(ended: Sequence[EndedCheck], definitions: Definitions) -> None:
    """Record these outcomes in one transaction, or one by one if that fails.

    One by one, a bad row does not stop the others. It is claimed again until the engine
    gives it up.
    """
    if not ended:
        return
    try:
        _record(ended, definitions)
    except Exception as e:
        logger.warning(
            "%s checks are recorded singly: %s", len(ended), type(e).__name__
        )
        for one in ended:
            _record_alone(one, definitions)


def _record_alone(one: EndedCheck, definitions: Definitions) -> None:
    try:
        _record([one], definitions)
    except Exception as e:
        # The message may hold what the source said of the subject.
        logger.error(
            "check %s could not be recorded: %s", one[0].result_id, type(e).__name__
        )


@transaction.atomic
def _record(ended: Sequence[EndedCheck], definitions: Definitions) -> None:
    at = now()
    reports = _lock({c.report.pk for c, o in ended if not isinstance(o, Retry)})
    prices = _update(ended, at)
    ours = [(c, o) for c, o in ended if c.key in prices]
    _end_calls(ours, at)
    mine = [(c, o) for c, o in ours if c.report.pk in reports]
    if not mine:
        return
    settled = update_reports(reports, at)
    movements = _reversals(mine, prices, reports)
    happenings = _check_events(mine, settled, definitions, at)
    insert(
        entries(movements, at),
        event_rows([*happenings, *(s.event for s in settled.values() if s.event)], at),
        *_comparisons(settled.values(), at),
    )
    move_balances(movements)


def _lock(report_ids: set[UUID]) -> dict[UUID, Report]:
    """Lock the reports until the commit: the last check to end sees all others."""
    reports = locked_reports().filter(pk__in=report_ids).order_by("pk")
    return {report.pk: report for report in reports} if report_ids else {}


def _update(ended: Sequence[EndedCheck], at: datetime) -> dict[tuple[UUID, int], Any]:
    """Write the results whose fence is current; return their prices by key of the
    claim.
    """
    seal = CheckResult._meta.get_field("finding").seal
    rows = [_row(claimed, outcome, at, seal) for claimed, outcome in ended]
    with connection.cursor() as cursor:
        cursor.execute(UPDATE, [at, *map(list, zip(*rows, strict=True))])
        return {(result, fence): price for result, fence, price in cursor}


def _row(claimed: Claim, outcome: Outcome, at: datetime, seal: Any) -> tuple[Any, ...]:
    took, started = _duration_ms(claimed, at), claimed.run_began_at
    tries, level = claimed.tries, RiskLevel.UNKNOWN.value
    match outcome:
        case Completed(score, finding):
            level = RiskLevel.of(score).value
            sealed = seal(finding, claimed.result_id)
            found = (tries, None, took, score, level, sealed)
            return (*claimed.key, "COMPLETED", *found, "", "", False, "", started)
        case Failed(code, message, retryable):
            took_only = (tries, None, took, None, level, None)
            why = (code, message, retryable, "")
            return (*claimed.key, "FAILED", *took_only, *why, started)
        case Retry(due, spent, queue):
            waits = (spent, due, None, None, level, None)
            # A check that only waited for its turn has not begun.
            since = None if claimed.is_first and not claimed.began_at else started
            return (*claimed.key, "RUNNING", *waits, "", "", False, queue, since)
        case Cancelled():
            nothing = (tries, None, None, None, level, None)
            return (*claimed.key, "CANCELLED", *nothing, "", "", False, "", started)


def _duration_ms(claimed: Claim, at: datetime) -> int:
    """Return the duration of the check, without the wait for its turn or for the others
    of its batch.
    """
    took = round(
        ((claimed.ended_at or at) - claimed.run_began_at) / timedelta(milliseconds=1)
    )
    # The column holds 25 days, and a check may wait for longer.
    return min(max(0, took), MAX_DURATION_MS)


def _end_calls(ended: Sequence[EndedCheck], at: datetime) -> None:
    """Record the ends of calls with their results, so a call without an end is one
    whose answer was lost.
    """
    read = [c.result_id for c, _ in ended if c.begun and c.begun.answer is not None]
    if read:
        erase_answers(read)
    calls = {c.call_id: call_end_of(outcome) for c, outcome in ended if c.call_id}
    if calls and (due := end_calls(calls, at)):
        CheckResult.objects.filter(pk__in=due, status=ResultStatus.RUNNING).update(
            next_attempt_at=at, turn_at=at
        )


def _reversals(
    mine: Iterable[EndedCheck],
    prices: Mapping[tuple[UUID, int], Any],
    reports: Mapping[UUID, Report],
) -> list[Movement]:
    """Return reversals for the checks that failed or were not begun."""
    given_back = [
        (claimed, reports[claimed.report.pk])
        for claimed, outcome in mine
        if isinstance(outcome, Failed | Cancelled) and prices[claimed.key]
    ]
    given_back = [
        (claimed, report)
        for claimed, report in given_back
        if report.payment_mode == PaymentMode.SELF
    ]
    accounts = accounts_of({report for _, report in given_back})
    return [
        Movement(
            accounts[report.workspace_id, report.environment],
            Kind.REVERSAL,
            prices[claimed.key],
            ENGINE,
            report.pk,
            claimed.result_id,
            claimed.attempt,
        )
        for claimed, report in given_back
    ]


def accounts_of(reports: Iterable[Report]) -> dict[tuple[UUID, str], UUID]:
    """Return the accounts that paid for these reports by (workspace, environment)."""
    workspaces = {report.workspace_id for report in reports}
    if not workspaces:
        return {}
    rows = Account.objects.filter(workspace__in=workspaces)
    return {
        (workspace, environment): account
        for account, workspace, environment in rows.values_list(
            "pk", "workspace_id", "environment"
        )
    }


def _comparisons(settled: Iterable[UpdatedReport], at: datetime) -> list[Rows]:
    """Return a job that compares the monitoring runs that have just ended."""
    runs = [s.report.pk for s in settled if s.event and s.report.monitoring_id]
    return [job_row(COMPARE, *runs, at=at)] if runs else []


def _check_events(
    mine: Iterable[EndedCheck],
    settled: Mapping[UUID, UpdatedReport],
    definitions: Definitions,
    at: datetime,
) -> list[NewEvent]:
    happenings = []
    for claimed, outcome in mine:
        if isinstance(outcome, Retry | Cancelled):
            continue
        report = settled[claimed.report.pk]
        happenings.append(
            check_event(
                report.report,
                report.stack,
                check_body(
                    definitions[claimed.definition_id],
                    claimed.result_id,
                    _outcome_body(claimed, outcome, at),
                ),
                attempt=claimed.attempt,
                consent_status=report.consent_status,
            )
        )
    return happenings


def _outcome_body(
    claimed: Claim, outcome: Completed | Failed, at: datetime
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "status": ResultStatus.COMPLETED.value,
        "riskLevel": RiskLevel.UNKNOWN.value,
        "riskScore": None,
        "summary": None,
        "flags": [],
        "details": {},
        "executedAt": utc_text(claimed.run_began_at),
        "durationMs": _duration_ms(claimed, at),
        "reused": claimed.reused_from_id is not None,
    }
    if isinstance(outcome, Completed):
        return body | {
            "riskLevel": RiskLevel.of(outcome.score).value,
            "riskScore": outcome.score,
            "summary": outcome.finding["summary"],
            "flags": outcome.finding["flags"],
            "details": outcome.finding["details"],
        }
    return body | _failure_body(outcome)


def _failure_body(failed: Failed) -> dict[str, Any]:
    return {
        "status": ResultStatus.FAILED.value,
        "summary": failed.message,
        "failure": {
            "code": failed.code,
            "message": failed.message,
            "retryable": failed.retryable,
        },
    }


@dataclass(frozen=True, slots=True)
class UpdatedReport:
    """A report after its checks were counted, and the event for it, if any."""

    report: Report
    stack: list[tuple[str, str, UUID]]
    consent_status: str
    event: NewEvent | None


@dataclass(slots=True)
class _CheckSummary:
    """The state of one report's checks, and of its consent."""

    stack: list[tuple[str, str, UUID]]
    consent_status: str = ConsentStatus.NOT_REQUIRED.value
    score: int | None = None
    # The sum over all checks. A retry raises it, so each end of a report has its own.
    runs: int = 0

    def count(self, status: str) -> int:
        return sum(1 for _, stands, _ in self.stack if stands == status)

    @property
    def is_ended(self) -> bool:
        ended = {ResultStatus.COMPLETED, ResultStatus.FAILED, ResultStatus.CANCELLED}
        return all(status in ended for _, status, _ in self.stack)


def update_reports(
    reports: Mapping[UUID, Report], at: datetime
) -> dict[UUID, UpdatedReport]:
    """Move each report to the status of its checks. The caller has locked the reports.

    A cancelled report stays cancelled.
    """
    standings = _summarize_checks(reports)
    moves, scored = [], []
    for pk, report in reports.items():
        if report.status in {ReportStatus.RUNNING, ReportStatus.PARTIAL}:
            step = _next_move(report, standings[pk], at)
            moves += [step] if step else []
            scored += [] if step else [report]
    apply_transitions(moves, at)
    _write_scores([r for r in scored if _update_score(r, standings[r.pk])], at)
    moved = {m.report.pk for m in moves}
    return {
        pk: UpdatedReport(
            report,
            standings[pk].stack,
            standings[pk].consent_status,
            _end_event(report, standings[pk])
            if pk in moved and report.is_ended
            else None,
        )
        for pk, report in reports.items()
    }


def _summarize_checks(reports: Mapping[UUID, Report]) -> dict[UUID, _CheckSummary]:
    standings: dict[UUID, _CheckSummary] = defaultdict(lambda: _CheckSummary([]))
    # A second query, because a consent that is read by the locking statement could be
    # older than the lock.
    rows = (
        CheckResult.objects.filter(report__in=list(reports))
        .order_by("report_id", "position")
        .values_list("report_id", "name", "status", "id", "score", "attempt")
        .annotate(consent_status=F("report__consent__status"))
    )
    for report_id, name, status, result_id, score, attempt, consent_status in rows:
        standing = standings[report_id]
        standing.consent_status = consent_status or standing.consent_status
        standing.stack.append((name, status, result_id))
        standing.runs += attempt
        if status == ResultStatus.COMPLETED and score is not None:
            # The worst finding decides, as an average would hide it.
            standing.score = max(score, standing.score or 0)
    return standings


def _next_move(
    report: Report, standing: _CheckSummary, at: datetime
) -> Transition | None:
    """Return the status change that is due, or None."""
    changes: dict[str, Any] = {
        "risk_score": standing.score,
        "risk_level": RiskLevel.of(standing.score).value,
    }
    if not standing.is_ended:
        none_ended = standing.count(ResultStatus.PENDING) + standing.count(
            ResultStatus.RUNNING
        ) == len(standing.stack)
        if none_ended or report.status == ReportStatus.PARTIAL:
            return None
        return Transition(report, ReportStatus.PARTIAL, CHECK_ENDED, "engine", changes)
    changes["completed_at"] = at
    completed, checks = standing.count(ResultStatus.COMPLETED), len(standing.stack)
    if completed == checks:
        return Transition(report, ReportStatus.READY, CHECK_ENDED, "engine", changes)
    changes["failure_code"] = "CHECKS_FAILED"
    changes["failure_message"] = (
        f"{checks - completed} of {checks} checks could not be completed."
    )
    target = ReportStatus.PARTIAL if completed else ReportStatus.FAILED
    return Transition(report, target, CHECK_ENDED, "engine", changes)


def _update_score(report: Report, standing: _CheckSummary) -> bool:
    """Update the report's score; return True if it changed."""
    changed = report.risk_score != standing.score
    report.risk_score = standing.score
    report.risk_level = RiskLevel.of(standing.score).value
    return changed


def _write_scores(reports: list[Report], at: datetime) -> None:
    if not reports:
        return
    rows = [(report.pk, report.risk_score, report.risk_level) for report in reports]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE reports_report r
            SET risk_score = u.score, risk_level = u.level, updated_at = %s
            FROM unnest(%s::uuid[], %s::smallint[], %s::text[]) AS u(id, score, level)
            WHERE r.id = u.id
            """,
            [at, *map(list, zip(*rows, strict=True))],
        )


def _end_event(report: Report, standing: _CheckSummary) -> NewEvent:
    ready = report.status == ReportStatus.READY
    return report_event(
        Event.Name.REPORT_READY if ready else Event.Name.REPORT_FAILED,
        f"{report.pk}:{standing.runs}",
        report,
        standing.stack,
        consent_status=standing.consent_status,
    )
