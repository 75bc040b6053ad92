"""What the OpenAPI document says of each operation beyond its code: names, shapes,
headers and examples. Prose is in the docstrings of the views."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    extend_schema_view,
)

from verification.api import examples
from verification.api.check_shapes import (
    CheckDefinitionBody,
    CheckDefinitionPage,
    CheckDefinitionQuery,
    ReservedSubjectPage,
)
from verification.api.query import ReportQuery
from verification.api.quote_shapes import (
    Quote,
)
from verification.api.report_shapes import (
    ConsentState,
    CreatedReports,
    PaymentState,
    ReportBody,
    ReportPage,
    Timeline,
)
from verification.api.schema import json_schema
from verification.reports.request import DraftEdit, ReportsRequest
from verification.values.wire import Shape

REPORT_ID = OpenApiParameter(
    "reportId",
    OpenApiTypes.UUID,
    OpenApiParameter.PATH,
    description="The id of the report.",
)
CHECK_NAME = OpenApiParameter(
    "checkName",
    OpenApiTypes.STR,
    OpenApiParameter.PATH,
    description="The name of the check, such as KRA_PIN.",
)
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 120, "pattern": "^[ -~]+$"},
    OpenApiParameter.HEADER,
    description="A repeated request with the same key gets the first answer again "
    "and creates nothing. Remembered for 72 hours.",
)
REPLAYED = OpenApiParameter(
    "Idempotent-Replayed",
    {"type": "string", "enum": ["true"]},
    OpenApiParameter.HEADER,
    response=[201],
    description="There when the answer is an earlier one, given again.",
)


def operation(
    name: str,
    summary: str,
    shape: Any,
    example: dict[str, Any],
    *,
    status: int = 200,
    request: Any = None,
    request_example: dict[str, Any] | None = None,
    parameters: list[OpenApiParameter] | None = None,
) -> Any:
    sent = OpenApiExample("Answer", example, response_only=True)
    received = OpenApiExample("Request", request_example or {}, request_only=True)
    return extend_schema(
        operation_id=name,
        summary=summary,
        request=request,
        responses={status: OpenApiResponse(shape, description=summary + ".")},
        parameters=parameters or [],
        examples=[sent, received] if request_example else [sent],
    )


def query_parameters(shape: type[Shape]) -> list[OpenApiParameter]:
    schema = json_schema(shape, is_request=True)
    return [
        OpenApiParameter(
            name,
            _inline_references(member, schema.get("$defs", {})),
            OpenApiParameter.QUERY,
            description=member.get("description", ""),
        )
        for name, member in schema["properties"].items()
    ]


def _inline_references(
    member: dict[str, Any], definitions: dict[str, Any]
) -> dict[str, Any]:
    """A parameter is absent rather than null, and its enumeration stands in it."""
    for option in member.get("anyOf", [member]):
        if "$ref" in option:
            return dict(definitions[option["$ref"].rpartition("/")[2]])
        if option.get("type") != "null":
            kept = {k: v for k, v in option.items() if k != "description"}
            return kept | (
                {"default": member["default"]}
                if member.get("default") is not None
                else {}
            )
    raise TypeError("a parameter that can only be null")


def _report_operation(name: str, summary: str) -> Any:
    return operation(name, summary, ReportBody, examples.REPORT, parameters=[REPORT_ID])


describe_reports = extend_schema_view(
    create=operation(
        "createReports",
        "Create reports",
        CreatedReports,
        examples.CREATE_RESPONSE,
        status=201,
        request=ReportsRequest,
        request_example=examples.CREATE_REQUEST,
        parameters=[IDEMPOTENCY_KEY, REPLAYED],
    ),
    list=operation(
        "listReports",
        "List reports",
        ReportPage,
        examples.PAGE,
        parameters=query_parameters(ReportQuery),
    ),
    retrieve=_report_operation("getReport", "Get a report"),
    launch=_report_operation("launchReport", "Launch a draft"),
    draft=operation(
        "editDraft",
        "Edit a draft",
        ReportBody,
        examples.REPORT,
        request=DraftEdit,
        request_example={"checksRequested": ["IDENTITY"]},
        parameters=[REPORT_ID],
    ),
    cancel=_report_operation("cancelReport", "Cancel a report"),
    retry=_report_operation("retryReport", "Run failed checks again"),
    quote=operation(
        "quoteReports",
        "Quote reports",
        Quote,
        examples.QUOTE,
        request=ReportsRequest,
        request_example=examples.CREATE_REQUEST,
    ),
    consent_state=operation(
        "getConsentState",
        "Get the consent state of a report",
        ConsentState,
        examples.CONSENT,
        parameters=[REPORT_ID],
    ),
    consent_resend=operation(
        "resendConsent",
        "Send the subject a new consent link",
        ConsentState,
        examples.CONSENT,
        parameters=[REPORT_ID],
    ),
    pdf=extend_schema(
        operation_id="getReportPdf",
        summary="Get a report as a PDF",
        responses={(200, "application/pdf"): OpenApiTypes.BINARY},
        parameters=[REPORT_ID],
    ),
    payment_resend=operation(
        "resendPayment",
        "Send the payer a new payment link",
        PaymentState,
        examples.PENDING_PAYMENT,
        parameters=[REPORT_ID],
    ),
    events=operation(
        "getTimeline",
        "Get the timeline of a report",
        Timeline,
        examples.TIMELINE,
        parameters=[REPORT_ID],
    ),
)
describe_checks = extend_schema_view(
    list=operation(
        "listCheckDefinitions",
        "List the checks on offer",
        CheckDefinitionPage,
        examples.DEFINITIONS,
        parameters=query_parameters(CheckDefinitionQuery),
    ),
    retrieve=operation(
        "getCheckDefinition",
        "Get a check definition",
        CheckDefinitionBody,
        examples.DEFINITION,
        parameters=[CHECK_NAME, *query_parameters(CheckDefinitionQuery)],
    ),
)
describe_sandbox = extend_schema_view(
    list=operation(
        "listSandboxSubjects",
        "List the sandbox's reserved subjects",
        ReservedSubjectPage,
        examples.RESERVED_SUBJECTS,
    ),
)
