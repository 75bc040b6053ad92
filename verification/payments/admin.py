"""Admin pages of payments, checkouts, refunds, disputes, provider events and alerts.

Staff send payment links again, poll providers, clear review flags, and request, approve
or record refunds.
"""

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.html import format_html

from verification.backoffice.approvals import staff_actor
from verification.backoffice.model_admin import (
    ApprovalAdmin,
    OtherNumbers,
    ReadOnlyAdmin,
    choice_filter,
    confirmation_page,
    empty_filter,
)
from verification.backoffice.widgets import link, link_by_id, table
from verification.payments.links import payment_links
from verification.payments.models import (
    Checkout,
    CheckoutStatus,
    Dispute,
    OperatorAlert,
    Payment,
    PaymentEvent,
    Refund,
    RefundStatus,
    ReviewFlag,
)
from verification.payments.refunds import (
    NotRefundable,
    approve_refund,
    is_recorded,
    record_refund_elsewhere,
    reject_refund,
    request_refund,
    resolve_review_flags,
    unfinished_part,
    with_unfinished_part,
)
from verification.payments.registry import PROVIDER_NAMES, provider_named
from verification.payments.settlement import poll_now
from verification.providers.base import ProviderError
from verification.reports.admin import HostedLinkAdmin
from verification.reports.models import PaymentMode, Report
from verification.values.masking import mask

MAX_ROWS_SHOWN = 50


class MoneyAdmin(ReadOnlyAdmin):
    """A list that names the customer and the payer of each row.

    `checkout_path` leads from a row to its checkout; it is "" for a checkout.
    """

    audits_opening = True
    checkout_path = ""

    def checkout_of(self, row: Any) -> Checkout:
        checkout: Checkout = (
            getattr(row, self.checkout_path) if self.checkout_path else row
        )
        return checkout

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        path = f"{self.checkout_path}__" if self.checkout_path else ""
        paid_for = ("report__workspace", "report__payment", "account__workspace")
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.select_related(*(path + name for name in paid_for))

    @admin.display(description="Checkout")
    def checkout_number(self, row: Any) -> str:
        checkout = self.checkout_of(row)
        return link(checkout, checkout.number)

    @admin.display(description="Customer")
    def customer(self, row: Any) -> str:
        return link(self.checkout_of(row).workspace)

    @admin.display(description="Payer")
    def payer(self, row: Any) -> str:
        checkout = self.checkout_of(row)
        if checkout.report is None:
            return "the customer"
        payment = getattr(checkout.report, "payment", None)
        # An edit of the draft may have replaced the payment, and its payer.
        if payment is None or payment.pk != checkout.payment_id:
            return "-"
        return payer_text(checkout.report, payment)


def payer_text(report: Report, payment: Payment) -> str:
    """Return the subject's name, or the nominated payer with masked details."""
    if report.payment_mode == PaymentMode.CANDIDATE:
        return format_html("<bdi>{}</bdi>", report.subject_name)
    details = mask(payment.payer or {})
    return ", ".join(str(text) for text in details.values() if text) or "-"


