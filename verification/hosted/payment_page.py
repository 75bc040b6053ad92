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
from verification.consents.messages import is_reached
from verification.hosted.pages import (
    View,
    client_of,
    hosted,
    initials,
    qr_code,
    see_other,
)
from verification.notifications.models import Kind
from verification.payments.checkouts import SOURCES_CHANGED, closed_as
from verification.payments.links import is_renewed_by_payer, why_client_is_needed
from verification.payments.messages import payer_of
from verification.payments.models import (
    Checkout,
    CheckoutStatus,
    DisputeStatus,
    Payment,
    PaymentStatus,
    RefundStatus,
)
from verification.payments.polling import is_being_asked, look_soon
from verification.payments.receipts import receipt_of
from verification.payments.refunds import is_doubtful, unfinished_part
from verification.payments.registry import (
    LABELS,
    NoPaymentProvider,
    checkout_provider,
    takes_prompt,
    ways,
)
from verification.providers.checkout import PromptFailure, Way
from verification.reports.models import PaymentMode, Report
from verification.values.masking import end
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
CLOSED = {
    "WAITS_FOR_CONSENT": Stage.WAITS,
    "REPLACED": Stage.REPLACED,
    PaymentStatus.EXPIRED: Stage.EXPIRED,
    "SUSPENDED": Stage.SUSPENDED,
    SOURCES_CHANGED: Stage.SOURCES_CHANGED,
    "EXAMINED": Stage.EXAMINED,
}
# Other than 200: the link leads nowhere any more.
STATUSES = {Stage.EXPIRED: 410, Stage.REPLACED: 410, Stage.ENDED: 410}
# At these the page has the button to pay.
PAYABLE = frozenset({Stage.DUE, Stage.PART, Stage.FAILED})
TO_BE_ASKED = PAYABLE | {Stage.EXPIRED, Stage.SUSPENDED, Stage.SOURCES_CHANGED}


@dataclass(frozen=True, slots=True)
class Return:
    """A payer has come back from this checkout, to be told by what we hear `since`."""

    checkout: Checkout
    since: datetime

    @property
    def is_looked_at(self) -> bool:
        """The provider was asked after the payer came back; it stays so."""
        asked_at = self.checkout.looked_at
        return asked_at is not None and asked_at >= self.since

    @property
    def is_asked(self) -> bool:
        """The provider is being asked, and has not answered since."""
        checkout = self.checkout
        # A payer may have answered a prompt at the last moment.
        is_open = checkout.status == CheckoutStatus.OPEN
        is_late = checkout.failure == PromptFailure.TIMED_OUT
        if not (is_open or is_late) or not checkout.next_look_at:
            return False
        if not self.is_looked_at or checkout.unanswered:
            return True
        return is_being_asked(checkout)


def stage_of(
    payment: Payment,
    generation: int,
    came_back: Return | None,
    at: datetime,
    *,
    has_parts: bool = False,
) -> Stage:
    # Who has paid sees it whatever link was sent meanwhile.
    if payment.status == PaymentStatus.PAID:
        return Stage.PAID
    if payment.status == PaymentStatus.REFUNDED:
        return Stage.REFUNDED
    closed = closed_as(payment.report, payment, generation, at)
    failed = payment.status == PaymentStatus.FAILED
    stage = Stage.PART if has_parts else Stage.FAILED if failed else Stage.DUE
    if closed:
        stage = CLOSED.get(closed, Stage.ENDED)
    if came_back and stage in TO_BE_ASKED:
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
BOUGHT = (_("Top-up of the balance"),)
# What the provider shows the payer; `ordering.paying` says it.
WAYS = {
    (Way.MPESA, Way.CARD): _("M-Pesa or a card"),
    (Way.CARD,): _("a card"),
    (Way.MPESA,): _("M-Pesa"),
}
DESCRIPTIONS = (_("Verification report for %(name)s"), _("Top-up for %(name)s"))


@dataclass(frozen=True, slots=True)
class GivenBack:
    """Money of a checkout on its way back, or back already."""

    amount: str
    is_done: bool
    at: Any


def money(amount: Decimal | None, currency: str) -> str:
    # Together on one line, however narrow.
    return f"{currency}\N{NO-BREAK SPACE}{amount or 0:,.2f}"


