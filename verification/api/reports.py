"""Reports over HTTP: each operation finds the report, calls one verb, and renders."""

from typing import Any
from uuid import UUID

from django.db.models import Count
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from verification.api.authentication import key_of
from verification.api.content import PageQuery, PdfNegotiation
from verification.api.erasures import ErasureBody
from verification.api.operations import (
    OperationViewSet,
    PageEnvelope,
    operation,
    read_shape,
)
from verification.api.problems import Problem
from verification.api.report_shapes import (
    ConsentState,
    CreatedReport,
    CreatedReports,
    DecisionBody,
    DecisionPage,
    DecisionRequest,
    MessageBody,
    Quote,
    ReportBody,
    ReportPage,
    ReportQuery,
    ReportSummary,
    StatusChangeBody,
    SubjectLink,
    Timeline,
)
from verification.checks.events import PaymentState
from verification.checks.models import CheckResult, ResultStatus, ordered_results
from verification.consents.links import consent_links, send_access_link
from verification.db.base import read_page
from verification.decisions.decide import Maker, decide, names_of
from verification.decisions.models import Decision
from verification.documents.report import report_pdf
from verification.payments.links import payment_links
from verification.privacy.disclosures import record_disclosures
from verification.privacy.erasure import erasure_of, request_erasure
from verification.privacy.models import Channel, Correction, Origin
from verification.privacy.objections import object_to_use
from verification.reports.create import create_reports
from verification.reports.drafts import edit_draft
from verification.reports.ends import cancel
from verification.reports.hosted_links import client_messages
from verification.reports.launch import launch, present_price, retry
from verification.reports.models import Report, ReportStatus
from verification.reports.pricing import quote
from verification.reports.queries import list_reports
from verification.reports.request import (
    DraftEdit,
    Order,
    ReportsRequest,
    RuleContext,
    catalogue,
    named_return_hosts,
    read_orders,
)
from verification.web.pages import attachment
from workspaces.models import Client, Scope


def _report_operation(
    name: str, summary: str, *, scope: Scope = Scope.REPORTS_CREATE, **declared: Any
) -> Any:
    """Declare an operation that answers with the whole report."""
    return operation(name, summary, scope=scope, answer=ReportBody, **declared)