@admin.register(Payment)
class PaymentAdmin(HostedLinkAdmin):
    audits_opening = True
    links = payment_links
    visitor = "payer"
    # A payment has several checkouts, whose receipts have numbers.
    other_numbers = OtherNumbers("P", Checkout, of="payment_id")
    list_display = [
        "id",
        "report_page",
        "customer",
        "payer_shown",
        "status",
        "amount",
        "currency",
        "paid_at",
    ]
    list_filter = ["status"]
    list_select_related = ["report__workspace"]
    search_ids = ("id", "report_id")
    fields = [
        "id",
        "report_page",
        "customer",
        "payer_shown",
        "status",
        "amount",
        "currency",
        "generation",
        "link_made_at",
        "expires_at",
        "reminded_at",
        "link_requested_at",
        "paid_at",
        "checkouts",
        "refunds",
        "disputes",
    ]
    personal_fields = ("decrypted_payer",)

    @admin.display(description="Customer")
    def customer(self, payment: Payment) -> str:
        return link(payment.report.workspace)

    @admin.display(description="Payer")
    def payer_shown(self, payment: Payment) -> str:
        return payer_text(payment.report, payment)

    @admin.display(description="Checkouts")
    def checkouts(self, payment: Any) -> str:
        rows = _checkouts_of(payment).order_by("-id")[:MAX_ROWS_SHOWN]
        headings = ["checkout", "status", "money", "since", "review flags"]
        cells = (
            (
                link(row, row.number, payment.reader),
                row.get_status_display(),
                row.money,
                row.created_at,
                ", ".join(row.review_flag_labels),
            )
            for row in rows
        )
        return table(headings, cells) if rows else "-"

    @admin.display(description="Refunds")
    def refunds(self, payment: Any) -> str:
        of_payment = Refund.objects.filter(checkout__in=_checkouts_of(payment))
        return refund_table(of_payment, payment.reader)

    @admin.display(description="Disputes")
    def disputes(self, payment: Any) -> str:
        of_payment = Dispute.objects.filter(checkout__in=_checkouts_of(payment))
        return dispute_table(of_payment, payment.reader)

    @admin.display(description="Nominated payer")
    def decrypted_payer(self, payment: Payment) -> dict[str, str] | None:
        return payment.payer


def _checkouts_of(payment: Payment) -> QuerySet[Checkout]:
    return Checkout.objects.filter(payment_id=payment.pk)


def refund_table(refunds: QuerySet[Refund], reader: Any) -> str:
    rows = refunds.select_related("checkout").order_by("-id")[:MAX_ROWS_SHOWN]
    headings = ["refund", "status", "why", "requested by", "at", "ended"]
    cells = (
        (
            link(row, row.money, reader),
            row.get_status_display(),
            row.get_cause_display(),
            row.requested_by,
            row.created_at,
            row.ended_at or "-",
        )
        for row in rows
    )
    return table(headings, cells) if rows else "-"


def dispute_table(disputes: QuerySet[Dispute], reader: Any) -> str:
    rows = disputes.select_related("checkout").order_by("-id")[:MAX_ROWS_SHOWN]
    headings = ["dispute", "status", "amount", "held", "since", "ended"]
    cells = (
        (
            link(row, row.provider_dispute, reader),
            row.get_status_display(),
            row.amount,
            row.held_amount,
            row.created_at,
            row.ended_at or "-",
        )
        for row in rows
    )
    return table(headings, cells) if rows else "-"


def flag_table(checkout: Checkout) -> str:
    """Return a table of raised review flags with their state, the newest first.

    Alerts are kept for 90 days; an older flag that is open has no time.
    """
    is_open = dict.fromkeys(checkout.review_flag_labels, True)
    rows: list[tuple[Any, ...]] = []
    for alert in checkout.operator_alerts.order_by("-id")[:MAX_ROWS_SHOWN]:
        if alert.message in ReviewFlag.labels:
            state = "open" if is_open.pop(alert.message, False) else "cleared"
            rows.append((alert.message, state, alert.created_at))
    older = [(label, "open", "-") for label in is_open]
    shown = [*older, *rows]
    return table(["flag", "state", "raised"], shown) if shown else "-"


def filter_flagged(flag: str, checkouts: QuerySet[Checkout]) -> QuerySet[Checkout]:
    flagged = checkouts.exclude(review_flags=[])
    return flagged.filter(review_flags__contains=[flag]) if flag else flagged


def filter_provider(name: str, checkouts: QuerySet[Checkout]) -> QuerySet[Checkout]:
    return checkouts.filter(provider=name)


ReviewFlagFilter = choice_filter(
    "review flag",
    "review_flag",
    {
        "any": ("a person must look", partial(filter_flagged, "")),
        **{
            flag: (label, partial(filter_flagged, flag))
            for flag, label in ReviewFlag.choices
        },
    },
)
UnfinishedPartFilter = choice_filter(
    "not done",
    "undone",
    {"part": ("has a part that was not done", with_unfinished_part)},
)
# Django's own filter would read the whole table to list the providers.
ProviderFilter = choice_filter(
    "provider",
    "provider",
    {name: (name, partial(filter_provider, name)) for name in PROVIDER_NAMES},
)


