"""What the OpenAPI document says of monitoring."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    extend_schema_view,
)

from monitoring.rules import RuleRequest
from verification.api import examples
from verification.api.monitoring_shapes import (
    AlertBody,
    AlertEdit,
    AlertPage,
    AlertQuery,
    ResumeRequest,
    RuleBody,
    RulePage,
    RuleQuery,
)
from verification.api.operations import (
    IDEMPOTENCY_KEY,
    REPLAYED,
    operation,
    query_parameters,
)

RULE_ID, ALERT_ID = (
    "019a5b2c-a1b2-7c3d-9e4f-5a6b7c8d9e0f",
    ("019a5b2c-b2c3-7d4e-8f50-6b7c8d9e0f1a"),
)
MONITORING_ID = OpenApiParameter(
    "monitoringId",
    OpenApiTypes.UUID,
    OpenApiParameter.PATH,
    description="The id of the rule.",
)
ALERT_PARAMETER = OpenApiParameter(
    "alertId",
    OpenApiTypes.UUID,
    OpenApiParameter.PATH,
    description="The id of the alert.",
)
CREATE_RULE: dict[str, Any] = {
    "subject": examples.SUBJECT,
    "checkNames": ["IDENTITY"],
    "cadence": "MONTHLY",
    "reference": "loan-4711",
}
ALERT_EXAMPLE: dict[str, Any] = {
    "id": ALERT_ID,
    "monitoringId": RULE_ID,
    "title": "IDENTITY: risk level changed",
    "message": "IDENTITY: risk level went from LOW to HIGH.",
    "severity": "CRITICAL",
    "read": False,
    "actioned": False,
    "reportId": examples.REPORT_ID,
    "changes": [
        {"checkName": "IDENTITY", "field": "riskLevel", "old": "LOW", "new": "HIGH"}
    ],
    "createdAt": examples.ENDED_AT,
}
RULE: dict[str, Any] = {
    "id": RULE_ID,
    "subject": {
        **examples.SUBJECT,
        "firstName": "Wanjiku",
        "middleName": None,
        "lastName": "Kamau",
        "registrationNumber": None,
        "email": None,
    },
    "checkNames": ["IDENTITY"],
    "cadence": "MONTHLY",
    "status": "ACTIVE",
    "pauseReason": None,
    "pausedAt": None,
    "nextRunAt": "2026-12-21T08:15:30.123456Z",
    "launchError": None,
    "reference": "loan-4711",
    "recentAlerts": [ALERT_EXAMPLE],
    "createdAt": examples.CREATED_AT,
}
PAGE: dict[str, Any] = {
    "page": 0,
    "size": 20,
    "totalElements": 1,
    "totalPages": 1,
    "first": True,
    "last": True,
}


def _create_operation(summary: str) -> Any:
    return operation(
        "createRule",
        summary,
        RuleBody,
        {**RULE, "recentAlerts": []},
        status=201,
        request=RuleRequest,
        request_example=CREATE_RULE,
        parameters=[IDEMPOTENCY_KEY, REPLAYED],
    )


def _no_content_operation(
    name: str,
    summary: str,
    parameters: list[OpenApiParameter],
    methods: list[str] | None = None,
) -> Any:
    return extend_schema(
        operation_id=name,
        methods=methods,
        summary=summary,
        request=None,
        responses={204: OpenApiResponse(description="Done.")},
        parameters=parameters,
    )


def _read_all_operation(view: Any) -> Any:
    patch = _no_content_operation(
        "readAllAlerts", "Mark all alerts as read", [], ["PATCH"]
    )
    put = _no_content_operation(
        "readAllAlertsByPut", "Mark all alerts as read", [], ["PUT"]
    )
    return patch(put(view))


describe_rules = extend_schema_view(
    create=_create_operation("Create a monitoring rule"),
    list=operation(
        "listRules",
        "List monitoring rules",
        RulePage,
        {**PAGE, "content": [RULE]},
        parameters=query_parameters(RuleQuery),
    ),
    retrieve=operation(
        "getRule", "Get a monitoring rule", RuleBody, RULE, parameters=[MONITORING_ID]
    ),
    destroy=_no_content_operation(
        "deleteRule", "Delete a monitoring rule", [MONITORING_ID]
    ),
    pause=operation(
        "pauseRule",
        "Pause a monitoring rule",
        RuleBody,
        {
            **RULE,
            "status": "PAUSED",
            "pauseReason": "BY_CLIENT",
            "pausedAt": examples.ENDED_AT,
            "nextRunAt": None,
        },
        parameters=[MONITORING_ID],
    ),
    resume=operation(
        "resumeRule",
        "Resume a monitoring rule",
        RuleBody,
        RULE,
        request=ResumeRequest,
        request_example={},
        parameters=[MONITORING_ID],
    ),
)
describe_alerts = extend_schema_view(
    list=operation(
        "listAlerts",
        "List alerts",
        AlertPage,
        {**PAGE, "content": [ALERT_EXAMPLE]},
        parameters=query_parameters(AlertQuery),
    ),
    partial_update=operation(
        "editAlert",
        "Mark an alert",
        AlertBody,
        {**ALERT_EXAMPLE, "read": True},
        request=AlertEdit,
        request_example={"read": True},
        parameters=[ALERT_PARAMETER],
    ),
    read_all=_read_all_operation,
)
