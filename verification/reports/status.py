"""The one place where a report changes its status, and the errors of its verbs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection

from verification.db.ids import uuid7
from verification.reports.models import InvalidTransition, Report, StatusChange


class NotLaunchable(Exception):
    """`reasons`: CONSENT_OUTSTANDING, PAYMENT_OUTSTANDING, NOT_A_DRAFT."""

    def __init__(self, status: str, reasons: Sequence[str]) -> None:
        super().__init__(f"A report that is {status} cannot be launched now.")
        self.status, self.reasons = status, list(reasons)


class NotEditable(Exception):
    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class NotCancellable(Exception):
    def __init__(self, status: str) -> None:
        super().__init__(f"A report that is {status} has ended and stays as it is.")
        self.status = status


class NotRetryable(Exception):
    def __init__(self, status: str, message: str = "") -> None:
        super().__init__(
            message
            or f"A report that is {status} has no failed check that could be run "
            "again; retry works on an ended report with failed checks."
        )
        self.status = status


# The actor of what the subject does on the hosted page
SUBJECT_ACTOR = "subject"
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
