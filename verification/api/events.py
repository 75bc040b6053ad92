"""The description of every event: what its body holds, and an example of it.

The OpenAPI document is made from this module. Tests compare it with what the service
renders (`verification.checks.events`, `monitoring.alerts`, `webhooks.redelivery`) and
with `docs/client/webhooks.md`.
"""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiResponse,
    OpenApiWebhook,
    extend_schema,
)
from pydantic import create_model

from verification.api.examples import (
    CORRECTION,
    CREATED_AT,
    DECIDED_AT,
    DECISION,
    DEFINITION_ID,
    ENDED_AT,
    ERASURE,
    REPORT_ID,
    RESULT,
    RESULT_ID,
    SUBJECT_ID,
    WORKSPACE_ID,
)
from verification.api.report_shapes import (
    CheckFailure,
    CorrectionBody,
    Failure,
    FlagBody,
    PaymentState,
    Score,
)
from verification.consents.models import ConsentStatus
from verification.decisions.models import DecisionStatus, MakerKind
from verification.privacy.models import Origin
from verification.reports.models import PaymentMode, RiskLevel, SubjectType
from verification.values.shapes import Shape, Timestamp
from webhooks.models import Event

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
    package: str | None
    """The package that it was ordered by; its checks may have changed since."""
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


class CorrectionData(ReportEventData):
    correction: CorrectionBody
    check_result_id: UUID
    """The finding that the subject calls wrong."""
    risk_score: Score | None
    risk_level: RiskLevel


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


class RightsData(Shape):
    """Nothing personal: the event stays when the report is erased."""

    workspace_id: UUID
    report_id: UUID
    requested_by: Origin


class RestrictedData(RightsData):
    restricted_at: Timestamp


class ErasedData(RightsData):
    erased_at: Timestamp
    erasure_id: UUID
    """Read its certificate with this id."""


class TestData(Shape):
    workspace_id: UUID
    test: Literal[True]
    message: str


class Envelope(Shape):
    """The body of a delivery."""

    timestamp: Timestamp
    """When the event was raised; the same on every attempt."""


DATA: dict[Event.Name, type[Shape]] = {
    Event.Name.REPORT_CREATED: ReportData,
    Event.Name.REPORT_READY: ReportData,
    Event.Name.REPORT_FAILED: ReportFailedData,
    Event.Name.CHECK_COMPLETED: CheckData,
    Event.Name.CHECK_FAILED: CheckFailedData,
    Event.Name.REFERENCE_SUBMITTED: ReferenceData,
    Event.Name.MONITORING_ALERT_CREATED: AlertData,
    Event.Name.PAYMENT_PAID: PaidData,
    Event.Name.CORRECTION_OPENED: CorrectionData,
    Event.Name.CORRECTION_CLOSED: CorrectionData,
    Event.Name.REPORT_DECIDED: DecisionData,
    Event.Name.REPORT_RESTRICTED: RestrictedData,
    Event.Name.REPORT_ERASED: ErasedData,
    Event.Name.WEBHOOK_TEST: TestData,
}


def _envelope_of(name: str, data: type[Shape]) -> type[Envelope]:
    """The shape `ReportCreatedEvent` of `report.created`, and so on."""
    shape_name = "".join(part.capitalize() for part in name.split(".")) + "Event"
    return create_model(
        shape_name,
        __base__=Envelope,
        event=(Literal[name], ...),  # type: ignore[arg-type]
        data=(data, ...),
    )


EVENTS = {name.value: _envelope_of(name.value, data) for name, data in DATA.items()}


def _report_data(
    status: str,
    check_status: str,
    *,
    payment_mode: str = "SELF",
    result_id: str = RESULT_ID,
) -> dict[str, Any]:
    return {
        "workspaceId": WORKSPACE_ID,
        "reportId": REPORT_ID,
        "report": {
            "id": REPORT_ID,
            "workspaceId": WORKSPACE_ID,
            "status": status,
            "createdAt": CREATED_AT,
            "selfVerification": False,
            "paymentMode": payment_mode,
            "consentStatus": "ATTESTED",
            "checksRequested": ["IDENTITY"],
            "package": None,
            "checkStack": [
                {
                    "checkName": "IDENTITY",
                    "status": check_status,
                    "checkResultId": result_id,
                }
            ],
        },
        "subject": {"id": SUBJECT_ID, "type": "INDIVIDUAL"},
    }


