"""Events about reports, checks, references, payments and decisions: shapes and makers.

The OpenAPI document describes these shapes, and its examples come from these functions.
"""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, Self, get_args
from uuid import UUID

from pydantic import Field

from verification import links
from verification.checks.catalogue import CheckName
from verification.checks.models import CheckDefinition
from verification.consents.models import (
    Consent,
    ConsentStatus,
    is_consent_refused,
)
from verification.decisions.models import Decision, DecisionStatus, MakerKind
from verification.payments.models import PAYABLE_STATUSES, Payment, PaymentStatus
from verification.references.models import Reference
from verification.reports.models import (
    PaymentMode,
    Report,
    ReportStatus,
    RiskLevel,
    SubjectType,
)
from verification.values.clock import now
from verification.values.shapes import CURRENCY, Money, Shape, Timestamp, enumeration
from webhooks.events import NewEvent
from webhooks.models import Event
from workspaces.models import Workspace

# (check name, status, result id) of each of a report's checks, in its order
CheckStack = Iterable[tuple[str, str, UUID]]
Score = Annotated[int, Field(ge=0, le=100)]


class FlagBody(Shape):
    """An adverse finding."""

    code: str
    severity: str
    """LOW, MEDIUM or HIGH."""
    message: str


class Failure(Shape):
    """Why something could not be completed."""

    code: str
    message: str


class CheckFailure(Failure):
    """Why a check could not be done, and whether running it again can help."""

    retryable: bool


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
EndedStatus = Annotated[
    Literal["COMPLETED", "FAILED"],
    enumeration("EndedCheckStatus", ["COMPLETED", "FAILED"]),
]


class EventCheckStackItem(Shape):
    check_name: CheckName
    status: str
    check_result_id: UUID


class EventReport(Shape):
    """The report in short; read the whole of it with its id."""

    id: UUID
    workspace_id: UUID
    status: Annotated[
        PublicStatus, enumeration("EventReportStatus", get_args(PublicStatus))
    ]
    """PROCESSING until every check has ended; PARTIAL when only some completed."""
    created_at: Timestamp
    self_verification: bool
    """True when the workspace is an individual's account."""
    payment_mode: PaymentMode
    consent_status: ConsentStatus
    checks_requested: list[CheckName]
    package: str | None
    """The package that it was ordered by; its checks may have changed since."""
    reference: str | None
    """The client's own id of this report."""
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

    @classmethod
    def about(
        cls, report: Report, stack: CheckStack, consent_status: str, **members: Any
    ) -> Self:
        """Make the data; a risk that is not given is the report's."""
        is_running = report.status == ReportStatus.RUNNING or (
            report.status == ReportStatus.PARTIAL and not report.is_ended
        )
        brief = EventReport.from_row(
            report,
            status="PROCESSING" if is_running else report.status,
            self_verification=report.workspace.kind == Workspace.Kind.INDIVIDUAL,
            consent_status=consent_status,
            check_stack=[
                EventCheckStackItem(check_name=name, status=status, check_result_id=pk)
                for name, status, pk in stack
            ],
        )
        subject = EventSubject(
            id=report.subject_id, type=SubjectType(report.subject_type)
        )
        return cls.from_row(
            report, report=brief, subject=subject, report_id=report.pk, **members
        )


class ReportData(ReportEventData):
    risk_score: Score | None
    risk_level: RiskLevel


class ReportFailedData(ReportData):
    failure: Failure

    @classmethod
    def about(cls, report: Report, *args: Any, **members: Any) -> Self:
        failure = Failure(code=report.failure_code, message=report.failure_message)
        return super().about(report, *args, failure=failure, **members)


Details = Annotated[dict[str, Any], Field(title="Details")]


class EventCheck(Shape):
    id: UUID
    result_id: UUID
    """The same as the id."""
    definition_id: UUID
    type: CheckName
    name: CheckName
    display_name: str
    description: str
    category: str
    status: EndedStatus
    risk_level: RiskLevel
    risk_score: Score | None
    summary: str
    flags: list[FlagBody]
    details: Details
    """The fields that the check definition's outputFields name; personal data."""
    executed_at: Timestamp
    duration_ms: int
    reused: bool

    @classmethod
    def of(cls, definition: CheckDefinition, result_id: UUID, **outcome: Any) -> Self:
        return cls.from_row(
            definition,
            id=result_id,
            result_id=result_id,
            definition_id=definition.pk,
            type=definition.name,
            **outcome,
        )


class EventFailedCheck(EventCheck):
    failure: CheckFailure


class CheckData(ReportEventData):
    check: EventCheck
    check_id: UUID
    check_result_id: UUID
    check_type: CheckName
    check_name: CheckName
    check_definition_id: UUID
    status: EndedStatus
    risk_level: RiskLevel
    risk_score: Score | None

    @classmethod
    def of(
        cls, report: Report, stack: CheckStack, consent_status: str, check: EventCheck
    ) -> Self:
        return cls.about(
            report,
            stack,
            consent_status,
            check=check,
            check_id=check.id,
            check_result_id=check.id,
            check_type=check.type,
            check_name=check.name,
            check_definition_id=check.definition_id,
            status=check.status,
            risk_level=check.risk_level,
            risk_score=check.risk_score,
        )