class RefundForm(forms.Form):
    amount = forms.DecimalField(
        min_value=Decimal("0.01"), max_digits=12, decimal_places=2
    )
    reason = forms.CharField(max_length=300)
    # The refundable amount that the page showed.
    expected = forms.DecimalField(
        max_digits=12, decimal_places=2, widget=forms.HiddenInput
    )
    # The unfinished part that the page showed.
    unfinished = forms.DecimalField(
        max_digits=12, decimal_places=2, widget=forms.HiddenInput
    )


# The end of the message about a new refund.
OUTCOMES = {
    RefundStatus.REQUESTED: "waits for a second person",
    RefundStatus.APPROVED: "is given back",
    RefundStatus.DONE: "is recorded as given back",
}


@admin.register(Checkout)
class CheckoutAdmin(MoneyAdmin):
    number_letter = "P"
    list_display = [
        "number",
        "customer",
        "payer",
        "provider",
        "status",
        "money",
        "review_flags_text",
        "created_at",
    ]
    list_filter = [
        ReviewFlagFilter,
        UnfinishedPartFilter,
        "status",
        ProviderFilter,
        "environment",
    ]
    search_ids = ("id", "report_id", "payment_id", "account_id")
    actions = ["poll", "refund", "record_elsewhere", "clear_flags"]
    confirm = {"poll": "The service asks the provider for the payment. No money moves."}
    fields = [
        "id",
        "number",
        "customer",
        "payer",
        "purpose_page",
        "payment_id",
        "environment",
        "provider",
        "kind",
        "session",
        "transaction",
        "status",
        "failure",
        "flags",
        "reason_to_keep",
        "message",
        "amount",
        "currency",
        "paid_amount",
        "paid_currency",
        "is_counted",
        "refunded",
        "disputed",
        "refundable",
        "started_by",
        "created_at",
        "paid_at",
        "next_poll_at",
        "unanswered",
        "refunds",
        "disputes",
        "events",
    ]
    personal_fields = ("phone",)

    @admin.display(description="For")
    def purpose_page(self, checkout: Checkout) -> str:
        if checkout.report_id:
            return link_by_id("reports.report", checkout.report_id)
        text = f"top-up of {checkout.account_id}"
        return link_by_id("workspaces.account", checkout.account_id, text)

    @admin.display(description="Review flags")
    def review_flags_text(self, checkout: Checkout) -> str:
        return ", ".join(checkout.review_flag_labels)

    @admin.display(description="Review flags")
    def flags(self, checkout: Checkout) -> str:
        return flag_table(checkout)

    @admin.display(description="Refunds")
    def refunds(self, checkout: Any) -> str:
        return refund_table(checkout.refunds.all(), checkout.reader)

    @admin.display(description="Disputes")
    def disputes(self, checkout: Any) -> str:
        return dispute_table(checkout.disputes.all(), checkout.reader)

    @admin.display(description="Events")
    def events(self, checkout: Any) -> str:
        events = checkout.events.defer("body").order_by("-id")[:MAX_ROWS_SHOWN]
        rows = (
            (event.received_at, link(event, reader=checkout.reader)) for event in events
        )
        return table(["received", "event"], rows)

    def has_refund_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("payments.change_refund")

    @admin.action(description="Ask the provider now", permissions=["act"])
    def poll(self, request: HttpRequest, checkouts: QuerySet[Checkout]) -> None:
        for checkout in checkouts:
            with transaction.atomic():
                poll_now(checkout.pk)
                self.log_change(request, checkout, "asked the provider", verb="polled")
            message = f"The provider is asked for {checkout.number} in a moment."
            self.message_user(request, message)

    @admin.action(description="Clear review flags", permissions=["act"])
    def clear_flags(
        self, request: HttpRequest, checkouts: QuerySet[Checkout]
    ) -> TemplateResponse | None:
        reason = request.POST.get("reason", "").strip()[:500]
        if not reason:
            return confirmation_page(
                self,
                request,
                "admin/ask_why.html",
                action="clear_flags",
                title="Clear review flags",
                rows=checkouts,
                notice="Say what was found, and what was done about it.",
            )
        for checkout in checkouts:
            # The page names the flags, as others may have been raised since then.
            names = request.POST.getlist(f"review-flags-{checkout.pk}")
            with transaction.atomic():
                cleared = ", ".join(resolve_review_flags(checkout.pk, names, reason))
                if cleared:
                    more = {"verb": "flags-cleared", "reason": reason}
                    change = f"cleared {cleared}: {reason}"
                    self.log_change(request, checkout, change, **more)
            if cleared:
                message = f"{checkout.number}: {cleared} is cleared."
                self.message_user(request, message, messages.SUCCESS)
            else:
                message = f"{checkout.number} did not have these flags."
                self.message_user(request, message, messages.INFO)
        return None

    @admin.action(description="Give money back", permissions=["refund"])
    def refund(
        self, request: HttpRequest, checkouts: QuerySet[Checkout]
    ) -> TemplateResponse | None:
        checkout = self._only(request, checkouts.select_related("report"))
        if checkout is None:
            return None
        if checkout.status != CheckoutStatus.PAID or not checkout.refundable:
            message = f"Nothing of {checkout.number} can be given back."
            self.message_user(request, message, messages.ERROR)
            return None
        data = request.POST if "confirmed" in request.POST else None
        most, part = checkout.refundable, unfinished_part(checkout)
        shown = {"amount": most, "expected": most, "unfinished": part}
        form = RefundForm(data, initial=shown)
        if not form.is_valid():
            return confirmation_page(
                self,
                request,
                "admin/refund.html",
                action="refund",
                title="Give money back",
                checkout=checkout,
                form=form,
                part=part,
            )
        given, is_part = form.cleaned_data, "part" in request.POST
        make = partial(
            request_refund,
            checkout.pk,
            given["unfinished" if is_part else "amount"],
            reason=given["reason"],
            by=staff_actor(request),
            expected=given["expected"],
            is_part=is_part,
        )
        self._make_refund(request, checkout, "refund-requested", make)
        return None

    @admin.action(
        description="Record the refund made at the provider", permissions=["refund"]
    )
    def record_elsewhere(
        self, request: HttpRequest, checkouts: QuerySet[Checkout]
    ) -> TemplateResponse | None:
        """Record a refund from the provider's dashboard, as its API lists it."""
        checkout = self._only(request, checkouts)
        if checkout is None:
            return None
        try:
            provider = provider_named(checkout.provider)
            known = list(provider.refunds_of(checkout.transaction))
        except ProviderError as e:
            message = f"The provider does not say what was given back: {e.code}."
            self.message_user(request, message, messages.ERROR)
            return None
        found = {one.refund: one for one in known if not is_recorded(checkout, one)}
        chosen = found.get(request.POST.get("refund", ""))
        reason = request.POST.get("reason", "").strip()
        if chosen and reason:
            record = partial(
                record_refund_elsewhere,
                checkout.pk,
                chosen,
                reason=reason,
                by=staff_actor(request),
            )
            self._make_refund(request, checkout, "refund-recorded", record)
        elif found:
            return confirmation_page(
                self,
                request,
                "admin/refund_elsewhere.html",
                action="record_elsewhere",
                title="Record the refund made at the provider",
                checkout=checkout,
                found=found.values(),
            )
        else:
            message = f"The provider knows of no refund of {checkout.number} but ours."
            self.message_user(request, message, messages.INFO)
        return None

    def _only(
        self, request: HttpRequest, checkouts: QuerySet[Checkout]
    ) -> Checkout | None:
        """Return the chosen checkout. Show a message if there are several."""
        if len(checkouts) == 1:
            return checkouts[0]
        self.message_user(request, "Choose one checkout.", messages.ERROR)
        return None

    def _make_refund(
        self,
        request: HttpRequest,
        checkout: Checkout,
        verb: str,
        make: Callable[[], Refund],
    ) -> None:
        """Make the refund and record it as `verb` in the audit trail."""
        try:
            with transaction.atomic():
                refund = make()
                money = f"{checkout.paid_currency} {refund.amount:,.2f}"
                change = f"refund of {money} ({refund.pk})"
                if refund.provider_refund:
                    name = refund.provider_refund
                    change = f"recorded refund {name} of {refund.amount}"
                more = {"verb": verb, "reason": refund.reason}
                self.log_change(request, checkout, f"{change}: {refund.reason}", **more)
        except NotRefundable as e:
            self.message_user(request, f"{checkout.number}: {e}", messages.ERROR)
        else:
            message = f"{money} {OUTCOMES[RefundStatus(refund.status)]}."
            self.message_user(request, message, messages.SUCCESS)


