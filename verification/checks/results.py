"""Record the outcomes of checks: results, reports, money and events in one transaction.

The outcomes of its checks decide a report's status, score and events.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection, transaction

from verification.checks.due_checks import Claim
from verification.checks.events import (
    CheckFailure,
    EventCheck,
    EventFailedCheck,
    check_event,
)
from verification.checks.models import CheckDefinition, CheckResult, ResultStatus
from verification.checks.next_results import delete_taken
from verification.db.base import reconnect, run_sql
from verification.jobs.claims import together_or_alone
from verification.jobs.names import JobName
from verification.jobs.queue import notify_on_commit, schedule_job
from verification.providers.base import Finding
from verification.reports.ends import Progress, follow_checks
from verification.reports.models import PaymentMode, Report, RiskLevel
from verification.reports.status import ENGINE, locked_reports
from verification.sources.calls import EndedCall, end_calls, erase_answers
from verification.sources.models import CallOutcome
from verification.values.clock import now
from verification.values.local_time import utc_text
from webhooks.events import NewEvent, event_rows
from workspaces.ledger import Kind, Movement, accounts_of, book

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Completed:
    """The source answered. `finding` is {summary, isWhole, flags, details, evidence}.

    It is None after an erasure of the subject.
    """

    score: int | None
    finding: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The check could not be done. `end` is the outcome of the source's call."""

    code: str
    message: str
    retryable: bool
    end: CallOutcome = field(default=CallOutcome.REFUSED, compare=False)
    may_be_charged: bool = field(default=False, compare=False)
    cause: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Retry:
    """There is no answer yet: the check is due again at this time.

    If `waits_for` names a source, the check is due when that source has room for it.
    """

    at: datetime
    tries: int
    waits_for: str = ""
    end: CallOutcome = field(default=CallOutcome.NOT_YET, compare=False)
    why: str = field(default="", compare=False)
    may_be_charged: bool = field(default=False, compare=False)
    cause: str = field(default="", compare=False)
    # The source's own id of the inquiry that it has accepted.
    job: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The report was cancelled or the consent withdrawn before the call."""


Outcome = Completed | Failed | Retry | Cancelled
EndedCheck = tuple[Claim, Outcome]
Definitions = Mapping[Any, CheckDefinition]
MAX_DURATION_MS = 2**31 - 1
# After this the leases of the checks end, and other workers claim them.
RECONNECT_SECONDS = 45

UPDATE = """
UPDATE checks_checkresult r
SET status = u.status, claims = 0, tries = u.tries, next_attempt_at = u.due,
    turn_at = COALESCE(u.due, r.turn_at), waits_for = u.waits_for,
    completed_at = CASE WHEN u.due IS NULL THEN %s END,
    started_at = u.started, duration_ms = u.duration, score = u.score,
    risk_level = u.level, finding = u.finding, failure_code = u.code,
    failure_message = u.message, failure_retryable = u.retryable,
    reused_from_id = u.reused_from
FROM unnest(
    %s::uuid[], %s::int[], %s::text[], %s::smallint[], %s::timestamptz[],
    %s::timestamptz[], %s::int[], %s::smallint[], %s::text[], %s::bytea[], %s::text[],
    %s::text[], %s::bool[], %s::text[], %s::uuid[]
) AS u(id, fence, status, tries, started, due, duration, score, level, finding, code,
    message, retryable, waits_for, reused_from)
