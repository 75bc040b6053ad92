"""Whom a report asks to pay, and what they are sent."""

from __future__ import annotations

from typing import Any

from verification import links
from verification.notifications.models import BOTH, Channel, Kind
from verification.notifications.notifying import Wanted, cancel
from verification.ordering.telling import REACHED_AT
from verification.payments.models import Checkout, Payment, Refund
from verification.reports.models import Report
from verification.wire import utc_text
from workspaces.models import Environment


def payer_of(report: Report) -> dict[str, str]:
    """`name`, `email` and `phone` of who is asked to pay, those that are known."""
    payment: Payment | None = getattr(report, "payment", None)
    known = payment.payer if payment and payment.payer else report.subject or {}
    return {name: known[name] for name in ("name", "email", "phone") if known.get(name)}


def payment_request(report: Report, payment: Payment | None) -> list[Wanted]:
    """The link, to every address of the payer; nothing where nothing is owed."""
    if payment is None or not payment.is_outstanding:
        return []
    return _to_payer(
        report, Kind.PAYMENT_REQUEST, _request_cause(payment), _about(report, payment)
    )


def payment_reminder(report: Report, payment: Payment) -> list[Wanted]:
    cause = f"{_request_cause(payment)}:reminder"
    return _to_payer(report, Kind.PAYMENT_REMINDER, cause, _about(report, payment))


def stop_asking_payer(payment: Payment) -> None:
    """Send nothing more that asks for money by the present link."""
    cause = _request_cause(payment)
    cancel(cause, f"{cause}:reminder")


def payment_receipt(report: Report, checkout: Checkout) -> list[Wanted]:
    """By e-mail alone: it carries a document."""
    context = {
        **report.workspace.requester.message_context,
        "number": checkout.number,
        "checkoutId": str(checkout.pk),
        "link": _link_of(report),
        **_money(checkout.amount, checkout.currency),
    }
    wanted = _to_payer(
        report,
        Kind.PAYMENT_RECEIPT,
        f"paid:{checkout.pk}",
        context,
        # Of the page it was paid from.
        checkout.language or BOTH,
        payer=_who_paid(checkout),
    )
    return [one for one in wanted if one.channel == Channel.EMAIL]


def refund_notice(report: Report, refund: Refund) -> list[Wanted]:
    """To who paid, whoever is asked by now."""
    checkout = refund.checkout
    payment: Payment | None = getattr(report, "payment", None)
    is_asked = payment is not None and payment.pk == checkout.payment_id
    payer = _who_paid(checkout)
    if not (is_asked or payer):
        # Who paid in vain, and was asked no longer, is not known any more.
        return []
    context = {
        **report.workspace.requester.message_context,
        "number": checkout.number,
        "link": _link_of(report) if is_asked else "",
        **_money(refund.amount, checkout.paid_currency),
    }
    return _to_payer(
        report,
        Kind.PAYMENT_REFUNDED,
        f"refunded:{refund.pk}",
        context,
        checkout.language or BOTH,
        payer=payer,
    )


def _who_paid(checkout: Checkout) -> dict[str, str]:
    """As kept when the money was counted; nothing where it was not."""
    return checkout.receipt["payer"] if checkout.receipt else {}


def _link_of(report: Report) -> str:
    return links.payment_url(report.payment.pk, report.payment.generation)


def _request_cause(payment: Payment) -> str:
    return f"payment:{payment.pk}:{payment.generation}"


def _about(report: Report, payment: Payment) -> dict[str, Any]:
    return {
        **report.workspace.requester.message_context,
        "link": links.payment_url(payment.pk, payment.generation),
        "expiresAt": utc_text(payment.expires_at) if payment.expires_at else None,
        **_money(payment.amount, payment.currency),
    }


def _money(amount: Any, currency: str) -> dict[str, str]:
    return {"amount": f"{amount:,.2f}", "currency": currency}


def _to_payer(
    report: Report,
    kind: Kind,
    cause: str,
    context: dict[str, Any],
    language: str = BOTH,
    *,
    payer: dict[str, str] | None = None,
) -> list[Wanted]:
    payer = payer or payer_of(report)
    return [
        Wanted(
            kind,
            channel,
            cause,
            payer[member],
            context,
            language,
            report.workspace_id,
            report.environment == Environment.SANDBOX,
        )
        for channel, member in REACHED_AT.items()
        if payer.get(member)
    ]
