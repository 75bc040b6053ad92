"""Where a payment is for who opened its link: which page answers.

What each page of a payment shows.

Coming back from a payment provider, which by itself proves nothing.

The address to come back to only has the provider asked soon, and leads to a page that
tells what we know. The page's address says since when its reader waits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.timezone import now
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _
from django.views.decorators.http import require_safe

from verification import links
from verification.consents.messages import is_reachable
from verification.hosted.pages import (
    View,
    client_context,
    hosted,
    initials,
    qr_code,
    see_other,
)
from verification.notifications.models import Kind
from verification.payments.checkouts import SOURCES_CHANGED, closed_reason
from verification.payments.links import payment_links
from verification.payments.messages import payer_of
from verification.payments.models import (
    Checkout,
    CheckoutStatus,
    DisputeStatus,
    Payment,
    PaymentStatus,
    RefundStatus,
)
from verification.payments.polling import is_being_polled, poll_soon
from verification.payments.receipts import receipt_of
from verification.payments.refunds import is_left_to_staff, unfinished_part
from verification.payments.registry import (
    LABELS,
    NoPaymentProvider,
    can_prompt,
    checkout_provider,
    payment_methods,
)
from verification.providers.payment_provider import PaymentMethod, PromptFailure
from verification.reports.models import PaymentMode, Report
from verification.values.masking import mask_end
from verification.web.security_policy import allow
from workspaces.models import Environment


class Stage(StrEnum):
    DUE = "due"
    # Some came, and not all of it.
    PART = "part"
    # A person looks at what came.
    EXAMINED = "examined"
    WAITS = "waits"
    # The payer has come back, and the provider has not been asked since.
    CONFIRMING = "confirming"
    # An M-Pesa prompt waits on the payer's phone.
    PROMPTED = "prompted"
    FAILED = "failed"
    PAID = "paid"
    REFUNDED = "refunded"
    EXPIRED = "expired"
    SUSPENDED = "suspended"
    # A check can no longer be made as the subject agreed.
    SOURCES_CHANGED = "sources_changed"
    REPLACED = "replaced"
    ENDED = "ended"


# What `closed_as` says; whatever else it says, the report has ended.
STAGE_BY_CLOSURE = {
    "WAITS_FOR_CONSENT": Stage.WAITS,
    "REPLACED": Stage.REPLACED,
    PaymentStatus.EXPIRED: Stage.EXPIRED,
    "SUSPENDED": Stage.SUSPENDED,
    SOURCES_CHANGED: Stage.SOURCES_CHANGED,
    "EXAMINED": Stage.EXAMINED,
}
# Other than 200: the link leads nowhere any more.
STATUS_CODES = {Stage.EXPIRED: 410, Stage.REPLACED: 410, Stage.ENDED: 410}
# At these the page has the button to pay.
PAYABLE = frozenset({Stage.DUE, Stage.PART, Stage.FAILED})
POLLED_STAGES = PAYABLE | {Stage.EXPIRED, Stage.SUSPENDED, Stage.SOURCES_CHANGED}


@dataclass(frozen=True, slots=True)
class ProviderReturn:
    """A payer has come back from this checkout, to be told by what we hear `since`."""

    checkout: Checkout
    since: datetime

    @property
    def is_polled(self) -> bool:
        """The provider was asked after the payer came back; it stays so."""
        asked_at = self.checkout.polled_at
        return asked_at is not None and asked_at >= self.since

    @property
    def is_asked(self) -> bool:
        """The provider is being asked, and has not answered since."""
        checkout = self.checkout
        # A payer may have answered a prompt at the last moment.
        is_open = checkout.status == CheckoutStatus.OPEN
        is_late = checkout.failure == PromptFailure.TIMED_OUT
        if not (is_open or is_late) or not checkout.next_poll_at:
            return False
        if not self.is_polled or checkout.unanswered:
            return True
        return is_being_polled(checkout)


def stage_of(
    payment: Payment,
    generation: int,
    came_back: ProviderReturn | None,
    at: datetime,
    *,
    has_parts: bool = False,
) -> Stage:
    # Who has paid sees it whatever link was sent meanwhile.
    if payment.status == PaymentStatus.PAID:
        return Stage.PAID
    if payment.status == PaymentStatus.REFUNDED:
        return Stage.REFUNDED
    closed = closed_reason(payment.report, payment, generation, at)
    failed = payment.status == PaymentStatus.FAILED
    stage = Stage.PART if has_parts else Stage.FAILED if failed else Stage.DUE
    if closed:
        stage = STAGE_BY_CLOSURE.get(closed, Stage.ENDED)
    if came_back and stage in POLLED_STAGES:
        if came_back.checkout.is_waiting_prompt:
            return Stage.PROMPTED
        if came_back.is_asked:
            return Stage.CONFIRMING
    return stage


TIMEZONE = "Africa/Nairobi"
# Staff may call checks otherwise; then they are shown by those names.
CHECKS = (
    _("National identity"),
    _("KRA PIN"),
    _("Employer reference"),
    _("Business registration"),
    _("CRB score"),
    _("CRB standard report"),
    _("CRB full report"),
    _("Credit bureau score"),
    _("Credit bureau status"),
    _("Credit bureau company report"),
)
# What a receipt of a top-up says was bought; `payments.receipts` says it.
RECEIPT_ITEMS = (_("Top-up of the balance"),)
# What the provider shows the payer; `ordering.paying` says it.
PAYMENT_METHODS = {
    (PaymentMethod.MPESA, PaymentMethod.CARD): _("M-Pesa or a card"),
    (PaymentMethod.CARD,): _("a card"),
    (PaymentMethod.MPESA,): _("M-Pesa"),
}
DESCRIPTIONS = (_("Verification report for %(name)s"), _("Top-up for %(name)s"))


@dataclass(frozen=True, slots=True)
class RefundLine:
    """Money of a checkout on its way back, or back already."""

    amount: str
    is_done: bool
    at: Any


def format_money(amount: Decimal | None, currency: str) -> str:
    # Together on one line, however narrow.
    return f"{currency}\N{NO-BREAK SPACE}{amount or 0:,.2f}"


def check_prices(report: Report, currency: str) -> list[tuple[str, str]]:
    """Name and price of each, as agreed; no price where an earlier result will do."""
    results = report.results.select_related("definition").order_by("position")
    return [
        _price_line(result.definition.display_name, result.price, currency)
        for result in results
    ]


def _price_line(name: str, price: Decimal, currency: str) -> tuple[str, str]:
    return gettext(name), format_money(price, currency) if price else ""


def base_context(report: Report) -> dict[str, Any]:
    return {
        **client_context(report.workspace),
        "is_play": report.environment == Environment.SANDBOX,
        "timezone": TIMEZONE,
    }


def order_context(payment: Payment, checkouts: list[Checkout]) -> dict[str, Any]:
    """What is paid for, by whom it was asked, and until when."""
    report = payment.report
    came = sum((part.refundable for part in waiting_parts(checkouts)), Decimal(0))
    return {
        "amount": format_money(payment.amount, payment.currency),
        "came": format_money(came, payment.currency),
        "has_parts": came > 0,
        "missing": format_money(payment.amount - came, payment.currency),
        "checks": check_prices(report, payment.currency),
        "purpose": report.purpose,
        "reference": report.reference,
        "about": _subject_initials(report),
        "expires_at": payment.expires_at,
        "provider": provider_label(report.environment),
        "ways": payment_methods_text(report.environment),
        "can_prompt": can_prompt(
            report.environment, payment.amount - came, payment.currency
        ),
    }


def provider_label(environment: str) -> str | None:
    """Who takes the money; "" is the sandbox. None where nobody does at present."""
    try:
        name = checkout_provider(environment).name
    except NoPaymentProvider:
        return None
    return LABELS.get(name, "")


def payment_methods_text(environment: str) -> str:
    """How the payer can pay, as a sentence says it; "" in the sandbox."""
    return (
        gettext(PAYMENT_METHODS[found])
        if (found := payment_methods(environment)) in PAYMENT_METHODS
        else ""
    )


def checkout_origin(environment: str) -> str:
    """Where the form leads to in the end; Chromium counts that as where it is sent."""
    try:
        origin = checkout_provider(environment).checkout_origin
    except NoPaymentProvider:
        origin = ""
    base = urlsplit(settings.BASE_URL)
    return origin or f"{base.scheme}://{base.netloc}"


def find_open_checkout(checkouts: list[Checkout]) -> Checkout | None:
    """One the payer has left without an outcome that we know."""
    return next(
        (one for one in checkouts if one.status == CheckoutStatus.OPEN and one.url),
        None,
    )


def prompt_context(checkouts: list[Checkout]) -> dict[str, Any] | None:
    """The one that waits on the payer's phone, if any."""
    for one in checkouts:
        if one.is_waiting_prompt:
            return {
                "checkout": one,
                # Enough for its payer; others may have the link, too.
                "phone": f"+254{mask_end(str(one.phone or ''), 3)}",
                "amount": format_money(one.amount, one.currency),
                "is_sent": bool(one.session),
                "is_overdue": one.is_overdue_prompt,
                "ends_at": one.prompt_ends_at,
            }
    return None


