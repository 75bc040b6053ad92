"""Actions of the sandbox over HTTP, for test keys alone."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Sum
from rest_framework.decorators import action
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from verification.api import examples
from verification.api.authentication import HasScope, count_request, key_of
from verification.api.operations import OperationViewSet, operation, read_shape
from verification.api.problems import Problem
from verification.api.report_shapes import ConsentState, CreatedReport
from verification.checks.events import PaymentState
from verification.payments.models import Payment
from verification.reports.models import Report, ReportStatus
from verification.reports.request import RequestShape
from verification.sandbox.consents import ConsentAction, act_as_subject
from verification.sandbox.payments import PaymentAction, act_as_payer
from verification.values import formats
from workspaces.models import Client, Environment, Scope

REASON_LENGTH = 500


class IsTestKey(BasePermission):
    """Refuses live keys, with or without the scope."""

    def has_permission(self, request: Request, view: Any) -> bool:
        key = key_of(request)
        if view.is_method_allowed and key.environment != Environment.SANDBOX:
            count_request(request, view, key)
            raise Problem("sandbox-only")
        return True


class SandboxViewSet(OperationViewSet):
    """Operations that act on the sandbox of the key's workspace."""

    permission_classes = [IsTestKey, HasScope]
    common_problems = {"sandbox-only": "SandboxForbidden"}
    http_method_names = ["get", "head", "post"]


class ConsentActionRequest(RequestShape):
    """What the subject does, or what time does to the consent link."""

    action: ConsentAction
    """`expire` ends the time to answer."""
    reason: formats.text(REASON_LENGTH) | None = None  # type: ignore[valid-type]
    """The subject's reason to decline or withdraw. `NOT_ME` is the reason of a stranger
    who got the link, `UNDER_AGE` that of a subject under 18."""


class PaymentActionRequest(RequestShape):
    """What the payer, their bank or time does."""

    action: PaymentAction
    """`more` and `less` pay another amount, `twice` pays two checkouts. `refund` gives
    all of it back, within seconds; after `dispute` the payer's bank holds it. `expire`
    ends the time to pay."""


def _action_on_report(name: str, summary: str, path: str, **declared: Any) -> Any:
    """Declare an action that answers with the report as its creation does."""
    return operation(
        name,
        summary,
        scope=Scope.REPORTS_CREATE,
        validates_body=False,
        idempotent_as=f"POST /sandbox/reports/{{reportId}}/{path}",
        answer=CreatedReport,
        example=examples.CREATE_RESPONSE["reports"][0],
        **declared,
    )


class SandboxReportViewSet(SandboxViewSet):
    """Reports of the sandbox, on which a client acts as the people they ask."""

    common_problems = {
        **SandboxViewSet.common_problems,
        "sandbox-action-not-possible": "SandboxConflict",
    }
    lookup_url_kwarg = "reportId"
    lookup_description = "The id of the report."

    @action(detail=True, methods=["post"])
    @_action_on_report(
        "actOnConsent",
        "Act as the subject",
        "consent",
        body=ConsentActionRequest,
        body_example={"action": "grant"},
    )
    def consent(self, request: Request, reportId: UUID) -> Response:
        """Grant, decline or withdraw a hosted consent as its subject, or let it expire.

        It is what the buttons of the consent page do, without its questions. The record
        of the decision says so: its `confirmedBy` is `SANDBOX_API`.
        """

        return self.run_once(lambda: self._act_as_subject(reportId))

    def _act_as_subject(self, report_id: UUID) -> CreatedReport:
        asked = read_shape(ConsentActionRequest, self.body)
        act_as_subject(self.client, report_id, asked.action, asked.reason or "")
        return _report_state(self.client, report_id)

    @action(detail=True, methods=["post"])
    @_action_on_report(
        "actOnPayment",
        "Act as the payer",
        "payment",
        body=PaymentActionRequest,
        body_example={"action": "pay"},
    )
    def payment(self, request: Request, reportId: UUID) -> Response:
        """Pay a report as its payer, or fail to; refund or dispute what was paid.

        It is what the buttons of the sandbox's checkout do. The checkout is opened if
        the payer has not opened one.
        """
        return self.run_once(lambda: self._act_as_payer(reportId))

    def _act_as_payer(self, report_id: UUID) -> CreatedReport:
        asked = read_shape(PaymentActionRequest, self.body)
        act_as_payer(self.client, report_id, asked.action)
        return _report_state(self.client, report_id)


def _report_state(client: Client, report_id: UUID) -> CreatedReport:
    rows = Report.objects.select_related("consent", "payment", "workspace")
    report = rows.get(
        pk=report_id, workspace=client.workspace, environment=client.environment
    )
    payment: Payment | None = getattr(report, "payment", None)
    price = report.results.aggregate(sum=Sum("price"))["sum"]
    return CreatedReport(
        id=report.pk,
        status=ReportStatus(report.status),
        payment_state=PaymentState.of(payment, report, price or Decimal(0)),
        consent_state=ConsentState.of_report(report),
    )