class ReportViewSet(OperationViewSet):
    """Reports of the key's workspace, in the key's environment."""

    lookup_url_kwarg = "reportId"
    lookup_description = "The id of the report."

    @operation(
        "createReports",
        "Create reports",
        scope=Scope.REPORTS_CREATE,
        body=ReportsRequest,
        validates_body=False,
        rate_bucket="create",
        counts_checks=True,
        idempotent_as="POST /reports",
        status=201,
        answer=CreatedReports,
        problems=("insufficient-balance",),
    )
    def create(self, request: Request) -> Response:
        """Create up to 500 reports, and launch them unless they are drafts.

        All of them are created or none. The launch is billed. With an
        `Idempotency-Key`, a repeated request gets the first answer again for 72 hours
        and creates nothing.
        """
        return self.run_once(self._create_reports)

    def _create_reports(self) -> CreatedReports:
        made = create_reports(self.client, _read_orders(self))
        reports = [CreatedReport.of(one) for one in made]
        return CreatedReports(count=len(made), reports=reports)

    @operation(
        "listReports",
        "List reports",
        scope=Scope.REPORTS_READ,
        query=ReportQuery,
        answer=ReportPage,
    )
    def list(self, request: Request) -> PageEnvelope:
        """List reports, newest first. The results come with each single report."""
        found = list_reports(
            *self.client.where,
            self.query.filters(),
            page=self.query.page,
            size=self.query.size,
            counts_all=True,
        )
        rated = [row.pk for row in found.rows if row.risk_score is not None]
        record_disclosures(rated, Channel.API, self.client.actor)
        return self.page_of(
            _summaries(found.rows),
            # One more than was counted, so that this page is not the last.
            found.total + found.has_uncounted,
            total_is_exact=not found.has_uncounted,
        )

    @_report_operation("getReport", "Get a report", scope=Scope.REPORTS_READ)
    def retrieve(self, request: Request, reportId: UUID) -> ReportBody:
        """Get a report with its results."""
        return _report_body(self.client, reportId)

    @action(detail=True, methods=["post"])
    @_report_operation(
        "launchReport",
        "Launch a draft",
        problems=("report-not-launchable", "insufficient-balance"),
    )
    def launch(self, request: Request, reportId: UUID) -> ReportBody:
        """Launch a draft, which bills it.

        While consent or payment is outstanding, the answer is 409 and nothing changes.
        Pointers of a 400 lead into the body of `editDraft`, which corrects the draft.
        """
        launch(self.client, reportId)
        return _report_body(self.client, reportId)

    @action(detail=True, methods=["post"])
    @_report_operation(
        "editDraft",
        "Edit a draft",
        body=DraftEdit,
        validates_body=False,
        problems=("report-not-editable",),
    )
    def draft(self, request: Request, reportId: UUID) -> ReportBody:
        """Edit a draft. Nothing is billed and no check runs.

        Members that you leave out keep their value; `subject` and `checksRequested` are
        replaced whole. An edit of subject, checks, purpose or `paymentMode` voids the
        subject's consent.
        """
        edit_draft(self.client, reportId, self.body)
        return _report_body(self.client, reportId)

    @action(detail=True, methods=["post"])
    @_report_operation(
        "cancelReport", "Cancel a report", problems=("report-not-cancellable",)
    )
    def cancel(self, request: Request, reportId: UUID) -> ReportBody:
        """Cancel a report that has not ended.

        Checks that have not run are credited; checks that ran stay billed.
        """
        cancel(self.client, reportId)
        return _report_body(self.client, reportId)

    @action(detail=True, methods=["post"])
    @_report_operation(
        "retryReport",
        "Run failed checks again",
        problems=("report-not-retryable", "insufficient-balance"),
    )
    def retry(self, request: Request, reportId: UUID) -> ReportBody:
        """Run the failed checks of an ended report again.

        Only checks that complete are billed.
        """
        retry(self.client, reportId)
        return _report_body(self.client, reportId)

    @action(detail=False, methods=["post"])
    @operation(
        "quoteReports",
        "Quote reports",
        scope=Scope.REPORTS_CREATE,
        body=ReportsRequest,
        validates_body=False,
        counts_checks=True,
    )
    def quote(self, request: Request) -> Quote:
        """Quote the price and the effect of a request to create reports.

        Nothing is stored.
        """
        return Quote.of(quote(self.client, _read_orders(self)))

    @action(detail=True, methods=["get"], url_path="consent/state")
    @operation(
        "getConsentState", "Get the consent state of a report", scope=Scope.REPORTS_READ
    )
    def consent_state(self, request: Request, reportId: UUID) -> ConsentState:
        """Get the state of the subject's consent."""
        return ConsentState.of_report(_get_report(self.client, reportId))

    @action(detail=True, methods=["post"], url_path="consent/resend")
    @operation(
        "resendConsent",
        "Send the subject a new consent link",
        scope=Scope.REPORTS_CREATE,
        problems=("consent-not-resendable",),
    )
    def consent_resend(self, request: Request, reportId: UUID) -> ConsentState:
        """Send the subject a new link; the old one stops working.

        This works at most once a minute, while the consent waits for an answer, or
        after the consent of a draft has expired.
        """
        consent_links.resend(self.client, reportId)
        return ConsentState.of_report(_get_report(self.client, reportId))

    @action(detail=True, methods=["post"], url_path="subject/link")
    @operation(
        "sendSubjectLink",
        "Send the subject a link to their own data",
        scope=Scope.REPORTS_CREATE,
        problems=("subject-link-not-sendable",),
    )
    def subject_link(self, request: Request, reportId: UUID) -> SubjectLink:
        """Send the subject a link by which they see what was found about them.

        It goes to the e-mail address and telephone number of the subject in the report,
        and nowhere else; the page asks for proof that the visitor is the subject. Use
        it when a person asks you for their data, also with an attested consent. An
        older link of the subject stops working. This works at most once a minute.
        """
        return SubjectLink.of(send_access_link(self.client, reportId))

    @action(detail=True, methods=["post"], url_path="payment/resend")
    @operation(
        "resendPayment",
        "Send the payer a new payment link",
        scope=Scope.REPORTS_CREATE,
        problems=("payment-not-resendable",),
    )
    def payment_resend(self, request: Request, reportId: UUID) -> PaymentState:
        """Send the payer a new link; the old one stops working.

        This works at most once a minute, while the payment is outstanding, or after the
        payment of a draft has expired. The time to pay starts again.
        """
        report = payment_links.resend(self.client, reportId)
        return PaymentState.of(report.payment, report, report.payment.amount)

    @action(detail=True, methods=["get"])
    @operation("getTimeline", "Get the timeline of a report", scope=Scope.REPORTS_READ)
    def events(self, request: Request, reportId: UUID) -> Timeline:
        """Get the timeline of a report, oldest first.

        An entry is a change of its status, or an event without one, such as a new link.

        `messages` lists each request to the subject, the payer or a referee who has not
        answered, whether it was sent, and if not, why.
        """
        report = _get_report(self.client, reportId)
        return Timeline(
            events=[StatusChangeBody.of(c) for c in report.status_changes.all()],
            messages=[MessageBody.of(one) for one in client_messages(report)],
        )

    @action(detail=True, methods=["get"], content_negotiation_class=PdfNegotiation)
    @operation(
        "getReportPdf",
        "Get a report as a PDF",
        scope=Scope.REPORTS_READ,
        answer=OpenApiTypes.BINARY,
        media_type="application/pdf",
        problems=("report-erased",),
    )
    def pdf(self, request: Request, reportId: UUID) -> HttpResponse:
        """Get the report as a PDF (PDF/UA) that you can give to others.

        It shows the report at this moment, and a code with which a reader can verify
        that it is genuine.
        """
        report = _get_report(self.client, reportId)
        if report.erased_at:
            raise Problem("report-erased")
        record_disclosures([reportId], Channel.PDF, self.client.actor)
        return attachment(report_pdf(report), f"report-{report.pk}.pdf")

    @action(detail=True, methods=["post"])
    @operation(
        "decideReport",
        "Decide about a report",
        scope=Scope.DECISIONS_WRITE,
        body=DecisionRequest,
        validates_body=False,
        idempotent_as="POST /reports/{reportId}/decision",
        status=201,
        answer=DecisionBody,
        problems=(
            "report-not-decidable",
            "decision-conflict",
            "answer-erased",
            "report-erased",
        ),
    )
    def decision(self, request: Request, reportId: UUID) -> Response:
        """Approve or decline a report that has ended, or give it to a person to review.

        A decision never changes. To decide again, name the decision that counts now in
        `replaces`; if another one came first, the answer is 409 and nothing changes.

        Where your workspace demands a second member, the answer has the state PENDING,
        and the decision waits for a member in the console: a key can only propose. Keys
        need the scope `decisions:write`, which new keys have only if you name it. With
        an `Idempotency-Key`, a repeated request gets the first answer again.
        """
        return self.run_once(
            lambda: self._decide(request, reportId), lambda answer: reportId
        )

    def _decide(self, request: Request, report_id: UUID) -> DecisionBody:
        new = read_shape(DecisionRequest, self.body).as_new_decision()
        maker = Maker.of_key(key_of(request), self.actor)
        made = decide(self.client, report_id, new, maker)
        return DecisionBody.of(made, {})

    @action(detail=True, methods=["get"])
    @operation(
        "listDecisions",
        "List the decisions about a report",
        scope=Scope.REPORTS_READ,
        query=PageQuery,
        answer=DecisionPage,
    )
    def decisions(self, request: Request, reportId: UUID) -> PageEnvelope:
        """List the decisions about a report and the proposals, newest first."""
        found = _get_report(self.client, reportId).decisions.order_by("-number")
        found = found.select_related("notice")
        page = read_page(found, self.query.page, self.query.size)
        names = names_of(page.rows)
        return self.page_of([DecisionBody.of(r, names) for r in page.rows], page.total)

    @action(detail=True, methods=["post"])
    @_report_operation(
        "objectToUse", "Enter the objection of the subject", problems=("report-erased",)
    )
    def objection(self, request: Request, reportId: UUID) -> ReportBody:
        """Enter that the subject of this report objected to further use.

        All reports about the same person or company in your workspace and this
        environment get `restrictedAt`: the service reuses none of their results, sends
        none of their webhooks again, and pauses monitoring rules until you attest a
        newer consent.
        """
        report, by = _get_report(self.client, reportId), self.client.actor
        object_to_use(report.pk, Origin.CLIENT, requested_by=by)
        return _report_body(self.client, reportId)

    @action(detail=True, methods=["delete"])
    @operation(
        "eraseSubject",
        "Erase the subject of a report",
        scope=Scope.SUBJECTS_ERASE,
        status=202,
        outcome="The erasure, which a job carries out within seconds.",
        problems=("report-erased", "erasure-held"),
    )
    def subject(self, request: Request, reportId: UUID) -> ErasureBody:
        """Erase everything about the subject of this report, for good.

        That is the personal data of all reports about the same person or company in
        your workspace and this environment. Reports that have not ended are cancelled
        first, and monitoring rules are deleted. Checks that ran stay billed. The
        skeletons of the reports stay: ids, checks, states, times and prices.

        A repeated request returns the same erasure. Keys need the scope
        `subjects:erase`, which new keys have only if you name it.
        """
        report = _get_report(self.client, reportId)
        erasure = request_erasure(
            report.pk, Origin.CLIENT, requested_by=self.client.actor
        )
        return ErasureBody.of(erasure)