WHERE r.id = u.id AND r.fence = u.fence AND r.status = 'RUNNING'
RETURNING r.id, r.fence, r.price
"""


def completed_with(found: Finding, not_told: Sequence[str] = ()) -> Completed:
    """Return the outcome; `not_told` are output fields that the source never has."""
    return Completed(
        found.score,
        {
            "summary": found.summary,
            "isWhole": found.is_whole,
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
        case Failed(code=code, end=end, may_be_charged=charged, cause=cause):
            return EndedCall(end, code, charged, cause=cause)
        case Retry(end=end, why=why, may_be_charged=charged, job=job, cause=cause):
            return EndedCall(end, why, charged, job, cause)
    return EndedCall(CallOutcome.ANSWERED)


def record_outcomes(ended: Sequence[EndedCheck], definitions: Definitions) -> None:
    """Record these outcomes in one transaction, or one by one if that fails.

    One by one, a bad row does not stop the others. It is claimed again until the engine
    gives it up. While the database is away the outcomes wait for it: an answer that is
    not recorded may have to be paid for again.
    """
    together_or_alone(
        "recording of checks",
        lambda together: _record_when_back(together, definitions),
        ended,
        key=lambda one: one[0].result_id,
        alone=lambda one: _record([one], definitions),
    )


def _record_when_back(ended: Sequence[EndedCheck], definitions: Definitions) -> None:
    """Record the outcomes; if the database is away, wait for it and try once more."""
    try:
        _record(ended, definitions)
    except (OperationalError, InterfaceError):
        is_lost = not (connection.in_atomic_block or connection.is_usable())
        if not (is_lost and reconnect(RECONNECT_SECONDS)):
            raise
        # If the first transaction did commit, this one finds nothing to do.
        _record(ended, definitions)


@transaction.atomic
def _record(ended: Sequence[EndedCheck], definitions: Definitions) -> None:
    at = now()
    reports = _lock({c.report.pk for c, o in ended if not isinstance(o, Retry)})
    erased = {pk for pk, report in reports.items() if report.erased_at}
    # Drop the finding about an erased subject. The check ends and stays billed.
    ended = [
        (c, _without_finding(o)) if c.report.pk in erased else (c, o) for c, o in ended
    ]
    prices = _update(ended, at)
    recorded = [(c, o) for c, o in ended if c.key in prices]
    _end_calls(recorded, at)
    delete_taken(c for c, o in recorded if not isinstance(o, Retry))
    # A re-run changes its own row only, until a reviewer accepts it.
    ended_reruns = [
        c.result_id for c, o in recorded if c.is_rerun and not isinstance(o, Retry)
    ]
    if ended_reruns:
        schedule_job(JobName.NOTIFY_REVIEWERS, *ended_reruns)
    final = [(c, o) for c, o in recorded if c.report.pk in reports and not c.is_rerun]
    if not final:
        return
    own = {c.report.pk: reports[c.report.pk] for c, _ in final}
    progress, report_events, jobs = follow_checks(own, at)
    movements = _reversals(final, prices, reports)
    silent = {pk for pk, report in reports.items() if report.restricted_at} | erased
    told = [(c, o) for c, o in final if c.report.pk not in silent]
    events = _check_events(told, progress, definitions, at)
    book(movements, at, event_rows([*events, *report_events], at), jobs)
    notify_on_commit()


def _without_finding(outcome: Outcome) -> Outcome:
    if isinstance(outcome, Completed):
        return Completed(None, None)
    return replace(outcome, message="") if isinstance(outcome, Failed) else outcome


def _lock(report_ids: set[UUID]) -> dict[UUID, Report]:
    """Lock the reports until the commit: the last check to end sees all others."""
    reports = locked_reports().filter(pk__in=report_ids).order_by("pk")
    return {report.pk: report for report in reports} if report_ids else {}


def _update(ended: Sequence[EndedCheck], at: datetime) -> dict[tuple[UUID, int], Any]:
    """Write the results whose fence is current; return their prices by claim key."""
    rows = [_result_row(claimed, outcome, at) for claimed, outcome in ended]
    # Sorted, as an objection may lock the same results at this moment. PostgreSQL
    # follows this order where the table is large.
    rows.sort(key=lambda row: row.id)
    updated = run_sql(UPDATE, [at, *map(list, zip(*rows, strict=True))])
    return {(result, fence): price for result, fence, price in updated}


class _ResultRow(NamedTuple):
    """The values of one result, in the order of the parameters of `UPDATE`."""

    id: UUID
    fence: int
    status: str
    tries: int
    started: datetime | None
    due: datetime | None = None
    duration: int | None = None
    score: int | None = None
    level: str = RiskLevel.UNKNOWN.value
    finding: bytes | None = None
    code: str = ""
    message: str = ""
    retryable: bool = False
    waits_for: str = ""
    reused_from: UUID | None = None


def _result_row(claimed: Claim, outcome: Outcome, at: datetime) -> _ResultRow:
    row = _ResultRow(
        *claimed.key,
        "CANCELLED",
        claimed.tries,
        claimed.run_began_at,
        reused_from=claimed.reused_from_id,
    )
    match outcome:
        case Completed(score, finding):
            seal = CheckResult._meta.get_field("finding").seal
            return row._replace(
                status="COMPLETED",
                duration=_duration_ms(claimed, at),
                score=score,
                level=RiskLevel.of(score).value,
                finding=seal(finding, claimed.result_id),
            )
        case Failed(code, message, retryable):
            return row._replace(
                status="FAILED",
                duration=_duration_ms(claimed, at),
                code=code,
                message=message,
                retryable=retryable,
            )
        case Retry(due, tries, waits_for):
            # A check that only waited for its turn has not begun.
            has_begun = claimed.began_at or not claimed.is_first
            return row._replace(
                status="RUNNING",
                tries=tries,
                started=row.started if has_begun else None,
                due=due,
                waits_for=waits_for,
            )
    return row


def _duration_ms(claimed: Claim, at: datetime) -> int:
    """Return the duration without the waits for the check's turn and for its batch."""
    took = (claimed.ended_at or at) - claimed.run_began_at
    # The column holds 25 days, and a check may wait for longer.
    return min(max(0, round(took / timedelta(milliseconds=1))), MAX_DURATION_MS)


