"""Reports over HTTP: each operation looks up, calls one verb, and renders."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Count
from django.http import HttpResponse
from django.utils.timezone import now
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from verification.api.body import (
    body_of,
    client_of,
    refuse_body,
    refuse_unknown_parameters,
)
from verification.api.operations import describe_reports
from verification.api.query import ReportQuery, build_page, read_query
from verification.api.quote_shapes import (
    quote_body,
)
from verification.api.rendering import PdfNegotiation
from verification.api.report_shapes import (
    ConsentState,
    CreatedReport,
    CreatedReports,
    MessageBody,
    PaymentState,
    ReportBody,
    ReportPage,
    ReportSummary,
    StatusChangeBody,
    Timeline,
)
from verification.api.throttling import count_checks
from verification.checks.models import CheckResult, ResultStatus
from verification.consents.links import consent_links
from verification.documents.report import report_pdf
from verification.payments.links import payment_links
from verification.reports.cancel import cancel
from verification.reports.create import create_reports
from verification.reports.drafts import edit_draft
from verification.reports.idempotency import IdempotencyKey, run_once
from verification.reports.launch import launch, quote_lines
from verification.reports.messages import client_messages
from verification.reports.models import Report, ReportStatus
from verification.reports.orders import catalogue, read_orders
from verification.reports.pricing import total
from verification.reports.queries import list_reports
from verification.reports.quote import quote
from verification.reports.retry import retry
from workspaces.models import Client, Scope


@describe_reports
class ReportViewSet(GenericViewSet):
    """Reports of the key's workspace, in the key's environment."""

    http_method_names = ["get", "head", "post"]
    lookup_url_kwarg = "reportId"
    lookup_value_converter = "uuid"
    required_scopes = {
        "create": Scope.REPORTS_CREATE,
        "retrieve": Scope.REPORTS_READ,
        "list": Scope.REPORTS_READ,
        "launch": Scope.REPORTS_CREATE,
        "draft": Scope.REPORTS_CREATE,
        "cancel": Scope.REPORTS_CREATE,
        "retry": Scope.REPORTS_CREATE,
        "quote": Scope.REPORTS_CREATE,
        "consent_state": Scope.REPORTS_READ,
        "consent_resend": Scope.REPORTS_CREATE,
        "payment_resend": Scope.REPORTS_CREATE,
        "events": Scope.REPORTS_READ,
        "pdf": Scope.REPORTS_READ,
    }
    rate_buckets = {"create": "create"}
    problem_codes = {
        "create": (
            "insufficient-balance",
            "idempotency-in-progress",
            "idempotency-key-reused",
        ),
        "launch": ("report-not-launchable", "insufficient-balance"),
        "draft": ("report-not-editable",),
        "cancel": ("report-not-cancellable",),
        "retry": ("report-not-retryable", "insufficient-balance"),
        "consent_resend": ("consent-not-resendable",),
        "payment_resend": ("payment-not-resendable",),
    }

    def create(self, request: Request) -> Response:
        """Create up to 500 reports, and launch them unless they are drafts.

        All of them are created or none. Launching is the billable moment. With an
        `Idempotency-Key` a repeated request gets the first answer again, for 72 hours,
        and creates nothing.
        """
        refuse_unknown_parameters(request, ())
        client, body = client_of(request), body_of(request)
        count_checks(request, self, body.get("reports"))
        answer = run_once(
            idempotency_key(request, client), lambda: _create(client, body)
        )
        headers = {"Idempotent-Replayed": "true"} if answer.replayed else None
        return Response(answer.body, status=201, headers=headers)

    def list(self, request: Request) -> Response:
        """List reports, newest first. The results come with each single report."""
        query = read_query(request, ReportQuery)
        client = client_of(request)
        found = list_reports(
            client.workspace.pk,
            client.environment,
            query.filters(),
            page=query.page,
            size=query.size,
        )
        summaries = _summaries(found.reports)
        return Response(
            build_page(
                ReportPage, summaries, found.total, page=query.page, size=query.size
            )
        )

    def retrieve(self, request: Request, reportId: UUID) -> Response:
        """Get a report with its results."""
        refuse_unknown_parameters(request, ())
        client = client_of(request)
        return Response(_body(client, _get_report(client, reportId)))

    @action(detail=True, methods=["post"])
    def launch(self, request: Request, reportId: UUID) -> Response:
        """Launch a draft: this is the billable moment.

        Refused with 409 and nothing changed while consent or payment is outstanding.
        """
        return self._run_action(launch, request, reportId)

    @action(detail=True, methods=["post"])
    def draft(self, request: Request, reportId: UUID) -> Response:
        """Edit a draft. Nothing is billed and no check runs.

        Members left out stay; `subject` and `checksRequested` are replaced whole. An
        edit of subject, checks or purpose voids a consent the subject gave.
        """
        refuse_unknown_parameters(request, ())
        client = client_of(request)
        edit_draft(client, reportId, body_of(request))
        return Response(_body(client, _get_report(client, reportId)))

    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, reportId: UUID) -> Response:
        """Cancel a report that has not ended.

        Checks that have not run are credited; those that ran stay billed.
        """
        return self._run_action(cancel, request, reportId)

    @action(detail=True, methods=["post"])
    def retry(self, request: Request, reportId: UUID) -> Response:
        """Run the failed checks of an ended report again.

        Only what completes is billed.
        """
        return self._run_action(retry, request, reportId)

    @action(detail=False, methods=["post"])
    def quote(self, request: Request) -> Response:
        """Say what the same request would cost and do. Nothing is stored."""
        refuse_unknown_parameters(request, ())
        client, body = client_of(request), body_of(request)
        count_checks(request, self, body.get("reports"))
        orders = read_orders(body, client.environment, catalogue())
        return Response(quote_body(quote(client, orders)))

    @action(detail=True, methods=["get"], url_path="consent/state")
    def consent_state(self, request: Request, reportId: UUID) -> Response:
        """Get where the subject is in the consent workflow."""
        refuse_unknown_parameters(request, ())
        report = _get_report(client_of(request), reportId)
        return Response(ConsentState.of(getattr(report, "consent", None), report))

    @action(detail=True, methods=["post"], url_path="consent/resend")
    def consent_resend(self, request: Request, reportId: UUID) -> Response:
        """Send the subject a new link; the old one is dead from then on.

        At most once a minute, while the consent waits for an answer, or when that of a
        draft has expired.
        """
        refuse_unknown_parameters(request, ())
        refuse_body(request)
        client = client_of(request)
        consent_links.resend(client, reportId)
        report = _get_report(client, reportId)
        return Response(ConsentState.of(getattr(report, "consent", None), report))

    @action(detail=True, methods=["post"], url_path="payment/resend")
    def payment_resend(self, request: Request, reportId: UUID) -> Response:
        """Send the payer a new link; the old one is dead from then on.

        At most once a minute, while the payment waits, or when that of a draft has
        expired. The time to pay begins anew.
        """
        refuse_unknown_parameters(request, ())
        refuse_body(request)
        client = client_of(request)
        payment_links.resend(client, reportId)
        report = _get_report(client, reportId)
        return Response(PaymentState.of(report.payment, report, report.payment.amount))

    @action(detail=True, methods=["get"])
    def events(self, request: Request, reportId: UUID) -> Response:
        """Get the timeline of a report: every move it made, oldest first.

        `messages` says of each request to the subject, the payer or the referee whether
        it was sent, and why not.
        """
        refuse_unknown_parameters(request, ())
        report = _get_report(client_of(request), reportId)
        return Response(
            Timeline(
                events=[StatusChangeBody.of(c) for c in report.status_changes.all()],
                messages=[MessageBody.of(one) for one in client_messages(report)],
            )
        )

    @action(detail=True, methods=["get"], content_negotiation_class=PdfNegotiation)
    def pdf(self, request: Request, reportId: UUID) -> HttpResponse:
        """Get the report as a PDF (PDF/UA) that can be handed on.

        It shows the report as it stands, and a code by which who was handed it can see
        that it is genuine.
        """
        refuse_unknown_parameters(request, ())
        report = _get_report(client_of(request), reportId)
        return HttpResponse(
            report_pdf(report),
            content_type="application/pdf",
            headers={
                "Content-Disposition": f'attachment; filename="report-{report.pk}.pdf"'
            },
        )

    def _run_action(
        self, verb: Callable[[Client, UUID], Report], request: Request, report_id: UUID
    ) -> Response:
        refuse_unknown_parameters(request, ())
        refuse_body(request)
        client = client_of(request)
        verb(client, report_id)
        return Response(_body(client, _get_report(client, report_id)))


def _create(client: Client, body: Any) -> dict[str, Any]:
    orders = read_orders(body, client.environment, catalogue())
    made = create_reports(client, orders)
    answer = CreatedReports(
        count=len(made), reports=[CreatedReport.of(one) for one in made]
    )
    return answer.model_dump(mode="json", by_alias=True)


def idempotency_key(request: Request, client: Client) -> IdempotencyKey | None:
    header = request.headers.get("Idempotency-Key")
    if header is None:
        return None
    return IdempotencyKey.read(header, client, "POST /reports", body_of(request))


def _get_report(client: Client, report_id: UUID) -> Report:
    """A stranger's report is not found, like one that does not exist."""
    return Report.objects.select_related("consent", "payment").get(
        pk=report_id, workspace=client.workspace, environment=client.environment
    )


def _body(client: Client, report: Report) -> ReportBody:
    results = list(report.results.all())
    price = sum((result.price for result in results), Decimal(0))
    if report.status == ReportStatus.DRAFT and report.subject:
        definitions = catalogue()
        asked = [definitions[name] for name in report.checks_requested]
        price = total(quote_lines(client, report, asked, now()))
    return ReportBody.of(report, results, price)


def _summaries(reports: list[Report]) -> list[ReportSummary]:
    completed = dict(
        CheckResult.objects.filter(
            report__in=[report.pk for report in reports], status=ResultStatus.COMPLETED
        )
        .values_list("report")
        .annotate(Count("id"))
    )
    return [ReportSummary.of(r, completed.get(r.pk, 0)) for r in reports]