def checks_of(report: Report, currency: str) -> list[tuple[str, str]]:
    """Name and price of each, as agreed; no price where an earlier result will do."""
    results = report.results.select_related("definition").order_by("position")
    return [
        _priced(result.definition.display_name, result.price, currency)
        for result in results
    ]


def _priced(name: str, price: Decimal, currency: str) -> tuple[str, str]:
    return gettext(name), money(price, currency) if price else ""


def frame(report: Report) -> dict[str, Any]:
    return {
        **client_of(report.workspace),
        "is_play": report.environment == Environment.SANDBOX,
        "timezone": TIMEZONE,
    }


def order(payment: Payment, checkouts: list[Checkout]) -> dict[str, Any]:
    """What is paid for, by whom it was asked, and until when."""
    report = payment.report
    came = sum((part.refundable for part in parts(checkouts)), Decimal(0))
    return {
        "amount": money(payment.amount, payment.currency),
        "came": money(came, payment.currency),
        "has_parts": came > 0,
        "missing": money(payment.amount - came, payment.currency),
        "checks": checks_of(report, payment.currency),
        "purpose": report.purpose,
        "reference": report.reference,
        "about": _about(report),
        "expires_at": payment.expires_at,
        "provider": provider_label(report.environment),
        "ways": ways_text(report.environment),
        "takes_prompt": takes_prompt(
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


def ways_text(environment: str) -> str:
    """How the payer can pay, as a sentence says it; "" in the sandbox."""
    return gettext(WAYS[found]) if (found := ways(environment)) in WAYS else ""


def checkout_origin(environment: str) -> str:
    """Where the form leads to in the end; Chromium counts that as where it is sent."""
    try:
        origin = checkout_provider(environment).checkout_origin
    except NoPaymentProvider:
        origin = ""
    base = urlsplit(settings.BASE_URL)
    return origin or f"{base.scheme}://{base.netloc}"


def opened_earlier(checkouts: list[Checkout]) -> Checkout | None:
    """One the payer has left without an outcome that we know."""
    return next(
        (one for one in checkouts if one.status == CheckoutStatus.OPEN and one.url),
        None,
    )


def prompt(checkouts: list[Checkout]) -> dict[str, Any] | None:
    """The one that waits on the payer's phone, if any."""
    for one in checkouts:
        if one.is_waiting_prompt:
            return {
                "checkout": one,
                # Enough for its payer; others may have the link, too.
                "phone": f"+254{end(str(one.phone or ''), 3)}",
                "amount": money(one.amount, one.currency),
                "is_sent": bool(one.session),
                "is_overdue": one.is_overdue_prompt,
                "ends_at": one.prompt_ends_at,
            }
    return None


def parts(checkouts: list[Checkout]) -> list[Checkout]:
    """Return the parts that wait for the rest."""
    return [one for one in checkouts if one.is_part and not one.is_counted]


def extras(checkouts: list[Checkout]) -> list[dict[str, Any]]:
    """Money that came and pays for nothing."""
    return [
        {
            "number": one.number,
            "amount": money(one.paid_amount, one.paid_currency),
            "is_other": one.paid_currency != one.currency,
            "is_short": (one.paid_amount or Decimal(0)) < one.amount,
            "given_back": given_back(one),
            "left": left(one),
        }
        for one in checkouts
        if one.status == CheckoutStatus.PAID and not (one.is_counted or one.is_part)
    ]


def given_back(checkout: Checkout) -> list[GivenBack]:
    shown = {RefundStatus.APPROVED, RefundStatus.DONE}
    return [
        GivenBack(
            money(refund.amount, checkout.paid_currency),
            refund.status == RefundStatus.DONE,
            refund.ended_at,
        )
        for refund in sorted(checkout.refunds.all(), key=lambda one: one.pk)
        if refund.status in shown
    ]


def left(checkout: Checkout) -> dict[str, str]:
    """Return the amounts of idle money that no refund returns, by reason."""
    currency, idle = checkout.paid_currency, checkout.refundable
    if checkout.is_counted:
        idle = max(idle - checkout.counted_amount, Decimal(0))
    is_kept = checkout.kept_because and not checkout.doubts
    requested = [
        refund.amount
        for refund in checkout.refunds.all()
        if refund.status == RefundStatus.REQUESTED
    ]
    amounts = {
        "disputed": _held(checkout, DisputeStatus.OPEN),
        "lost": _held(checkout, DisputeStatus.LOST),
        "examined": sum(requested, Decimal(0 if is_kept else idle)),
        "kept": idle if is_kept else Decimal(0),
    }
    return {why: money(amount, currency) for why, amount in amounts.items() if amount}


def _held(checkout: Checkout, status: DisputeStatus) -> Decimal:
    disputes = checkout.disputes.all()
    return sum((one.held for one in disputes if one.status == status), Decimal(0))


def receipt(payment: Payment, counted: list[Checkout]) -> dict[str, Any]:
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
            _priced(item["name"], Decimal(item["price"]), checkout.paid_currency)
            for item in kept["checks"]
        ],
        "provider": LABELS.get(checkout.provider, ""),
        "checkout": checkout,
        "payments": [
            (one, money(one.paid_amount, one.paid_currency))
            for one in sorted(counted, key=lambda one: one.pk)
        ],
        "amount": money(paid, checkout.paid_currency),
        "surplus": money(surplus, checkout.paid_currency) if surplus else "",
        "given_back": [back for one in counted for back in given_back(one)],
        "left": left(checkout),
        "is_left_to_staff": any(
            unfinished_part(one) and is_doubtful(one) for one in counted
        ),
        "url": url,
        "qr": qr_code(url),
    }


