"""The one place where a report changes its status; its lock, and the verbs' errors."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from verification.consents.models import Consent
from verification.db.base import run_sql
from verification.db.bulk_insert import Statement
from verification.db.ids import uuid7
from verification.payments.models import Payment
from verification.references.models import Reference
from verification.reports.models import Report, StatusChange
from workspaces.models import Client

Row = TypeVar("Row", Consent, Payment, Reference)

# The actor of what the subject does on the hosted page
SUBJECT_ACTOR = "subject"
# The actor and the trigger of moves that follow from checks
ENGINE = "engine"
CHECK_ENDED = "check ended"
# Columns that may change together with the status, and their types
CHANGEABLE = {
    "launched_at": "timestamptz",
    "completed_at": "timestamptz",
    "risk_score": "smallint",
    "risk_level": "text",
    "failure_code": "text",
    "failure_message": "text",
}
ARRAYS = ["uuid", "uuid", "text", "text", "text", "text", *CHANGEABLE.values()]
ASSIGNMENTS = ", ".join(f"{name} = m.{name}" for name in CHANGEABLE)

TRANSITION_SQL = f"""
WITH move AS (
    SELECT * FROM unnest({", ".join(f"%s::{kind}[]" for kind in ARRAYS)})
        AS m(change_id, id, source, target, trigger, actor, {", ".join(CHANGEABLE)})
), moved AS (
    UPDATE reports_report r
    SET status = m.target, updated_at = %s, {ASSIGNMENTS}
    FROM move m WHERE r.id = m.id AND r.status = m.source
    RETURNING r.id
)
INSERT INTO reports_statuschange
    (id, report_id, source, target, trigger, actor, created_at)
SELECT m.change_id, m.id, m.source, m.target, m.trigger, m.actor, %s
FROM move m JOIN moved USING (id)
"""  # noqa: S608


# The name of the constraint that `refuse_objected` reports
OBJECTIONS_ARE_READ = "objections_are_read"


class StatusRefusal(Exception):
    """The report's status, or what belongs to it, does not allow the verb."""

    message = ""

    def __init__(self, status: str, message: str = "") -> None:
        super().__init__(message or self.message.format(status=status))
        self.status = status


class InvalidTransition(Exception):
    """The report cannot move from its status to this one."""

    def __init__(self, source: str, target: str) -> None:
        super().__init__(f"A report that is {source} cannot become {target}.")
        self.source, self.target = source, target


class ConsentGap(StrEnum):
    """Why the consent of a draft is outstanding, and the way out."""

    NOT_NAMED = (
        "The draft names no consent, and a check needs it: edit the draft with one."
    )
    NOT_ATTESTED = (
        "The consent is not obtained yet: edit the draft with consent.obtained true, "
        "and when and how, once you have it."
    )
    UNANSWERED = "The subject has not agreed yet: send the subject the consentUrl."
    EXPIRED = (
        "The subject did not answer in time: POST /reports/{id}/consent/resend sends "
        "another link."
    )
    REFUSED = (
        "The subject has declined or withdrawn: edit the draft with a consent to ask "
        "again."
    )
    OBJECTED = (
        "The subject objected after the consent was given: edit the draft with a newer "
        "one."
    )


class LaunchObstacle(StrEnum):
    CONSENT_OUTSTANDING = "CONSENT_OUTSTANDING"
    PAYMENT_OUTSTANDING = "PAYMENT_OUTSTANDING"
    NOT_A_DRAFT = "NOT_A_DRAFT"


class NotLaunchable(StatusRefusal):
    """`consent_gap` says why the consent is outstanding, if it is."""

    message = "A report that is {status} cannot be launched now."

    def __init__(
        self,
        status: str,
        reasons: Sequence[LaunchObstacle],
        consent_gap: ConsentGap | None = None,
    ) -> None:
        super().__init__(status)
        self.reasons, self.consent_gap = list(reasons), consent_gap


class NotEditable(StatusRefusal):
    pass


class NotCancellable(StatusRefusal):
    message = "A report that is {status} has ended and stays as it is."


class NotRetryable(StatusRefusal):
    message = (
        "A report that is {status} has no failed check that could be run again; retry "
        "works on an ended report with failed checks."
    )


def lock_person(*subject_ids: UUID) -> None:
    """Let verbs about one person wait for each other until their commit.

    Takes the ids of all their numbers, and locks them in one order. It comes before the
    locks of rules and reports.
    """
    names = [f"person:{subject_id}" for subject_id in sorted(set(subject_ids))]
    run_sql(
        "SELECT pg_advisory_xact_lock(hashtextextended(name, 0)) "
        "FROM unnest(%s::text[]) AS name",
        [names],
    )


