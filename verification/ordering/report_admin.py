"""The page of a report: its whole story, and the verbs staff have.

Here and not with the model, because the actions are verbs of ordering.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.timezone import now
from unfold.decorators import action

from verification.backoffice import trail
from verification.backoffice.dialogs import (
    Facts,
    FactsForm,
    ReasonForm,
    back_to,
    dialog,
)
from verification.backoffice.office import SEARCHED, ReadOnlyAdmin
from verification.backoffice.revealing import ASK, is_revealed, remember
from verification.checks.models import ResultStatus
from verification.masking import masked
from verification.ordering.cancelling import cancel
from verification.ordering.charging import charged, charges
from verification.ordering.client import Client
from verification.ordering.consent_links import NotResendable, TooSoon, resend
from verification.ordering.payment_links import NotPayable, resend_payment_link
from verification.ordering.refusals import NotCancellable, NotRetryable
from verification.ordering.report_document import report_pdf
from verification.ordering.report_story import story_of, timeline
from verification.ordering.retrying import check_retryable, failed_checks, retry
from verification.reports.models import Report, ReportStatus
from workspaces.ledger import InsufficientBalance
from workspaces.models import Account

REFUSALS = (
    NotCancellable,
    NotRetryable,
    NotResendable,
    NotPayable,
    TooSoon,
    InsufficientBalance,
)
LABELS = {"idNumber": "ID number", "kraPin": "KRA PIN", "email": "E-mail"}


class StuckFilter(admin.SimpleListFilter):
    title = "stuck"
    parameter_name = "stuck"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return [("hour", "running for over an hour")]

    def queryset(self, request: HttpRequest, reports: QuerySet[Any]) -> QuerySet[Any]:
        return stuck(reports) if self.value() == "hour" else reports


def stuck(reports: QuerySet[Any]) -> QuerySet[Any]:
    """Found by the index `reports_under_way`."""
    return reports.filter(
        status__in=[ReportStatus.RUNNING, ReportStatus.PARTIAL],
        completed_at=None,
        updated_at__lt=now() - timedelta(hours=1),
    )


def why_not_retried(report: Any) -> str:
    """Blank where a retry can work: it is allowed, and some failure may pass."""
    failed = failed_checks(report)
    try:
        check_retryable(report, failed)
    except NotRetryable as e:
        return str(e)
    if not any(result.failure_retryable for result in failed):
        return "Their sources refused the failed checks for good."
    return ""


def facts_of(report: Any) -> list[tuple[str, str]]:
    """Of the subject, masked until it is revealed; the page shows the name anyway."""
    told = report.subject or {}
    shown = told if report.is_revealed else masked(told)
    return [
        (LABELS.get(name) or re.sub(r"([A-Z])", r" \1", name).capitalize(), value)
        for name, value in shown.items()
        if value and name not in {"fullName", "subjectType"}
    ]


class ReportForm(FactsForm):
    def facts(self) -> Facts:
        report = self.report
        return [
            ("Workspace", report.workspace.name),
            ("Environment", report.environment),
            ("Subject", report.subject_name),
        ]

    @property
    def report(self) -> Report:
        return Report.objects.select_related("workspace").get(pk=self.object_id)


class Cancellation(ReasonForm, ReportForm):
    pass


class Retrial(ReportForm):
    def facts(self) -> Facts:
        report = self.report
        failed = failed_checks(report)
        account = Account.objects.get(
            workspace=report.workspace_id, environment=report.environment
        )
        movements = charges(
            Client(account.workspace, account, ""), report, charged(failed)
        )
        price = -sum((one.amount for one in movements), Decimal(0))
        return [
            *super().facts(),
            ("Checks", ", ".join(result.name for result in failed)),
            ("Charged to the workspace", f"{account.currency} {price:,.2f}"),
            ("Balance", f"{account.currency} {account.balance:,.2f}"),
        ]


@admin.register(Report)
class ReportAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "workspace",
        "environment",
        "status",
        "subject_name",
        "created_at",
    ]
    list_filter = ["environment", "status", StuckFilter, "payment_mode"]
    list_select_related = ["workspace"]
    search_ids = ("id", "workspace_id")
    search_exact = ("reference",)
    change_list_template = SEARCHED
    change_form_template = "admin/report.html"
    # All else is drawn by the template, from the story.
    fields = [
        "subject_type",
        "country",
        "purpose",
        "reference",
        "monitoring",
        "created_by",
    ]
    personal_fields = ("subject_opened",)
    actions_detail = [
        "cancel",
        "retry",
        "resend_consent",
        "resend_payment",
        "pdf",
        "reveal",
    ]

    @admin.display(description="Subject")
    def subject_opened(self, report: Report) -> dict[str, Any] | None:
        return report.subject

    @admin.display(description="Monitoring rule")
    def monitoring(self, report: Report) -> str:
        if not report.monitoring_id:
            return "-"
        # By its name: rules know of reports, and not the other way round.
        url = reverse("admin:monitoring_rule_change", args=[report.monitoring_id])
        return format_html('<a href="{}">{}</a>', url, report.monitoring_id)

    def get_urls(self) -> list[Any]:
        document = path(
            "<uuid:report_id>/document.pdf",
            self.admin_site.admin_view(self.document),
            name="reports_report_document",
        )
        return [document, *super().get_urls()]

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        # Asked for by each button as well as by the page.
        kept = request.__dict__.setdefault("_reports", {})
        if object_id not in kept:
            kept[object_id] = super().get_object(request, object_id, from_field)
        return kept[object_id]

    def render_change_form(
        self, request: HttpRequest, context: Any, *arguments: Any, **more: Any
    ) -> Any:
        report = more["obj"]
        # Here are a name and what was found about it: who looks is written down.
        trail.record("report.opened", trail.actor_of(request), report)
        story = story_of(report)
        context |= {"story": story, "timeline": timeline(story), "report": report}
        context["subject"] = facts_of(report)
        has_failed = any(r.status == ResultStatus.FAILED for r in story.results)
        if has_failed and report.is_ended and self._acted_on(request, str(report.pk)):
            context["why_not_retried"] = why_not_retried(report)
        return super().render_change_form(request, context, *arguments, **more)

    def has_cancel_permission(
        self, request: HttpRequest, object_id: Any = None
    ) -> bool:
        report = self._acted_on(request, object_id)
        return report is not None and not report.is_ended

    def has_retry_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        report = self._acted_on(request, object_id)
        return report is not None and not why_not_retried(report)

    def has_consent_permission(
        self, request: HttpRequest, object_id: Any = None
    ) -> bool:
        report = self._acted_on(request, object_id)
        return bool(report and hasattr(report, "consent") and not report.is_ended)

    def has_payment_permission(
        self, request: HttpRequest, object_id: Any = None
    ) -> bool:
        report = self._acted_on(request, object_id)
        return bool(report and hasattr(report, "payment") and not report.is_ended)

    def _acted_on(self, request: HttpRequest, object_id: Any) -> Report | None:
        """The report, for who may act on it."""
        if not request.user.has_perm("reports.change_report"):
            return None
        return self.get_object(request, object_id) if object_id else None

    @action(
        description="Cancel",
        icon="cancel",
        permissions=["cancel"],
        dialog=dialog(
            "Cancel this report",
            "Checks that were not asked are given back. This cannot be undone.",
            "Cancel the report",
            Cancellation,
        ),
    )
    def cancel(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        why = form.cleaned_data["reason"]
        return self._act(request, object_id, cancel, "cancelled", why)

    @action(
        description="Retry",
        icon="replay",
        permissions=["retry"],
        dialog=dialog(
            "Run the failed checks again",
            "Each is charged as at launch, and given back if it fails again.",
            "Retry",
            Retrial,
        ),
    )
    def retry(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        return self._act(request, object_id, retry, "retried")

    @action(
        description="Resend consent link",
        icon="how_to_reg",
        permissions=["consent"],
        dialog=dialog(
            "Resend the consent link",
            "A new link goes to the subject; the old one stops working.",
            "Resend",
        ),
    )
    def resend_consent(
        self, request: HttpRequest, form: Any, object_id: str
    ) -> HttpResponse:
        return self._act(request, object_id, resend, "consent-link-sent")

    @action(
        description="Resend payment link",
        icon="payments",
        permissions=["payment"],
        dialog=dialog(
            "Resend the payment link",
            "A new link goes to the payer; the old one stops working.",
            "Resend",
        ),
    )
    def resend_payment(
        self, request: HttpRequest, form: Any, object_id: str
    ) -> HttpResponse:
        return self._act(request, object_id, resend_payment_link, "payment-link-sent")

    def _act(
        self,
        request: HttpRequest,
        object_id: str,
        verb: Callable[[Client, Any], Report],
        done: str,
        reason: str = "",
    ) -> HttpResponse:
        report = self.get_object(request, object_id)
        accounts = Account.objects.filter(environment=report.environment)
        account = accounts.get(workspace_id=report.workspace_id)
        actor = f"staff {request.user.get_username()}"[:100]
        client = Client(report.workspace, account, actor)
        try:
            with transaction.atomic():
                verb(client, report.pk)
                self.log_change(request, report, done, verb=done, reason=reason)
        except REFUSALS as e:
            self.message_user(request, str(e), messages.ERROR)
        else:
            told = f"Done: {done.replace('-', ' ')}."
            self.message_user(request, told, messages.SUCCESS)
        return back_to(request, report)

    @action(
        description="PDF",
        icon="picture_as_pdf",
        permissions=["reveal"],
        url_path="pdf",
        dialog=dialog("Take the PDF", f"{ASK} The PDF tells all.", "Go on", ReasonForm),
    )
    def pdf(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        report = self.get_object(request, object_id)
        if report is None:
            raise Http404
        reason = form.cleaned_data["reason"]
        who = trail.actor_of(request)
        trail.record("report.pdf-taken", who, report, fields=["pdf"], reason=reason)
        remember(request, report)
        url = reverse("admin:reports_report_document", args=[report.pk])
        return back_to(request, report, url)

    def document(self, request: HttpRequest, report_id: Any) -> HttpResponse:
        report = self.get_object(request, str(report_id))
        allowed = report and self.has_reveal_permission(request, str(report_id))
        # Without a reason it is not there; the button asks for one.
        if not (allowed and is_revealed(request, report)):
            raise Http404
        who = trail.actor_of(request)
        # Each time: after one reason it can be had for ten minutes.
        trail.record("report.pdf-downloaded", who, report)
        name = f'attachment; filename="report-{report.pk}.pdf"'
        return HttpResponse(
            report_pdf(report),
            content_type="application/pdf",
            headers={"Content-Disposition": name},
        )
