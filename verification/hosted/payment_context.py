"""What each page of a payment shows."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.urls import reverse
from django.utils.timezone import now
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from verification import links
from verification.hosted.masking import initials
from verification.hosted.pages import client_of, qr_code
from verification.hosted.payment_stages import Stage
from verification.masking import end
from verification.notifications.models import Kind
from verification.ordering.payers import payer_of
from verification.ordering.payment_links import (
    is_renewed_by_payer,
    why_client_is_needed,
)
from verification.ordering.refunding import is_doubtful, unfinished_part
from verification.ordering.telling import is_reached
from verification.payments.models import (
    Checkout,
    CheckoutStatus,
    DisputeStatus,
    Payment,
    RefundStatus,
)
from verification.payments.receipts import receipt_of
from verification.payments.registry import (
    LABELS,
    NoPaymentProvider,
    checkout_provider,
    takes_prompt,
    ways,
)
from verification.providers.checkout import Way
from verification.reports.models import PaymentMode, Report
from workspaces.models import Environment

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