def waiting_parts(checkouts: list[Checkout]) -> list[Checkout]:
    """Return the parts that wait for the rest."""
    return [one for one in checkouts if one.is_part and not one.is_counted]


def extra_payments(checkouts: list[Checkout]) -> list[dict[str, Any]]:
    """Money that came and pays for nothing."""
    return [
        {
            "number": one.number,
            "amount": format_money(one.paid_amount, one.paid_currency),
            "is_other": one.paid_currency != one.currency,
            "is_short": (one.paid_amount or Decimal(0)) < one.amount,
            "given_back": refund_lines(one),
            "left": unreturned_amounts(one),
        }
        for one in checkouts
        if one.status == CheckoutStatus.PAID and not (one.is_counted or one.is_part)
    ]


def refund_lines(checkout: Checkout) -> list[RefundLine]:
    shown = {RefundStatus.APPROVED, RefundStatus.DONE}
    return [
        RefundLine(
            format_money(refund.amount, checkout.paid_currency),
            refund.status == RefundStatus.DONE,
            refund.ended_at,
        )
        for refund in sorted(checkout.refunds.all(), key=lambda one: one.pk)
        if refund.status in shown
    ]


def unreturned_amounts(checkout: Checkout) -> dict[str, str]:
    """Return the amounts of idle money that no refund returns, by reason."""
    currency, idle = checkout.paid_currency, checkout.refundable
    if checkout.is_counted:
        idle = max(idle - checkout.counted_amount, Decimal(0))
    is_kept = checkout.reason_to_keep and not checkout.review_flags
    requested = [
        refund.amount
        for refund in checkout.refunds.all()
        if refund.status == RefundStatus.REQUESTED
    ]
    amounts = {
        "disputed": _disputed_amount(checkout, DisputeStatus.OPEN),
        "lost": _disputed_amount(checkout, DisputeStatus.LOST),
        "examined": sum(requested, Decimal(0 if is_kept else idle)),
        "kept": idle if is_kept else Decimal(0),
    }
    return {
        why: format_money(amount, currency) for why, amount in amounts.items() if amount
    }