def renewal(payment: Payment, stage: Stage, generation: int) -> dict[str, Any]:
    """What the page of a closed link says of another link, or of messages to come."""
    report = payment.report
    if stage in {Stage.WAITS, Stage.EXAMINED}:
        kind = Kind.PAYMENT_REQUEST if stage == Stage.WAITS else Kind.PAYMENT_REFUNDED
        return {"is_reached": is_reached(report, kind, payer_of(report))}
    if stage not in {Stage.EXPIRED, Stage.SOURCES_CHANGED}:
        return {}
    return {
        "can_renew": stage == Stage.EXPIRED and is_renewed_by_payer(report),
        "ask_path": reverse("payment:ask-client", args=[payment.pk]),
        "can_ask": bool(why_client_is_needed(report, payment, generation, now())),
        "has_asked": payment.link_wanted_at is not None,
    }


def _about(report: Report) -> str:
    """Whom a nominated payer pays for."""
    if report.payment_mode != PaymentMode.THIRD_PARTY:
        return ""
    return initials(report.subject_name)


# Later than any moment that is meant.
LONGEST = 14
SCRIPTS = {"script_src": ["'self'"], "connect_src": ["'self'"]}


def back(page: Callable[[UUID, UUID, str], str]) -> View:
    """`page` makes the address of the page from row, checkout and query."""

    @require_safe
    @hosted
    def view(request: HttpRequest, row: UUID, checkout: UUID) -> HttpResponse:
        at = now()
        if not look_soon(checkout):
            # Asked within the last seconds: what was answered then is what is told.
            asked = Checkout.objects.filter(pk=checkout).values_list("looked_at")
            at = (asked.first() or (None,))[0] or at
        return see_other(page(row, checkout, f"since={int(at.timestamp() * 1000)}"))

    return view


def since(request: HttpRequest) -> datetime:
    text = request.GET.get("since", "")
    if not (text.isascii() and text.isdigit() and len(text) < LONGEST):
        return now()
    return datetime.fromtimestamp(int(text) / 1000, UTC)


def word(*said: object) -> HttpResponse:
    """What a script compares, which loads the page anew when it changes."""
    return HttpResponse("/".join(map(str, said)), content_type="text/plain")


def asked_again(
    request: HttpRequest, checkout: Checkout, told: HttpResponse
) -> HttpResponse:
    """What the script is `told`; has the provider asked again.

    Not if the script is on another page: the one that it loads now would say once more
    that the provider is being asked, and so on each time.
    """
    if request.GET.get("seen") == told.content.decode():
        look_soon(checkout.pk)
    return told


def with_script(response: HttpResponse) -> HttpResponse:
    allow(response, **SCRIPTS)
    return response
