"""The events in the OpenAPI document: their envelopes, and an example of each."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeVar
from uuid import UUID

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiResponse,
    OpenApiWebhook,
    extend_schema,
)
from pydantic import create_model

from monitoring.alerts import AlertData
from verification.api.examples import read_examples
from verification.checks.events import (
    CheckData,
    CheckFailedData,
    DecisionData,
    EventCheck,
    EventFailedCheck,
    PaidData,
    ReferenceData,
    ReportData,
    ReportEventData,
    ReportFailedData,
)
from verification.checks.models import CheckDefinition, ResultStatus
from verification.consents.models import ConsentStatus
from verification.privacy.rights_events import (
    CorrectionData,
    ErasedData,
    RestrictedData,
)
from verification.reports.models import (
    PaymentMode,
    Report,
    ReportStatus,
    RiskLevel,
    SubjectType,
)
from verification.values.shapes import Shape, Timestamp
from webhooks.models import Event
from webhooks.redelivery import TEST_MESSAGE, TestData
from workspaces.models import Workspace

PARTS = read_examples()["parts"]
ALERT, CORRECTION, RESULT = PARTS["alert"], PARTS["correction"], PARTS["result"]
REPORT_ID, RESULT_ID, RULE_ID = ALERT["reportId"], RESULT["id"], ALERT["monitoringId"]
CREATED_AT, ENDED_AT = RESULT["startedAt"], RESULT["completedAt"]
DECIDED_AT = PARTS["decision"]["decidedAt"]
WORKSPACE_ID = "019a5b2b-11aa-7d02-8c1b-5a4e3d2c1b0a"
SUBJECT_ID = "90931303-f7cd-8498-a04e-3957c7bb93e0"
DEFINITION_ID = "019a5b2c-0000-7000-8000-000000000002"

D = TypeVar("D", bound=ReportEventData)
C = TypeVar("C", bound=EventCheck)


class Envelope(Shape):
    """The body of a delivery."""

    timestamp: Timestamp
    """When the event was raised; the same on every attempt."""


def _envelope_of(name: str, data: type[Shape]) -> type[Envelope]:
    """Return the shape of an event, such as `ReportCreatedEvent`."""
    shape_name = "".join(part.capitalize() for part in name.split(".")) + "Event"
    return create_model(
        shape_name,
        __base__=Envelope,
        event=(Literal[name], ...),  # type: ignore[arg-type]
        data=(data, ...),
    )


def _about(
    shape: type[D],
    status: ReportStatus,
    check_status: ResultStatus,
    score: int | None = None,
    *,
    payment_mode: PaymentMode = PaymentMode.SELF,
    result_id: str = RESULT_ID,
    **members: Any,
) -> D:
    """Return the data of an event about the example's report, which is not stored."""
    report = Report(
        id=UUID(REPORT_ID),
        workspace=Workspace(id=UUID(WORKSPACE_ID)),
        subject_id=UUID(SUBJECT_ID),
        subject_type=SubjectType.INDIVIDUAL,
        status=status,
        created_at=datetime.fromisoformat(CREATED_AT),
        checks_requested=["IDENTITY"],
        payment_mode=payment_mode,
        risk_score=score,
        risk_level=RiskLevel.of(score),
        failure_code="CHECKS_FAILED",
        failure_message="1 of 1 checks could not be completed.",
    )
    stack = [("IDENTITY", check_status, UUID(result_id))]
    make = shape.of if issubclass(shape, CheckData) else shape.about
    return make(report, stack, ConsentStatus.ATTESTED, **members)


def _check(shape: type[C], status: ResultStatus, score: int | None, **more: Any) -> C:
    definition = CheckDefinition(
        id=UUID(DEFINITION_ID),
        name="IDENTITY",
        display_name="National identity",
        description="Looks the ID number up in the national register of persons and "
        "compares the name, and the date of birth when it is given.",
        category="IDENTITY",
    )
    return shape.of(
        definition,
        UUID(RESULT_ID),
        status=status,
        risk_level=RiskLevel.of(score),
        risk_score=score,
        flags=[],
        executed_at="2026-11-21T08:15:30.123610Z",
        duration_ms=48,
        reused=False,
        **more,
    )