@admin.register(Refund)
class RefundAdmin(MoneyAdmin, ApprovalAdmin):
    checkout_path = "checkout"
    other_numbers = OtherNumbers("P", Checkout, "checkout")
    list_display = [
        "id",
        "checkout_number",
        "customer",
        "payer",
        "money",
        "status",
        "requested_by",
        "created_at",
    ]
    list_filter = ["status", "cause", "checkout__environment"]
    search_ids = ("id", "checkout_id", "checkout__report_id")
    search_exact = ("provider_refund",)
    verbs = {"approve": approve_refund, "reject": reject_refund}
    consequences = {
        "approve": "This money is given back. It cannot be undone.",
        "reject": "This money is not given back. Another refund can be asked for.",
    }
    columns = [
        "money",
        "workspace",
        "environment",
        "reason",
        "requested_by",
        "provider",
    ]
    fields = [
        "id",
        "checkout_number",
        "customer",
        "payer",
        "amount",
        "cause",
        "reason",
        "status",
        "requested_by",
        "needs_second",
        "decided_by",
        "decided_at",
        "provider_refund",
        "message",
        "tries",
        "next_try_at",
        "created_at",
        "ended_at",
    ]


@admin.register(Dispute)
class DisputeAdmin(MoneyAdmin):
    checkout_path = "checkout"
    other_numbers = OtherNumbers("P", Checkout, "checkout")
    list_display = [
        "provider_dispute",
        "checkout_number",
        "customer",
        "payer",
        "status",
        "amount",
        "held_amount",
        "created_at",
        "ended_at",
    ]
    list_filter = ["status", "checkout__environment"]
    search_ids = ("id", "checkout_id", "checkout__report_id")
    search_exact = ("provider_dispute",)
    fields = [
        "id",
        *list_display,
    ]


@admin.register(PaymentEvent)
class PaymentEventAdmin(ReadOnlyAdmin):
    list_display = ["id", "provider", "type", "checkout_page", "received_at"]
    search_ids = ("id", "checkout_id")
    search_exact = ("event_id",)
    fields = [
        "id",
        "provider",
        "event_id",
        "type",
        "checkout",
        "body_hash",
        "received_at",
    ]
    personal_fields = ("body",)

    def get_queryset(self, request):
        return super().get_queryset(request).defer("body")

    @admin.display(description="SHA-256 of the body")
    def body_hash(self, event):
        return bytes(event.body_sha256).hex()


@admin.register(OperatorAlert)
class OperatorAlertAdmin(ReadOnlyAdmin):
    list_display = ["created_at", "kind", "message", "times", "notified_at"]
    list_filter = ["kind", empty_filter("notified_at", "not sent", "sent")]
    search_ids = ("id", "checkout_id")
    fields = [
        "id",
        "kind",
        "message",
        "times",
        "checkout",
        "created_at",
        "notified_at",
    ]
