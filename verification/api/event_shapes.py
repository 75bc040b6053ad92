"""What the events say, for the OpenAPI document: nothing is rendered from these.

`verification.checks.events` renders what happens to reports and checks; tests compare
the two.
"""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

from verification.api.report_shapes import (
    CheckFailure,
    Failure,
    FlagBody,
    PaymentState,
    Score,
)
from verification.consents.models import ConsentStatus
from verification.reports.models import PaymentMode, RiskLevel, SubjectType
from verification.values.wire import Shape, Timestamp

PublicStatus = Literal[
    "DRAFT",
    "PENDING_CONSENT",
    "PENDING_PAYMENT",
    "PROCESSING",
    "PARTIAL",
    "READY",
    "FAILED",
    "CANCELLED",
]


class EventCheckStackItem(Shape):
    check_name: str
    status: str
    check_result_id: UUID


class EventReport(Shape):
    """The report in short; read the whole of it with its id."""

    id: UUID
    workspace_id: UUID
    status: PublicStatus
    """PROCESSING until every check has ended; PARTIAL when only some completed."""
    created_at: Timestamp
    self_verification: bool
    """True when the workspace is an individual's account."""
    payment_mode: PaymentMode
    consent_status: ConsentStatus
    checks_requested: list[str]
    check_stack: list[EventCheckStackItem]


class EventSubject(Shape):
    id: UUID
    """The same for the same person or company in every report."""
    type: SubjectType


class ReportEventData(Shape):
    workspace_id: UUID
    report: EventReport
    subject: EventSubject
    report_id: UUID


class ReportData(ReportEventData):
    risk_score: Score | None
    risk_level: RiskLevel


class ReportFailedData(ReportData):
    failure: Failure


class EventCheck(Shape):
    id: UUID
    result_id: UUID
    """The same as the id."""
    definition_id: UUID
    type: str
    name: str
    display_name: str
    description: str
    category: str
    status: Literal["COMPLETED", "FAILED"]
    risk_level: RiskLevel
    risk_score: Score | None
    summary: str
    flags: list[FlagBody]
    details: dict[str, Any]
    """The fields that the check definition's outputFields name; personal data."""
    executed_at: Timestamp
    duration_ms: int
    reused: bool


class EventFailedCheck(EventCheck):
    failure: CheckFailure


class CheckData(ReportEventData):
    check: EventCheck
    check_id: UUID
    check_result_id: UUID
    check_type: str
    check_name: str
    check_definition_id: UUID
    status: Literal["COMPLETED", "FAILED"]
    risk_level: RiskLevel
    risk_score: Score | None


class CheckFailedData(CheckData):
    check: EventFailedCheck


class EventReference(Shape):
    id: UUID
    referee_name: str
    submitted_at: Timestamp


class ReferenceData(ReportEventData):
    check_result_id: UUID
    reference: EventReference


class AlertChange(Shape):
    check_name: str
    field: str
    old: Any
    new: Any


class EventAlert(Shape):
    id: UUID
    kind: Literal["CHANGE", "NO_ANSWER"]
    title: str
    message: str
    severity: Literal["INFO", "WARNING", "CRITICAL"]
    read: bool
    actioned: bool
    report_id: UUID
    changes: list[AlertChange]
    created_at: Timestamp


class AlertData(Shape):
    workspace_id: UUID
    monitoring_id: UUID
    report_id: UUID
    subject: EventSubject
    alert: EventAlert


class PaidData(ReportEventData):
    payment: PaymentState


class TestData(Shape):
    workspace_id: UUID
    test: Literal[True]
    message: str


class Envelope(Shape):
    """The body of a delivery."""

    timestamp: Timestamp
    """When the event was raised; the same on every attempt."""


class ReportCreatedEvent(Envelope):
    event: Literal["report.created"]
    data: ReportData


class ReportReadyEvent(Envelope):
    event: Literal["report.ready"]
    data: ReportData


class ReportFailedEvent(Envelope):
    event: Literal["report.failed"]
    data: ReportFailedData


class CheckCompletedEvent(Envelope):
    event: Literal["check.completed"]
    data: CheckData


class CheckFailedEvent(Envelope):
    event: Literal["check.failed"]
    data: CheckFailedData


class ReferenceSubmittedEvent(Envelope):
    event: Literal["reference.submitted"]
    data: ReferenceData


class MonitoringAlertCreatedEvent(Envelope):
    event: Literal["monitoring.alert.created"]
    data: AlertData


class PaymentPaidEvent(Envelope):
    event: Literal["payment.paid"]
    data: PaidData


class WebhookTestEvent(Envelope):
    event: Literal["webhook.test"]
    data: TestData


EVENTS: dict[str, type[Envelope]] = {
    "report.created": ReportCreatedEvent,
    "report.ready": ReportReadyEvent,
    "report.failed": ReportFailedEvent,
    "check.completed": CheckCompletedEvent,
    "check.failed": CheckFailedEvent,
    "reference.submitted": ReferenceSubmittedEvent,
    "monitoring.alert.created": MonitoringAlertCreatedEvent,
    "payment.paid": PaymentPaidEvent,
    "webhook.test": WebhookTestEvent,
}