READY, FAILED = ReportStatus.READY, ReportStatus.FAILED
RUNNING, COMPLETED = ReportStatus.RUNNING, ResultStatus.COMPLETED
RIGHTS = {"workspaceId": WORKSPACE_ID, "reportId": REPORT_ID}
# In the report's stack once the correction is closed
CORRECTED_RESULT_ID = "019a5b2d-0a1b-7c2d-8e3f-405162738495"
REFUSED_SUMMARY = "The source refused the request."
EXAMPLE_DATA: dict[Event.Name, Shape] = {
    Event.Name.REPORT_CREATED: _about(ReportData, RUNNING, ResultStatus.PENDING),
    Event.Name.REPORT_READY: _about(ReportData, READY, COMPLETED, 5),
    Event.Name.REPORT_FAILED: _about(ReportFailedData, FAILED, ResultStatus.FAILED),
    Event.Name.CHECK_COMPLETED: _about(
        CheckData,
        READY,
        COMPLETED,
        check=_check(
            EventCheck,
            COMPLETED,
            5,
            summary=RESULT["summary"],
            details={**RESULT["details"], "gender": "MALE"},
        ),
    ),
    Event.Name.CHECK_FAILED: _about(
        CheckFailedData,
        FAILED,
        ResultStatus.FAILED,
        check=_check(
            EventFailedCheck,
            ResultStatus.FAILED,
            None,
            summary=REFUSED_SUMMARY,
            details={},
            failure={
                "code": "SOURCE_REFUSED",
                "message": REFUSED_SUMMARY,
                "retryable": False,
            },
        ),
    ),
    Event.Name.REFERENCE_SUBMITTED: _about(
        ReferenceData,
        RUNNING,
        ResultStatus.RUNNING,
        check_result_id=RESULT_ID,
        reference={
            "id": "019a5b2c-9a10-7e21-8f32-1a2b3c4d5e6f",
            "refereeName": "Amina Said",
            "submittedAt": ENDED_AT,
        },
    ),
    Event.Name.MONITORING_ALERT_CREATED: AlertData.model_validate(
        {
            "workspaceId": WORKSPACE_ID,
            "monitoringId": RULE_ID,
            "reportId": REPORT_ID,
            "subject": {"id": SUBJECT_ID, "type": "INDIVIDUAL"},
            "alert": {k: v for k, v in ALERT.items() if k != "monitoringId"},
        }
    ),
    Event.Name.PAYMENT_PAID: _about(
        PaidData,
        RUNNING,
        ResultStatus.PENDING,
        payment_mode=PaymentMode.CANDIDATE,
        payment={**PARTS["payment"], "status": "PAID", "paidAt": ENDED_AT},
    ),
    Event.Name.CORRECTION_OPENED: _about(
        CorrectionData,
        READY,
        COMPLETED,
        30,
        correction=CORRECTION,
        check_result_id=RESULT_ID,
    ),
    Event.Name.CORRECTION_CLOSED: _about(
        CorrectionData,
        READY,
        COMPLETED,
        5,
        result_id=CORRECTED_RESULT_ID,
        correction={
            **CORRECTION,
            "status": "CORRECTED",
            "closedAt": "2026-11-24T09:02:11.004512Z",
            "reason": "The ID number was mistyped; the register has your name.",
            "correctedCheckResultId": CORRECTED_RESULT_ID,
        },
        check_result_id=RESULT_ID,
    ),
    Event.Name.REPORT_DECIDED: _about(
        DecisionData,
        READY,
        COMPLETED,
        75,
        decision={
            "id": PARTS["decision"]["id"],
            "status": "DECLINED",
            "reasonCodes": ["ADVERSE_CREDIT"],
            "madeBy": "MEMBER",
            "confirmedBySecond": True,
            "decidedAt": DECIDED_AT,
        },
    ),
    Event.Name.REPORT_RESTRICTED: RestrictedData.model_validate(
        {**RIGHTS, "requestedBy": "SUBJECT", "restrictedAt": ENDED_AT}
    ),
    Event.Name.REPORT_ERASED: ErasedData.model_validate(
        {
            **RIGHTS,
            "requestedBy": "CLIENT",
            "erasedAt": ENDED_AT,
            "erasureId": PARTS["erasure"]["id"],
        }
    ),
    Event.Name.WEBHOOK_TEST: TestData(
        workspace_id=UUID(WORKSPACE_ID), test=True, message=TEST_MESSAGE
    ),
}
EXAMPLE_TIMES = {
    Event.Name.REPORT_CREATED: CREATED_AT,
    Event.Name.REPORT_DECIDED: DECIDED_AT,
}
EXAMPLES: dict[str, dict[str, Any]] = {
    name.value: {
        "event": name.value,
        "timestamp": EXAMPLE_TIMES.get(name, ENDED_AT),
        "data": data.model_dump(mode="json", by_alias=True),
    }
    for name, data in EXAMPLE_DATA.items()
}
EVENTS = {
    name.value: _envelope_of(name.value, type(data))
    for name, data in EXAMPLE_DATA.items()
}

SIGNATURE_DESCRIPTION = (
    "Signed as [Standard Webhooks](https://www.standardwebhooks.com/) describe: "
    "`webhook-id` is the same on every attempt, `webhook-timestamp` is the time of the "
    "attempt, and `webhook-signature` has one signature for each valid secret."
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
            # Generators of clients write one file for each tag of either kind.
            tags=["receiver"],
            request=shape,
            responses=RECEIVER_RESPONSES,
            examples=[example],
        )(view)

    return OpenApiWebhook(name.value, describe)


WEBHOOKS = [_event_webhook(name) for name in Event.Name]
