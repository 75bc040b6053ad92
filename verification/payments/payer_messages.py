"""The payer of a report, messages to payers and topping-up workspaces, and receipts.

A checkout stores the contents of its receipt at settlement. An edit of a paid draft
leaves the receipt as it was.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NotRequired, TypedDict, cast

from verification import links
from verification.checks.models import ResultStatus, ordered_results
from verification.consents.subject_messages import is_written_to, messages_to
from verification.notifications.models import BILINGUAL, Channel, Kind
from verification.notifications.outbox import OutgoingMessage, cancel
from verification.payments.models import Checkout, Payment, Refund, RefundCause
from verification.payments.registry import (
    can_prompt,
    payment_methods,
    payment_methods_of,
)
from verification.reports.hosted_links import reminder_cause, request_cause
from verification.reports.models import PaymentMode, Report
from verification.values.local_time import utc_text
from workspaces.models import Account, Environment


def payer_of(report: Report) -> dict[str, str]:
    """Return the `name`, `email` and `phone` of the payer, as far as they are known."""
    payment: Payment | None = getattr(report, "payment", None)
    known = payment.payer if payment and payment.payer else report.subject or {}
    return {name: known[name] for name in ("name", "email", "phone") if known.get(name)}


def reaches_payer(report: Report) -> bool:
    """Return whether the payer would now get a message with the payment's link."""
    return is_written_to(report, Kind.PAYMENT_REQUEST, payer_of(report))


def payment_request(
    report: Report, payment: Payment | None, missing: Decimal | None = None
) -> list[OutgoingMessage]:
    """Return the messages with the link of an unpaid payment, one to each address.

    `missing` is the amount that is left to pay after a part.
    """
    if payment is None or not payment.is_outstanding:
        return []
    about = _payment_context(report, payment, missing or payment.amount)
    return _payer_messages(report, Kind.PAYMENT_REQUEST, request_cause(payment), about)


def payment_reminder(report: Report, payment: Payment) -> list[OutgoingMessage]:
    cause = reminder_cause(payment)
    about = _payment_context(report, payment, Checkout.objects.missing(payment))
    return _payer_messages(report, Kind.PAYMENT_REMINDER, cause, about)


def payment_shortfall(
    report: Report, checkout: Checkout, missing: Decimal
) -> list[OutgoingMessage]:
    """Return the messages that ask for the rest after a part."""
    payment = report.payment
    context = {
        **_payment_context(report, payment, missing),
        "paid": f"{checkout.paid_amount:,.2f}",
        "number": checkout.number,
    }
    language = checkout.language or BILINGUAL
    cause = _shortfall_cause(checkout)
    return _payer_messages(report, Kind.PAYMENT_SHORT, cause, context, language)


def cancel_shortfalls(parts: Iterable[Checkout]) -> None:
    """Cancel unsent messages that ask for the rest after these parts."""
    cancel(*(_shortfall_cause(part) for part in parts))


def _shortfall_cause(checkout: Checkout) -> str:
    return f"short:{checkout.pk}"


def payment_receipt(report: Report, checkout: Checkout) -> list[OutgoingMessage]:
    """Return the message with the receipt, an e-mail as it carries a document."""
    # Parts count in full, so only the last one can exceed the amount.
    surplus = (checkout.paid_amount or Decimal(0)) - checkout.counted_amount
    context = {
        **report.workspace.requester.message_context,
        "number": checkout.number,
        "checkoutId": str(checkout.pk),
        "link": _payment_link(report),
        "surplus": f"{surplus:,.2f}" if surplus else "",
        **_money(report.payment.amount, checkout.currency),
    }
    messages = _payer_messages(
        report,
        Kind.PAYMENT_RECEIPT,
        f"paid:{checkout.pk}",
        context,
        # The language of the page that the payer paid from.
        checkout.language or BILINGUAL,
        payer=_recorded_payer(checkout),
    )
    return [one for one in messages if one.channel == Channel.EMAIL]


def refund_notice(report: Report, refund: Refund) -> list[OutgoingMessage]:
    """Return the messages to the payer of the checkout, not to a later payer."""
    checkout = refund.checkout
    payment: Payment | None = getattr(report, "payment", None)
    is_asked = payment is not None and payment.pk == checkout.payment_id
    payer = _recorded_payer(checkout)
    if not (is_asked or payer):
        # An extra payment has no receipt, and an edit has replaced its payer.
        return []
    undone: list[str] = []
    if refund.cause == RefundCause.NOT_DONE:
        results = report.results.exclude(status=ResultStatus.COMPLETED)
        paid = results.filter(price__gt=0).order_by("position")
        # English names, which the templates of messages translate.
        undone = list(paid.values_list("definition__display_name", flat=True))
    context = {
        **report.workspace.requester.message_context,
        "number": checkout.number,
        "undone": undone,
        "ways": list(payment_methods_of(checkout.provider)),
        "link": _payment_link(report) if is_asked else "",
        **_money(refund.amount, checkout.paid_currency),
    }
    return _payer_messages(
        report,
        Kind.PAYMENT_REFUNDED,
        f"refunded:{refund.pk}",
        context,
        checkout.language or BILINGUAL,
        payer=payer,
    )