def _read_orders(view: ReportViewSet) -> list[Order]:
    environment = view.client.environment
    hosts = named_return_hosts(view.client.workspace.pk, view.body.get("reports"))
    context = RuleContext(catalogue(), environment, view.packages, hosts)
    return read_orders(view.body, context)


def _get_report(client: Client, report_id: UUID) -> Report:
    """Return the client's report. Raises Report.DoesNotExist."""
    return Report.objects.select_related("consent", "payment").get(
        pk=report_id, **client.lookups
    )


def _report_body(client: Client, report_id: UUID) -> ReportBody:
    """Return the report as the client reads it, and record that it does."""
    report = _get_report(client, report_id)
    results = list(report.results.all())
    if any(result.finding for result in results):
        record_disclosures([report_id], Channel.API, client.actor)
    corrections: list[Correction] = []
    decisions: list[Decision] = []
    # A draft has found nothing.
    if report.status != ReportStatus.DRAFT:
        rows = report.corrections.select_related("request")
        corrections = list(rows.order_by("id"))
    # A retried report has ended before.
    if report.is_ended or any(result.attempt > 1 for result in results):
        decisions = list(report.decisions.select_related("notice"))
    return build_body(client, report, results, corrections, decisions)


def build_body(
    client: Client,
    report: Report,
    results: list[CheckResult],
    corrections: list[Correction],
    decisions: list[Decision],
) -> ReportBody:
    """Return the report as the client reads it.

    The caller records the disclosure. The report comes with its consent and payment.
    """
    has_corrected = any(one.corrected_result_id for one in corrections)
    priced = ordered_results(report) if has_corrected else results
    price = present_price(client, report, priced)
    erasure = erasure_of(report) if report.erased_at else None
    erasure_id = erasure.pk if erasure else None
    return ReportBody.of(report, results, price, corrections, erasure_id, decisions)


def _summaries(reports: list[Report]) -> list[ReportSummary]:
    completed = dict(
        CheckResult.objects.filter(
            report__in=[report.pk for report in reports], status=ResultStatus.COMPLETED
        )
        .values_list("report")
        .annotate(Count("id"))
    )
    return [ReportSummary.of(r, completed.get(r.pk, 0)) for r in reports]