def _disputed_amount(checkout: Checkout, status: DisputeStatus) -> Decimal:
    disputes = checkout.disputes.all()
    return sum((one.held for one in disputes if one.status == status), Decimal(0))


def receipt_context(payment: Payment, counted: list[Checkout]) -> dict[str, Any]:
    """Return the receipt as of the payment; later edits of the report change nothing.
    Several checkouts may have paid it together."""
    url = links.payment_url(payment.pk, payment.generation)
    checkout, *_parts = counted
    kept = receipt_of(checkout)
    paid = sum((one.counted_amount for one in counted), Decimal(0))
    surplus = (checkout.paid_amount or Decimal(0)) - checkout.counted_amount
    return {
        "client": kept["requester"],
        "purpose": kept["purpose"],
        "reference": kept["reference"],
        "about": initials(kept.get("about", "")),
        "checks": [
            _price_line(item["name"], Decimal(item["price"]), checkout.paid_currency)
            for item in kept["checks"]
        ],
        "provider": LABELS.get(checkout.provider, ""),
        "checkout": checkout,
        "payments": [
            (one, format_money(one.paid_amount, one.paid_currency))
            for one in sorted(counted, key=lambda one: one.pk)
        ],
        "amount": format_money(paid, checkout.paid_currency),
        "surplus": format_money(surplus, checkout.paid_currency) if surplus else "",
        "given_back": [back for one in counted for back in refund_lines(one)],
        "left": unreturned_amounts(checkout),
        "is_left_to_staff": any(
            unfinished_part(one) and is_left_to_staff(one) for one in counted
        ),
        "url": url,
        "qr": qr_code(url),
    }