def top_up_receipt(checkout: Checkout) -> list[OutgoingMessage]:
    """Return the message with the receipt to the workspace."""
    cause = f"topped-up:{checkout.pk}"
    return _top_up_messages(
        checkout, Kind.TOP_UP_RECEIPT, cause, checkout.counted_amount
    )


def top_up_refund_notice(refund: Refund) -> list[OutgoingMessage]:
    cause = f"refunded:{refund.pk}"
    return _top_up_messages(refund.checkout, Kind.TOP_UP_REFUNDED, cause, refund.amount)


def _payer_messages(
    report: Report,
    kind: Kind,
    cause: str,
    context: dict[str, Any],
    language: str = BILINGUAL,
    *,
    payer: dict[str, str] | None = None,
) -> list[OutgoingMessage]:
    person = payer or payer_of(report)
    return messages_to(person, report, kind, cause, context, language)


def _top_up_messages(
    checkout: Checkout, kind: Kind, cause: str, amount: Decimal
) -> list[OutgoingMessage]:
    account = cast(Account, checkout.account)
    context = {
        "workspace": account.workspace.name,
        "number": checkout.number,
        "checkoutId": str(checkout.pk),
        "ways": list(payment_methods_of(checkout.provider)),
        **_money(amount, checkout.paid_currency),
    }
    return [
        OutgoingMessage(
            kind,
            Channel.EMAIL,
            cause,
            account.workspace.contact_email,
            context,
            checkout.language or BILINGUAL,
            account.workspace_id,
            account.environment == Environment.SANDBOX,
        )
    ]


def _payment_context(
    report: Report, payment: Payment, amount: Decimal
) -> dict[str, Any]:
    methods = [str(method) for method in payment_methods(report.environment)]
    if methods and can_prompt(report.environment, amount, payment.currency):
        methods.append("PROMPT")
    return {
        **report.workspace.requester.message_context,
        "link": links.payment_url(payment.pk, payment.generation),
        "expiresAt": utc_text(payment.expires_at) if payment.expires_at else None,
        "ways": methods,
        **_money(amount, payment.currency),
    }


def _payment_link(report: Report) -> str:
    return links.payment_url(report.payment.pk, report.payment.generation)


def _money(amount: Any, currency: str) -> dict[str, str]:
    return {"amount": f"{amount:,.2f}", "currency": currency}


def _recorded_payer(checkout: Checkout) -> dict[str, str]:
    """Return the payer in the checkout's receipt; empty if it did not count."""
    return checkout.receipt["payer"] if checkout.receipt else {}


class ReceiptItem(TypedDict):
    # The catalogue's English name, because people read receipts in two languages.
    name: str
    price: str


class Receipt(TypedDict):
    # The known ones of the payer's `name`, `email` and `phone`.
    payer: dict[str, str]
    requester: str
    purpose: str
    reference: str
    # The subject's name, for a nominated payer's receipt, which shows only initials.
    about: NotRequired[str]
    checks: list[ReceiptItem]
    # The language of the page that opened the checkout.
    language: str


def build_receipt(report: Report, payer: dict[str, str], checkout: Checkout) -> Receipt:
    """Build the receipt of a report from its present state."""
    receipt = Receipt(
        payer=payer,
        requester=report.workspace.requester.name,
        purpose=report.purpose,
        reference=report.reference or "",
        checks=[
            ReceiptItem(name=result.definition.display_name, price=str(result.price))
            for result in ordered_results(report)
        ],
        language=checkout.language,
    )
    if report.payment_mode == PaymentMode.THIRD_PARTY:
        receipt["about"] = report.subject_name
    return receipt


def erase_receipt(receipt: Receipt) -> Receipt:
    """Return the receipt without what it says about payer and subject."""
    return {**receipt, "payer": {}, "purpose": "", "reference": "", "about": ""}


def build_top_up_receipt(account: Account, checkout: Checkout) -> Receipt:
    """Build the receipt of a workspace's top-up."""
    workspace = account.workspace
    price = str(checkout.counted_amount)
    return Receipt(
        payer={"name": workspace.requester.name, "email": workspace.contact_email},
        requester="",
        purpose="",
        reference="",
        checks=[ReceiptItem(name="Top-up of the balance", price=price)],
        language=checkout.language,
    )


def receipt_of(checkout: Checkout) -> Receipt:
    """Return the stored receipt, or build one for money that did not count.

    Raises ValueError if the checkout is not paid.
    """
    if checkout.paid_at is None:
        raise ValueError("nothing was paid")
    if checkout.receipt:
        return cast(Receipt, checkout.receipt)
    if checkout.account:
        return build_top_up_receipt(checkout.account, checkout)
    return build_receipt(cast(Report, checkout.report), {}, checkout)
