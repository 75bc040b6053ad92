"""Monitoring rules and alerts as they cross the wire."""

from __future__ import annotations

from typing import Any, Literal, Self
from uuid import UUID

from pydantic import StrictBool

from monitoring.models import (
    Alert,
    AlertKind,
    Cadence,
    CheckState,
    PauseReason,
    Rule,
    RuleStatus,
    Severity,
)
from verification.api.query import PageEnvelope, PageQuery
from verification.api.report_shapes import SubjectBody
from verification.reports.request import ConsentInput, RequestShape
from verification.values import formats
from verification.values.wire import Shape, Timestamp

NOT_STARTED = "The last run could not be started; it is tried again."


class RuleQuery(PageQuery):
    search: formats.text(200) | None = None  # type: ignore[valid-type]
    """Any part of the subject's name, or exactly its ID number, registration number,
    e-mail, the rule's reference or the rule's id."""


class AlertQuery(PageQuery):
    read: Literal["true", "false"] | None = None
    severity: Severity | None = None


class ResumeRequest(RequestShape):
    consent: ConsentInput | None = None
    """Needed where the subject withdrew consent: that it was given again."""


class AlertEdit(RequestShape):
    """What is left out stays."""

    read: StrictBool | None = None
    actioned: StrictBool | None = None


class ChangeBody(Shape):
    check_name: str
    field: str
    """riskLevel, flags (each with code and severity), or `details.` and the name of an
    output field. Members of a list in another order are no change."""
    old: Any
    new: Any


class AlertBody(Shape):
    id: UUID
    monitoring_id: UUID
    kind: AlertKind
    """CHANGE: a result changed. NO_ANSWER: a check failed in several runs in a row, so
    that nobody has looked; it has no changes."""
    title: str
    message: str
    severity: Severity
    read: bool
    actioned: bool
    report_id: UUID
    """The report of the run that raised it."""
    changes: list[ChangeBody]
    created_at: Timestamp

    @classmethod
    def of(cls, alert: Alert) -> Self:
        return cls(
            id=alert.pk,
            monitoring_id=alert.rule_id,
            kind=AlertKind(alert.kind),
            title=alert.title,
            message=alert.message,
            severity=Severity(alert.severity),
            read=alert.read,
            actioned=alert.actioned,
            report_id=alert.report_id,
            changes=[ChangeBody(**change) for change in alert.changes],
            created_at=alert.created_at,
        )


class AlertPage(PageEnvelope):
    content: list[AlertBody]


class RuleCheckBody(Shape):
    check_name: str
    last_completed_at: Timestamp | None = None
    """When it was last answered; null if it never was."""
    runs_without_answer: int
    """How many runs in a row it has failed since."""


class RuleBody(Shape):
    id: UUID
    subject: SubjectBody
    check_names: list[str]
    checks: list[RuleCheckBody]
    """Each check, and when it last completed."""
    cadence: Cadence
    status: RuleStatus
    pause_reason: PauseReason | None = None
    paused_at: Timestamp | None = None
    next_run_at: Timestamp | None = None
    """Null while the rule is paused."""
    launch_error: str | None = None
    """Not null while a run that is due could not be started; it is tried again."""
    reference: str | None = None
    recent_alerts: list[AlertBody]
    """The newest ten, newest first."""
    created_at: Timestamp

    @classmethod
    def of(cls, rule: Rule, alerts: list[Alert], checks: list[CheckState]) -> Self:
        return cls(
            id=rule.pk,
            subject=SubjectBody(**rule.subject),
            check_names=rule.check_names,
            checks=[
                RuleCheckBody(
                    check_name=check.name,
                    last_completed_at=check.completed_at,
                    runs_without_answer=check.unanswered,
                )
                for check in checks
            ],
            cadence=Cadence(rule.cadence),
            status=RuleStatus(rule.status),
            pause_reason=PauseReason(rule.pause_reason) if rule.pause_reason else None,
            paused_at=rule.paused_at,
            next_run_at=rule.next_run_at if rule.is_active else None,
            launch_error=NOT_STARTED
            if rule.is_active and rule.launch_failures
            else None,
            reference=rule.reference,
            recent_alerts=[AlertBody.of(alert) for alert in alerts],
            created_at=rule.created_at,
        )


class RulePage(PageEnvelope):
    content: list[RuleBody]
