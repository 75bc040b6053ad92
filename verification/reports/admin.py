"""The admin page of a report: its whole history, and the verbs that staff have."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.urls import reverse

from verification.backoffice import audit
from verification.backoffice.approvals import staff_actor
from verification.backoffice.model_admin import (
    REVEAL_NOTICE,
    SEARCHED_LIST_TEMPLATE,
    ReadOnlyAdmin,
    Refusals,
    choice_filter,
    remember_reveal,
)
from verification.backoffice.widgets import (
    Facts,
    FactsForm,
    ReasonForm,
    dialog_action,
    dialog_verb,
    redirect_back,
)
from verification.checks.finding_words import humanise_name
from verification.checks.models import CheckResult, ResultStatus
from verification.consents.links import (
    AccessNotSendable,
    consent_links,
    send_access_link,
)
from verification.consents.models import ConsentRecord
from verification.documents.report import report_pdf
from verification.notifications.models import Notification
from verification.payments.links import payment_links
from verification.payments.models import Checkout, PaymentEvent, Refund
from verification.references.models import Reference
from verification.reports import waits
from verification.reports.ends import cancel
from verification.reports.hosted_links import (
    HostedLinks,
    NotRenewable,
    ResendTooSoon,
    link_end,
)
from verification.reports.launch import check_retryable, failed_checks, retry
from verification.reports.models import Report, ReportStatus
from verification.reports.pricing import charge_items, charge_movements
from verification.reports.status import NotCancellable, NotRetryable
from verification.values.clock import now
from verification.values.masking import mask
from verification.web.pages import attachment
from webhooks.models import Delivery, Event
from workspaces.ledger import InsufficientBalance, account_of
from workspaces.models import Client, LedgerEntry

# At most this many rows of each kind are shown.
SHOWN = 100
# The errors of verbs, whose text the page shows
REFUSALS = (
    NotCancellable,
    NotRetryable,
    NotRenewable,
    AccessNotSendable,
    ResendTooSoon,
    InsufficientBalance,
)


@dataclass
class ReportHistory:
    """All that is known of one report, read in a bounded number of queries."""

    report: Report
    changes: list[Any]
    results: list[CheckResult]
    records: list[ConsentRecord]
    references: list[Reference]
    checkouts: list[Checkout]
    events: list[Event]
    entries: list[LedgerEntry]
    messages: list[Notification]
    # Read only if there is a checkout
    refunds: list[Refund] = field(default_factory=list)
    provider_events: list[PaymentEvent] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """An event of the history; `code` is the state after it, as a code of `topic`."""

    at: datetime
    icon: str
    text: str
    row: Model | None = None
    actor: str = ""
    code: str = ""
    topic: str = ""


def load_history(report: Report) -> ReportHistory:
    # `every` includes superseded results, which were charged, and re-runs.
    every = CheckResult.every.filter(report=report).select_related("definition")
    results = list(every.order_by("position", "revision")[:SHOWN])
    events = Event.objects.filter(report_id=report.pk).select_related("delivery")
    # Ledger entries have an index by result, and none by report.
    entries = LedgerEntry.objects.filter(result_id__in=[r.pk for r in results])
    messages = Notification.objects.filter(report_id=report.pk)
    messages = messages.defer("context", "recipient")
    references = report.references.defer("answers", "evidence")
    history = ReportHistory(
        report,
        list(report.status_changes.all()[:SHOWN]),
        results,
        list(report.consent_records.defer("evidence")[:SHOWN]),
        list(references.order_by("id")[:SHOWN]),
        list(report.checkouts.order_by("id")[:SHOWN]),
        list(events.defer("payload").order_by("id")[:SHOWN]),
        list(entries.order_by("id")[:SHOWN]),
        list(messages.order_by("id")[:SHOWN]),
    )
    if history.checkouts:
        refunds = Refund.objects.filter(checkout__in=history.checkouts)
        history.refunds = list(refunds.order_by("id")[:SHOWN])
        received = PaymentEvent.objects.filter(checkout__in=history.checkouts)
        history.provider_events = list(received.defer("body").order_by("id")[:SHOWN])
    return history


def timeline(history: ReportHistory) -> list[TimelineEntry]:
    """Return an entry for everything that has a time, oldest first."""
    return sorted(_timeline_entries(history), key=lambda entry: entry.at)


def _timeline_entries(history: ReportHistory) -> Iterator[TimelineEntry]:
    for change in history.changes:
        # A note leaves the status as it is.
        code = change.target if change.target != change.source else ""
        yield TimelineEntry(
            change.created_at,
            "swap_horiz",
            change.trigger,
            actor=change.actor,
            code=code,
            topic="report",
        )
    for record in history.records:
        yield TimelineEntry(
            record.created_at,
            "how_to_reg",
            f"Consent, receipt {record.number}",
            record,
            code=record.decision,
            topic="consent",
        )
    for result in history.results:
        if result.completed_at:
            yield TimelineEntry(
                result.completed_at,
                "fact_check",
                result.definition.display_name,
                result,
                code=result.status,
                topic="check",
            )
    yield from _reference_entries(history)
    yield from _payment_entries(history)
    for event in history.events:
        yield TimelineEntry(event.created_at, "webhook", *_describe_delivery(event))


def _reference_entries(history: ReportHistory) -> Iterator[TimelineEntry]:
    for reference in history.references:
        name = f"Reference {reference.number}"
        asked = f"{name} asked for"
        yield TimelineEntry(reference.created_at, "reviews", asked, reference)
        if at := reference.submitted_at or reference.declined_at:
            text = f"{name} {reference.status.lower()}"
            yield TimelineEntry(at, "reviews", text, reference)


def _payment_entries(history: ReportHistory) -> Iterator[TimelineEntry]:
    for checkout in history.checkouts:
        name = f"Checkout {checkout.number}"
        begun = f"{name} begun at {checkout.provider}"
        if checkout.is_prompt:
            begun = f"{name}: M-Pesa prompt by {checkout.provider}"
        at, actor = checkout.created_at, checkout.started_by
        yield TimelineEntry(at, "point_of_sale", begun, checkout, actor)
        if checkout.paid_at:
            text = f"{name} paid: {checkout.paid_currency} {checkout.paid_amount}"
            yield TimelineEntry(checkout.paid_at, "payments", text, checkout)
    for refund in history.refunds:
        text = f"Refund of {refund.amount} {refund.status.lower()}"
        at = refund.ended_at or refund.created_at
        yield TimelineEntry(at, "undo", text, refund, refund.requested_by)
    for event in history.provider_events:
        text = f"{event.provider}: {event.type}"
        yield TimelineEntry(event.received_at, "receipt_long", text, event)


def _describe_delivery(event: Event) -> tuple[str, Model]:
    delivery: Delivery | None = getattr(event, "delivery", None)
    if delivery is None:
        return f"{event.name}, for no receiver", event
    text = f"{event.name} {delivery.status.lower()}, {delivery.attempts} attempts"
    return text, delivery


def filter_stuck(reports: QuerySet[Any]) -> QuerySet[Any]:
    """Return reports that run for over an hour; uses the index `reports_under_way`."""
    return reports.filter(
        status__in=[ReportStatus.RUNNING, ReportStatus.PARTIAL],
        completed_at=None,
        updated_at__lt=now() - timedelta(hours=1),
    )


StuckFilter = choice_filter(
    "stuck", "stuck", {"hour": ("running for over an hour", filter_stuck)}
)


WaitFilter = choice_filter(
    "waits for",
    "waits",
    {
        "consent": ("the subject's consent", waits.waiting_for_consent),
        "payment": ("the payment", waits.waiting_for_payment),
        "referee": ("a referee", waits.waiting_for_referee),
        "source": ("a source", waits.waiting_for_source),
        "queue": ("its turn in the queue", waits.waiting_in_the_queue),
    },
)


def not_retryable_reason(report: Any) -> str:
    """Return why a retry is useless or not allowed; empty if it can succeed."""
    failed = failed_checks(report)
    try:
        check_retryable(report, failed)
    except NotRetryable as e:
        return str(e)
    if not any(result.failure_retryable for result in failed):
        return "Their sources refused the failed checks for good."
    return ""


def subject_facts(report: Any) -> list[tuple[str, str]]:
    """Return the subject's members except its name, masked until they are revealed."""
    members = report.subject or {}
    shown = members if report.is_revealed else mask(members)
    return [
        (humanise_name(name), value)
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


class CancelForm(ReasonForm, ReportForm):
    pass


class RetryForm(ReportForm):
    def facts(self) -> Facts:
        report = self.report
        failed = failed_checks(report)
        account = account_of(report.workspace, report.environment)
        client = Client(report.workspace, account, "")
        movements = charge_movements(client, report, charge_items(failed))
        price = -sum((movement.amount for movement in movements), Decimal(0))
        return [
            *super().facts(),
            ("Checks", ", ".join(result.name for result in failed)),
            ("Charged to the workspace", f"{account.currency} {price:,.2f}"),
            ("Balance", f"{account.currency} {account.balance:,.2f}"),
        ]


@admin.register(Report)
class ReportAdmin(ReadOnlyAdmin):
    list_display = [
        "number",
        "workspace",
        "environment",
        "status",
        "subject_name",
        "created_at",
        "unchanged_since",
    ]
    list_filter = ["environment", "status", StuckFilter, WaitFilter, "payment_mode"]
    list_select_related = ["workspace"]
    search_ids = ("id", "workspace_id")
    search_exact = ("reference",)
    number_letter = "R"
    change_list_template = SEARCHED_LIST_TEMPLATE
    change_form_template = "admin/report.html"
    audits_opening = True
    # The template shows everything else from the history.
    fields = [
        "subject_type",
        "country",
        "package",
        "purpose",
        "reference",
        "created_by",
    ]
    personal_fields = ("decrypted_subject",)
    actions_detail = [
        "cancel",
        "retry",
        "resend_consent",
        "send_access_link",
        "resend_payment",
        "pdf",
        "reveal",
    ]
    offers = {
        "cancel": lambda report: not report.is_ended,
        "retry": lambda report: not not_retryable_reason(report),
        "consent": lambda report: consent_links.can_renew(
            report, getattr(report, "consent", None)
        ),
        "data_link": lambda report: hasattr(report, "consent") and not report.erased_at,
        "payment": lambda report: payment_links.can_renew(
            report, getattr(report, "payment", None)
        ),
    }
    own_pages = {"<uuid:report_id>/document.pdf": "document"}
    refusals = REFUSALS

    def get_ordering(self, request):
        # The index `reports_under_way` gives the page of stuck reports without a sort.
        is_stuck = request.GET.get(StuckFilter.parameter_name) == "hour"
        return ["updated_at"] if is_stuck else super().get_ordering(request)

    @admin.display(description="Subject")
    def decrypted_subject(self, report):
        return report.subject

    @admin.display(description="Unchanged since")
    def unchanged_since(self, report):
        return "-" if report.is_ended else report.updated_at

    def render_change_form(self, request, context, *arguments, **more):
        report = more["obj"]
        history = load_history(report)
        context |= {"history": history, "timeline": timeline(history), "report": report}
        context["subject"] = subject_facts(report)
        context["waits"] = waits.find_waits(report)
        if hasattr(report, "consent"):
            context["link_end"] = link_end(report.consent)
        # By its name, as `reports` does not import `monitoring`
        rules = apps.get_model("monitoring.Rule").objects.only("pk")
        context["rule"] = rules.filter(pk=report.monitoring_id).first()
        disputed = (r.report_id for r in history.results if r.disputed_at)
        context["disputed"] = set(disputed)
        has_failed = any(r.status == ResultStatus.FAILED for r in history.results)
        is_changeable = self.changeable_row(request, str(report.pk))
        if has_failed and report.is_ended and is_changeable:
            context["why_not_retried"] = not_retryable_reason(report)
        return super().render_change_form(request, context, *arguments, **more)

    @dialog_verb(
        "Cancel this report",
        "Checks that were not asked are given back. This cannot be undone.",
        "Cancel the report",
        CancelForm,
        description="Cancel",
        icon="cancel",
        permissions=["cancel"],
        audited="cancelled",
    )
    def cancel(self, request, form, report):
        cancel(_client(request, report), report.pk)
        return "Done: cancelled."

    @dialog_verb(
        "Run the failed checks again",
        "Each is charged as at launch, and given back if it fails again.",
        "Retry",
        RetryForm,
        description="Retry",
        icon="replay",
        permissions=["retry"],
        audited="retried",
    )
    def retry(self, request, form, report):
        retry(_client(request, report), report.pk)
        return "Done: retried."

    @dialog_verb(
        "Resend the consent link",
        "A new link goes to the subject; the old one stops working.",
        "Resend",
        description="Resend consent link",
        icon="how_to_reg",
        permissions=["consent"],
        audited="consent-link-sent",
    )
    def resend_consent(self, request, form, report):
        consent_links.resend(_client(request, report), report.pk)
        return "Done: consent link sent."

    @dialog_verb(
        "Send the subject a link to their data",
        "It goes to the subject's own addresses; an older link stops working.",
        "Send",
        description="Send data link",
        icon="person_search",
        permissions=["data_link"],
        audited="data-link-sent",
    )
    def send_access_link(self, request, form, report):
        send_access_link(_client(request, report), report.pk)
        return "Done: data link sent."

    @dialog_verb(
        "Resend the payment link",
        "A new link goes to the payer; the old one stops working.",
        "Resend",
        description="Resend payment link",
        icon="payments",
        permissions=["payment"],
        audited="payment-link-sent",
    )
    def resend_payment(self, request, form, report):
        payment_links.resend(_client(request, report), report.pk)
        return "Done: payment link sent."

    @dialog_action(
        "Download the PDF",
        f"{REVEAL_NOTICE} The PDF masks nothing.",
        "Continue",
        ReasonForm,
        description="PDF",
        icon="picture_as_pdf",
        permissions=["reveal"],
        url_path="pdf",
    )
    def pdf(self, request, form, object_id):
        report = self.get_row(request, object_id)
        reason = form.cleaned_data["reason"]
        actor = audit.actor_of(request)
        audit.record("report.pdf-taken", actor, report, fields=["pdf"], reason=reason)
        remember_reveal(request, report)
        url = reverse("admin:reports_report_document", args=[report.pk])
        return redirect_back(request, report, url)

    def document(self, request, report_id):
        report = self.get_revealed_row(request, report_id)
        # Record each download, as one reason allows them for ten minutes.
        audit.record("report.pdf-downloaded", audit.actor_of(request), report)
        return attachment(report_pdf(report), f"report-{report.pk}.pdf")


def _client(request, report):
    """Return the client of the report, with the staff's actor."""
    actor = staff_actor(request).name
    return Client.of(report.workspace, report.environment, actor)


class HostedLinkAdmin(ReadOnlyAdmin):
    """Consents, payments or references, to whose `visitor` staff send a new link."""

    links: HostedLinks[Any]
    visitor: str
    refusals: Refusals = (NotRenewable, ResendTooSoon)
    actions = ["resend"]
    confirm = {"resend": "A new link goes out; the old one stops working."}

    @admin.action(description="Send a new link", permissions=["act"])
    def resend(self, request, rows):
        self.run_on_each(
            request,
            rows,
            lambda row: self.links.renew(row.pk),
            f"A new link goes to the {self.visitor}.",
            audited="link-sent",
            change="sent a new link",
            refusals=self.refusals,
        )