def lock_orders(
    workspace_id: UUID, environment: str, *, for_objection: bool = False
) -> None:
    """Let orders and objections of a client wait for each other until their commit.

    Orders with an attested consent share the lock, so that they see each objection, or
    it sees them. It comes after `lock_person`, and before the locks of rules, reports
    and accounts.
    """
    function = "pg_advisory_xact_lock" + ("" if for_objection else "_shared")
    run_sql(
        f"SELECT {function}(hashtextextended(%s, 0))",
        [orders_lock(workspace_id, environment)],
    )


def orders_lock(workspace_id: UUID, environment: str) -> str:
    return f"orders:{workspace_id}:{environment}"


def refuse_objected(attested: Mapping[str, list[UUID]]) -> Statement | None:
    """Return the statement that breaks OBJECTIONS_ARE_READ if a subject has objected.

    Takes ids of subjects by `orders_lock`. The statement shares these locks until the
    commit; it waits for none, and fails while an objection holds one.
    """
    if not attested:
        return None
    ids = [subject_id for ids in attested.values() for subject_id in ids]
    return Statement("SELECT reports_refuse_objected(%s, %s)", [list(attested), ids])


def locked_reports() -> QuerySet[Report]:
    """Return reports that are locked when they are read, with their workspaces.

    Read consent and payment after the lock, never in the same query: PostgreSQL reads
    joined rows as they were before it waited for the lock.
    """
    reports = Report.objects.select_related("workspace")
    # Like the lock of an UPDATE, it lets others insert rows that refer to the report.
    return reports.select_for_update(of=("self",), no_key=True)


def lock_report(client: Client, report_id: UUID) -> Report:
    """Return the client's report, locked. Raises Report.DoesNotExist."""
    return locked_reports().get(pk=report_id, **client.lookups)


def lock_reports(client: Client, report_ids: Collection[UUID]) -> list[Report]:
    """Return the client's reports by their ids, locked. Raises Report.DoesNotExist."""
    found = locked_reports().filter(pk__in=report_ids, **client.lookups)
    reports = list(found.order_by("pk"))
    if len(reports) < len(report_ids):
        raise Report.DoesNotExist
    return reports


def lock_with_report(model: type[Row], row_id: UUID) -> tuple[Report, Row]:
    """Lock a report, then its consent, payment or reference with this id.

    Raises the model's DoesNotExist if an edit of the draft has replaced the row.
    """
    report_id = model.objects.values_list("report_id", flat=True).get(pk=row_id)
    report = locked_reports().get(pk=report_id)
    row = model.objects.select_for_update(no_key=True).get(pk=row_id)
    # A report has one consent and one payment: this sets its side of them as well.
    row.report = report
    return report, row


@dataclass(frozen=True, slots=True)
class Transition:
    """A report's move to `target`; `changes` are new values of CHANGEABLE columns."""

    report: Report
    target: str
    trigger: str
    actor: str
    changes: dict[str, Any] = field(default_factory=dict)


def apply_transitions(moves: Sequence[Transition], at: datetime) -> None:
    """Move the reports and record the moves; update the given instances too.

    The statement moves a report only from the status that it was read with, so one of
    two concurrent callers fails. Raises InvalidTransition if any move fails.
    """
    if not moves:
        return
    for m in moves:
        if m.target not in Report.TRANSITIONS.get(m.report.status, ()):
            raise InvalidTransition(m.report.status, m.target)
    rows = [_row(m) for m in moves]
    with connection.cursor() as cursor:
        cursor.execute(TRANSITION_SQL, [*map(list, zip(*rows, strict=True)), at, at])
        if cursor.rowcount != len(moves):
            # A concurrent caller moved one of them. The exception rolls back the rest.
            raise InvalidTransition(moves[0].report.status, moves[0].target)
    for m in moves:
        m.report.status, m.report.updated_at = m.target, at


def record_note(report: Report, trigger: str, actor: str, at: datetime) -> None:
    """Record a note in the report's timeline, without a change of status."""
    StatusChange.objects.create(
        report=report,
        source=report.status,
        target=report.status,
        trigger=trigger,
        actor=actor,
        created_at=at,
    )


def _row(m: Transition) -> tuple[Any, ...]:
    for name, value in m.changes.items():
        setattr(m.report, name, value)
    return (
        uuid7(),
        m.report.pk,
        m.report.status,
        m.target,
        m.trigger,
        m.actor,
        *(getattr(m.report, name) for name in CHANGEABLE),
    )