def _rights_data(requested_by: str) -> dict[str, Any]:
    return {
        "workspaceId": WORKSPACE_ID,
        "reportId": REPORT_ID,
        "requestedBy": requested_by,
    }


def _check_data(
    status: str, level: str, score: int | None, **end: Any
) -> dict[str, Any]:
    check = {
        "id": RESULT_ID,
        "resultId": RESULT_ID,
        "definitionId": DEFINITION_ID,
        "type": "IDENTITY",
        "name": "IDENTITY",
        "displayName": "National identity",
        "description": "Looks the ID number up in the national register of persons and "
        "compares the name, and the date of birth when it is given.",
        "category": "IDENTITY",
        "status": status,
        "riskLevel": level,
        "riskScore": score,
        "flags": [],
        "executedAt": "2026-11-21T08:15:30.123610Z",
        "durationMs": 48,
        "reused": False,
        **end,
    }
    return {
        "check": check,
        "checkId": RESULT_ID,
        "checkResultId": RESULT_ID,
        "checkType": "IDENTITY",
        "checkName": "IDENTITY",
        "checkDefinitionId": DEFINITION_ID,
        "status": status,
        "riskLevel": level,
        "riskScore": score,
    }


# In the report's stack once the correction is closed
CORRECTED_RESULT_ID = "019a5b2d-0a1b-7c2d-8e3f-405162738495"
UNKNOWN_RISK: dict[str, Any] = {"riskScore": None, "riskLevel": "UNKNOWN"}
REFUSED_SUMMARY = "The source refused the request."
EXAMPLE_DATA: dict[str, dict[str, Any]] = {
    "report.created": {**_report_data("PROCESSING", "PENDING"), **UNKNOWN_RISK},
    "report.ready": {
        **_report_data("READY", "COMPLETED"),
        "riskScore": 5,
        "riskLevel": "LOW",
    },
    "report.failed": {
        **_report_data("FAILED", "FAILED"),
        **UNKNOWN_RISK,
        "failure": {
            "code": "CHECKS_FAILED",
            "message": "1 of 1 checks could not be completed.",
        },
    },
    "check.completed": {
        **_report_data("READY", "COMPLETED"),
        **_check_data(
            "COMPLETED",
            "LOW",
            5,
            summary=RESULT["summary"],
            details={**RESULT["details"], "gender": "MALE"},
        ),
    },
    "check.failed": {
        **_report_data("FAILED", "FAILED"),
        **_check_data(
            "FAILED",
            "UNKNOWN",
            None,
            summary=REFUSED_SUMMARY,
            details={},
            failure={
                "code": "SOURCE_REFUSED",
                "message": REFUSED_SUMMARY,
                "retryable": False,
            },
        ),
    },
    "reference.submitted": {
        **_report_data("PROCESSING", "RUNNING"),
        "checkResultId": RESULT_ID,
        "reference": {
            "id": "019a5b2c-9a10-7e21-8f32-1a2b3c4d5e6f",
            "refereeName": "Amina Said",
            "submittedAt": ENDED_AT,
        },
    },
    "monitoring.alert.created": {
        "workspaceId": WORKSPACE_ID,
        "monitoringId": "019a5b2c-a1b2-7c3d-9e4f-5a6b7c8d9e0f",
        "reportId": REPORT_ID,
        "subject": {"id": SUBJECT_ID, "type": "INDIVIDUAL"},
        "alert": {
            "id": "019a5b2c-b2c3-7d4e-8f50-6b7c8d9e0f1a",
            "kind": "CHANGE",
            "title": "IDENTITY: risk level changed",
            "message": "IDENTITY: risk level went from LOW to HIGH.",
            "severity": "CRITICAL",
            "read": False,
            "actioned": False,
            "reportId": REPORT_ID,
            "changes": [
                {
                    "checkName": "IDENTITY",
                    "field": "riskLevel",
                    "old": "LOW",
                    "new": "HIGH",
                }
            ],
            "createdAt": ENDED_AT,
        },
    },
    "payment.paid": {
        **_report_data("PROCESSING", "PENDING", payment_mode="CANDIDATE"),
        "payment": {
            "status": "PAID",
            "amount": {"amount": 50.0, "currency": "KES"},
            "paidAt": ENDED_AT,
            "paymentUrl": None,
            "expiresAt": None,
        },
    },
    "correction.opened": {
        **_report_data("READY", "COMPLETED"),
        "correction": CORRECTION,
        "checkResultId": RESULT_ID,
        "riskScore": 30,
        "riskLevel": "MEDIUM",
    },
    "correction.closed": {
        **_report_data("READY", "COMPLETED", result_id=CORRECTED_RESULT_ID),
        "correction": {
            **CORRECTION,
            "status": "CORRECTED",
            "closedAt": "2026-11-24T09:02:11.004512Z",
            "reason": "The ID number was mistyped; the register has your name.",
            "correctedCheckResultId": CORRECTED_RESULT_ID,
        },
        "checkResultId": RESULT_ID,
        "riskScore": 5,
        "riskLevel": "LOW",
    },
    "report.decided": {
        **_report_data("READY", "COMPLETED"),
        "decision": {
            "id": DECISION["id"],
            "status": "DECLINED",
            "reasonCodes": ["ADVERSE_CREDIT"],
            "madeBy": "MEMBER",
            "confirmedBySecond": True,
            "decidedAt": DECIDED_AT,
        },
        "riskScore": 75,
        "riskLevel": "HIGH",
    },
    "report.restricted": {**_rights_data("SUBJECT"), "restrictedAt": ENDED_AT},
    "report.erased": {
        **_rights_data("CLIENT"),
        "erasedAt": ENDED_AT,
        "erasureId": ERASURE["id"],
    },
    "webhook.test": {
        "workspaceId": WORKSPACE_ID,
        "test": True,
        "message": "This is a test event: your receiver works when it answers with "
        "2xx.",
    },
}
EXAMPLE_TIMES = {"report.created": CREATED_AT, "report.decided": DECIDED_AT}
EXAMPLES: dict[str, dict[str, Any]] = {
    name: {
        "event": name,
        "timestamp": EXAMPLE_TIMES.get(name, ENDED_AT),
        "data": data,
    }
    for name, data in EXAMPLE_DATA.items()
}