def renewal_context(payment: Payment, stage: Stage) -> dict[str, Any]:
    """What the page of a closed link says of another link, or of messages to come."""
    report = payment.report
    if stage in {Stage.WAITS, Stage.EXAMINED}:
        kind = Kind.PAYMENT_REQUEST if stage == Stage.WAITS else Kind.PAYMENT_REFUNDED
        return {"is_reached": is_reachable(report, kind, payer_of(report))}
    if stage not in {Stage.EXPIRED, Stage.SOURCES_CHANGED}:
        return {}
    return {
        "can_renew": stage == Stage.EXPIRED and payment_links.can_visitor_renew(report),
        "ask_path": reverse("payment:ask-client", args=[payment.pk]),
        "can_ask": bool(payment_links.client_action_needed(report, payment, now())),
        "has_asked": payment.link_requested_at is not None,
    }


def _subject_initials(report: Report) -> str:
    """Whom a nominated payer pays for."""
    if report.payment_mode != PaymentMode.THIRD_PARTY:
        return ""
    return initials(report.subject_name)


# Later than any moment that is meant.
MAX_TIMESTAMP_DIGITS = 14
SCRIPTS = {"script_src": ["'self'"], "connect_src": ["'self'"]}


def make_return_view(page: Callable[[UUID, UUID, str], str]) -> View:
    """`page` makes the address of the page from row, checkout and query."""

    @require_safe
    @hosted
    def view(request: HttpRequest, row: UUID, checkout: UUID) -> HttpResponse:
        at = now()
        if not poll_soon(checkout):
            # Asked within the last seconds: what was answered then is what is told.
            asked = Checkout.objects.filter(pk=checkout).values_list("polled_at")
            at = (asked.first() or (None,))[0] or at
        return see_other(page(row, checkout, f"since={int(at.timestamp() * 1000)}"))

    return view


def since(request: HttpRequest) -> datetime:
    text = request.GET.get("since", "")
    if not (text.isascii() and text.isdigit() and len(text) < MAX_TIMESTAMP_DIGITS):
        return now()
    return datetime.fromtimestamp(int(text) / 1000, UTC)


def state_response(*said: object) -> HttpResponse:
    """What a script compares, which loads the page anew when it changes."""
    return HttpResponse("/".join(map(str, said)), content_type="text/plain")


def poll_again(
    request: HttpRequest, checkout: Checkout, told: HttpResponse
) -> HttpResponse:
    """What the script is `told`; has the provider asked again.

    Not if the script is on another page: the one that it loads now would say once more
    that the provider is being asked, and so on each time.
    """
    if request.GET.get("seen") == told.content.decode():
        poll_soon(checkout.pk)
    return told


def allow_script(response: HttpResponse) -> HttpResponse:
    allow(response, **SCRIPTS)
    return response