class CheckFailedData(CheckData):
    check: EventFailedCheck


class EventReference(Shape):
    id: UUID
    referee_name: str
    submitted_at: Timestamp


class ReferenceData(ReportEventData):
    check_result_id: UUID
    reference: EventReference


class PaymentState(Shape):
    status: PaymentStatus
    amount: Money | None = None
    """The price of the report; for a draft, the price if it were launched now."""
    paid_at: Timestamp | None = None
    payment_url: str | None = None
    """The link for the payer, while the payment can be made."""
    expires_at: Timestamp | None = None
    """The end of the time to pay; null until the subject has consented."""

    @classmethod
    def of(cls, payment: Payment | None, report: Report, total: Decimal) -> Self:
        if payment is None or payment.status == PaymentStatus.NOT_REQUIRED:
            return cls(
                status=PaymentStatus.NOT_REQUIRED,
                amount=Money(amount=total, currency=CURRENCY),
            )
        in_time = payment.expires_at is not None and payment.expires_at > now()
        is_asked = payment.is_outstanding and report.status in PAYABLE_STATUSES
        is_payable = in_time and is_asked and not is_consent_refused(report)
        return cls(
            status=PaymentStatus(payment.status),
            amount=Money(amount=payment.amount, currency=payment.currency),
            paid_at=payment.paid_at,
            payment_url=links.payment_url(payment.pk, payment.generation)
            if is_payable
            else None,
            # The time to pay begins when the payer gets the link.
            expires_at=None
            if report.status == ReportStatus.PENDING_CONSENT
            else payment.expires_at,
        )


class PaidData(ReportEventData):
    payment: PaymentState


class EventDecision(Shape):
    """The decision in short; the list of the report's decisions has its note."""

    id: UUID
    status: DecisionStatus
    reason_codes: list[str]
    made_by: MakerKind
    confirmed_by_second: bool
    """Whether a second member has confirmed it."""
    decided_at: Timestamp


class DecisionData(ReportEventData):
    decision: EventDecision
    risk_score: Score | None
    risk_level: RiskLevel


def report_event(
    name: Event.Name,
    cause: str,
    report: Report,
    stack: CheckStack,
    *,
    consent_status: str,
) -> NewEvent:
    """Make report.created, report.ready or report.failed."""
    shape = ReportFailedData if name == Event.Name.REPORT_FAILED else ReportData
    data = shape.about(report, stack, consent_status)
    return new_event(name, cause, report, data)


def check_event(
    report: Report,
    stack: CheckStack,
    check: EventCheck,
    *,
    attempt: int,
    consent_status: str,
) -> NewEvent:
    """Make check.completed or check.failed."""
    is_failed = isinstance(check, EventFailedCheck)
    name = Event.Name.CHECK_FAILED if is_failed else Event.Name.CHECK_COMPLETED
    shape = CheckFailedData if is_failed else CheckData
    data = shape.of(report, stack, consent_status, check)
    return new_event(name, f"{check.id}:{attempt}", report, data)


def reference_event(
    report: Report,
    stack: CheckStack,
    reference: Reference,
    *,
    referee_name: str,
    submitted_at: datetime,
    consent_status: str,
) -> NewEvent:
    """Make reference.submitted."""
    submitted = EventReference(
        id=reference.pk, referee_name=referee_name, submitted_at=submitted_at
    )
    data = ReferenceData.about(
        report,
        stack,
        consent_status,
        check_result_id=reference.result_id,
        reference=submitted,
    )
    name = Event.Name.REFERENCE_SUBMITTED
    return new_event(name, str(reference.pk), report, data)


def decision_event(report: Report, stack: CheckStack, decision: Decision) -> NewEvent:
    """Make report.decided for a final decision."""
    brief = EventDecision.from_row(
        decision,
        reason_codes=decision.codes or [],
        made_by=decision.made_by_kind,
        confirmed_by_second=decision.needs_second,
        decided_at=decision.final_at,
    )
    data = DecisionData.about(report, stack, consent_status_of(report), decision=brief)
    return new_event(Event.Name.REPORT_DECIDED, str(decision.pk), report, data)


def payment_event(report: Report, stack: CheckStack, payment: Payment) -> NewEvent:
    """Make payment.paid."""
    state = PaymentState.of(payment, report, payment.amount)
    data = PaidData.about(report, stack, consent_status_of(report), payment=state)
    return new_event(Event.Name.PAYMENT_PAID, str(payment.pk), report, data)


def consent_status_of(report: Report) -> str:
    """Return the consent status of a stored report."""
    consent = getattr(report, "consent", None)
    needing = report.results.filter(definition__requires_consent=True)
    # A launched report has the consent that its checks need.
    is_needed = not consent and report.launched_at is None and needing.exists()
    return consent_status(consent, is_needed=is_needed)


def consent_status(consent: Consent | None, *, is_needed: bool) -> str:
    """Return the status of a consent, or of a draft that names none yet."""
    if consent:
        return str(consent.status)
    status = ConsentStatus.PENDING if is_needed else ConsentStatus.NOT_REQUIRED
    return status.value


def new_event(name: Event.Name, cause: str, report: Report, data: Shape) -> NewEvent:
    return NewEvent(
        name, cause, report.workspace_id, report.environment, report.pk, data
    )