SIGNATURE_DESCRIPTION = (
    "Signed as [Standard Webhooks](https://www.standardwebhooks.com/) say: `webhook-id`"
    " is the same on every attempt, `webhook-timestamp` is the attempt's, and "
    "`webhook-signature` has a signature for each secret that counts."
)
RECEIVER_RESPONSES = {
    "2XX": OpenApiResponse(description="Received: it is not sent again."),
    "410": OpenApiResponse(description="Gone: the configuration is disabled."),
    "default": OpenApiResponse(description="Not received: it is sent again later."),
}


class _ReceiverSchema(AutoSchema):
    """The schema of a client's receiver, which has no API key and no problems."""


def _event_webhook(name: Event.Name) -> OpenApiWebhook:
    shape = EVENTS[name.value]
    example = OpenApiExample(name.value, EXAMPLES[name.value])

    def describe(view: Any) -> Any:
        view.schema = _ReceiverSchema()
        return extend_schema(
            operation_id=f"receive{shape.__name__.removesuffix('Event')}",
            summary=str(name.label).removesuffix("."),
            description=SIGNATURE_DESCRIPTION,
            tags=["webhooks"],
            request=shape,
            responses=RECEIVER_RESPONSES,
            examples=[example],
        )(view)

    return OpenApiWebhook(name.value, describe)


WEBHOOKS = [_event_webhook(name) for name in Event.Name]