def _end_calls(ended: Sequence[EndedCheck], at: datetime) -> None:
    """Record the ends of the calls.

    It is done together with the results, so a call without an end is one whose answer
    was lost.
    """
    read = [c.result_id for c, _ in ended if c.begun and c.begun.answer is not None]
    if read:
        erase_answers(read)
    calls = {c.call_id: call_end_of(outcome) for c, outcome in ended if c.call_id}
    if calls and (due := end_calls(calls, at)):
        CheckResult.every.filter(pk__in=due, status=ResultStatus.RUNNING).update(
            next_attempt_at=at, turn_at=at
        )


def _reversals(
    ended: Iterable[EndedCheck],
    prices: Mapping[tuple[UUID, int], Any],
    reports: Mapping[UUID, Report],
) -> list[Movement]:
    """Return reversals for the checks that failed or were not begun."""
    refunded = [
        (claimed, reports[claimed.report.pk])
        for claimed, outcome in ended
        if isinstance(outcome, Failed | Cancelled)
        and prices[claimed.key]
        and reports[claimed.report.pk].payment_mode == PaymentMode.SELF
    ]
    accounts = accounts_of(report for _, report in refunded)
    return [
        Movement(
            accounts[report.workspace_id, report.environment].pk,
            Kind.REVERSAL,
            prices[claimed.key],
            ENGINE,
            report.pk,
            claimed.result_id,
            claimed.attempt,
        )
        for claimed, report in refunded
    ]


def _check_events(
    ended: Iterable[EndedCheck],
    progress: Mapping[UUID, Progress],
    definitions: Definitions,
    at: datetime,
) -> list[NewEvent]:
    events = []
    for claimed, outcome in ended:
        if isinstance(outcome, Retry | Cancelled):
            continue
        state = progress[claimed.report.pk]
        definition = definitions[claimed.definition_id]
        event = check_event(
            state.report,
            state.stack,
            _event_check(definition, claimed, outcome, at),
            attempt=claimed.attempt,
            consent_status=state.consent_status,
        )
        events.append(event)
    return events


def _event_check(
    definition: CheckDefinition,
    claimed: Claim,
    outcome: Completed | Failed,
    at: datetime,
) -> EventCheck:
    members: dict[str, Any] = {
        "executed_at": claimed.run_began_at,
        "duration_ms": _duration_ms(claimed, at),
        "reused": claimed.reused_from_id is not None,
    }
    if isinstance(outcome, Failed):
        return EventFailedCheck.of(
            definition,
            claimed.result_id,
            status=ResultStatus.FAILED,
            risk_level=RiskLevel.UNKNOWN,
            risk_score=None,
            summary=outcome.message,
            flags=[],
            details={},
            failure=CheckFailure.from_row(outcome),
            **members,
        )
    # An erased report, whose finding is None, has no events.
    finding: dict[str, Any] = outcome.finding or {}
    return EventCheck.of(
        definition,
        claimed.result_id,
        status=ResultStatus.COMPLETED,
        risk_level=RiskLevel.of(outcome.score),
        risk_score=outcome.score,
        summary=finding["summary"],
        flags=finding["flags"],
        details=finding["details"],
        **members,
    )
