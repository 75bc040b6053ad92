"""What the provider said of a checkout becomes what it means: the one place where a
payment becomes paid.

Report, payment, checkout, money, refund and event move in one transaction. The report
is held before the payment and that before the checkout, as every other verb does.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

from django.db import transaction
from django.utils.timezone import now

from verification.checks.events import payment_event
from verification.checks.schedule import schedule_checks
from verification.db.bulk_insert import insert
from verification.notifications.outbox import notify
from verification.payments.alerts import raise_review_flag
from verification.payments.messages import (
    cancel_payment_requests,
    payer_of,
    payment_receipt,
    payment_shortfall,
    top_up_receipt,
)
from verification.payments.models import (
    Checkout,
    CheckoutStatus,
    Payment,
    PaymentStatus,
    RefundCause,
    ReviewFlag,
)
from verification.payments.receipts import build_receipt, build_top_up_receipt
from verification.payments.refunds import refund_parts, refund_surplus
from verification.payments.registry import minimum_amount
from verification.providers.payment_provider import (
    CheckoutSnapshot,
    CheckoutState,
    PromptFailure,
)
from verification.reports.locks import locked_reports
from verification.reports.models import Report, ReportStatus
from verification.reports.status import Transition, apply_transitions
from verification.web.request_log import redact
from webhooks.events import event_rows
from workspaces.ledger import Kind, Movement, record_movements
from workspaces.models import Account

logger = logging.getLogger(__name__)

ENDED_STATUSES = {
    CheckoutState.FAILED: CheckoutStatus.FAILED,
    CheckoutState.CANCELLED: CheckoutStatus.CANCELLED,
    CheckoutState.EXPIRED: CheckoutStatus.EXPIRED,
    CheckoutState.REVERSED: CheckoutStatus.REVERSED,
}
# A provider that took a prompt knows it by then.
SENT_WITHIN = timedelta(seconds=30)
# Where a payer's money is still what the report waits for.
AWAITED_STATUSES = {
    ReportStatus.DRAFT,
    ReportStatus.PENDING_CONSENT,
    ReportStatus.PENDING_PAYMENT,
}


@transaction.atomic
def settle(
    checkout_id: UUID, seen: CheckoutSnapshot, asked_at: datetime | None = None
) -> bool:
    """Record what the provider said, when asked at that time; True when the money was
    taken by this call."""
    checkout, report = _lock(checkout_id)
    if checkout.status == CheckoutStatus.PAID:
        # What it said before the payer paid contradicts nothing.
        if not (asked_at and checkout.paid_at and checkout.paid_at >= asked_at):
            _check_paid_checkout(checkout, seen)
        return False
    if seen.state == CheckoutState.PAID:
        _accept_money(checkout, report, seen, now())
        return True
    _record_unpaid(checkout, report, _expire_prompt(checkout, seen, asked_at))
    return False


def _expire_prompt(
    checkout: Checkout, seen: CheckoutSnapshot, asked_at: datetime | None
) -> CheckoutSnapshot:
    """What `seen` means for a prompt, which can be answered for some minutes only.

    One that the provider does not know by `SENT_WITHIN` was never sent.
    """
    if not (checkout.is_waiting_prompt and asked_at):
        return seen
    if seen.state == CheckoutState.UNKNOWN:
        ends_at, failure = checkout.created_at + SENT_WITHIN, PromptFailure.NOT_SENT
    elif seen.state == CheckoutState.OPEN:
        ends_at, failure = checkout.prompt_ends_at, PromptFailure.TIMED_OUT
    else:
        return seen
    is_over = asked_at >= ends_at
    ended = replace(seen, state=CheckoutState.FAILED, failure=failure)
    return ended if is_over else seen


def _lock(checkout_id: UUID) -> tuple[Checkout, Report | None]:
    report_id = Checkout.objects.values_list("report_id", flat=True).get(pk=checkout_id)
    report = locked_reports().get(pk=report_id) if report_id else None
    if report:
        payments = Payment.objects.select_for_update(no_key=True)
        if payment := payments.filter(report=report).first():
            report.payment = payment
    checkouts = Checkout.objects.select_for_update(of=("self",), no_key=True)
    return checkouts.select_related("account").get(pk=checkout_id), report


def _check_paid_checkout(checkout: Checkout, seen: CheckoutSnapshot) -> None:
    """A paid one that the provider calls unpaid needs a person, unless we gave it back;
    one that it does not find at the moment is no news."""
    silent = {CheckoutState.PAID, CheckoutState.UNKNOWN}
    if seen.state in silent or checkout.refunded or checkout.disputed:
        return
    if seen.state == CheckoutState.REVERSED and (seen.refunded or seen.disputes):
        # What that was is recorded by itself.
        return
    checkout.message = _provider_message(seen)
    logger.error("checkout %s is paid, and now %s", checkout.pk, seen.state)
    checkout.save(update_fields=["message"])
    raise_review_flag(checkout.pk, ReviewFlag.CONTRADICTED)


def _accept_money(
    checkout: Checkout, report: Report | None, seen: CheckoutSnapshot, at: datetime
) -> None:
    """The provider has money. Whether it is ours to keep is decided here."""
    checkout.status, checkout.paid_at = CheckoutStatus.PAID, at
    checkout.paid_amount = seen.amount
    checkout.paid_currency = (seen.currency or "").upper()
    checkout.transaction, checkout.message = seen.transaction, _provider_message(seen)
    checkout.failure = ""
    amount = seen.amount or Decimal(0)
    if checkout.paid_currency != checkout.currency or amount <= 0:
        checkout.save()
        raise_review_flag(checkout.pk, ReviewFlag.OTHER_CURRENCY)
        logger.error("checkout %s was paid in another currency", checkout.pk)
        return
    payment = getattr(report, "payment", None) if report else None
    if surplus := _surplus_cause(checkout, report, payment):
        checkout.save()
        refund_surplus(checkout, surplus)
    elif report and payment:
        _apply_to_payment(report, payment, checkout, amount, at)
    elif checkout.account:
        # What arrived is the truth, whatever was asked for.
        checkout.count(amount)
        checkout.receipt = build_top_up_receipt(checkout.account, checkout)
        checkout.save()
        _top_up(checkout.account, checkout)


def _apply_to_payment(
    report: Report, payment: Payment, checkout: Checkout, amount: Decimal, at: datetime
) -> None:
    """Money for a payment that asks for some: all of it, too much, or a part."""
    checkout.receipt = build_receipt(report, payer_of(report), checkout)
    if amount >= payment.amount:
        # It pays alone.
        refund_parts(payment.pk)
    parts = list(Checkout.objects.parts(payment.pk).select_for_update(no_key=True))
    missing = payment.amount - sum(part.refundable for part in parts)
    if amount < missing:
        # Nobody can pay the rest by a link that has expired, or a rest that is too
        # small for the provider.
        least = minimum_amount(report.environment, payment.currency)
        checkout.is_part = payment.is_outstanding and missing - amount >= least
        checkout.save()
        if not checkout.is_part:
            refund_surplus(checkout, RefundCause.SHORT)
            return
        payment.status = PaymentStatus.PENDING
        payment.save(update_fields=["status"])
        notify(*payment_shortfall(report, checkout, missing - amount))
        return
    for part in parts:
        part.count(part.refundable)
        part.save(update_fields=["is_counted", "counted_amount"])
    checkout.count(missing)
    checkout.save()
    if amount > missing:
        refund_surplus(checkout, RefundCause.OVERPAID, amount - missing)
    _mark_paid(report, payment, checkout, at)


def _surplus_cause(
    checkout: Checkout, report: Report | None, payment: Payment | None
) -> RefundCause | None:
    """Why this money is not wanted, or None. An expired link of a draft still pays."""
    if report is None:
        return None
    if payment is None or payment.pk != checkout.payment_id:
        return RefundCause.NOT_ASKED
    if payment.status in {PaymentStatus.PAID, PaymentStatus.REFUNDED}:
        return RefundCause.PAID_TWICE
    asked = {*Payment.OUTSTANDING, PaymentStatus.EXPIRED}
    if payment.status not in asked or report.status not in AWAITED_STATUSES:
        return RefundCause.NOT_ASKED
    # There is nobody left to ask about.
    return RefundCause.NOT_ASKED if report.subject is None else None


def _mark_paid(
    report: Report, payment: Payment, checkout: Checkout, at: datetime
) -> None:
    payment.status, payment.paid_at = PaymentStatus.PAID, at
    payment.save(update_fields=["status", "paid_at"])
    if report.status == ReportStatus.PENDING_PAYMENT:
        apply_transitions(
            [Transition(report, ReportStatus.RUNNING, "paid", "payer")], at
        )
        schedule_checks(report, at)
    stack = report.results.values_list("name", "status", "id")
    insert(event_rows([payment_event(report, list(stack), payment)], at))
    cancel_payment_requests(payment)
    notify(*payment_receipt(report, checkout))


def _top_up(account: Account, checkout: Checkout) -> None:
    record_movements(
        Movement(
            account.pk,
            Kind.TOP_UP,
            checkout.counted_amount,
            checkout.started_by,
            note=f"{checkout.provider} {checkout.number}",
            checkout_id=checkout.pk,
        )
    )
    notify(*top_up_receipt(checkout))


def _record_unpaid(
    checkout: Checkout, report: Report | None, seen: CheckoutSnapshot
) -> None:
    """Not paid, so far: providers let payers try again in the same checkout."""
    if (
        seen.state not in ENDED_STATUSES
        or checkout.status == ENDED_STATUSES[seen.state]
    ):
        return
    checkout.status, checkout.message = (
        ENDED_STATUSES[seen.state],
        _provider_message(seen),
    )
    if checkout.is_prompt:
        checkout.failure = seen.failure or ""
    checkout.save(update_fields=["status", "message", "failure"])
    payment = getattr(report, "payment", None) if report else None
    if (
        payment
        and payment.pk == checkout.payment_id
        and payment.status == PaymentStatus.PENDING
        and seen.state in {CheckoutState.FAILED, CheckoutState.REVERSED}
        and not _has_later_checkout(checkout)
    ):
        payment.status = PaymentStatus.FAILED
        payment.save(update_fields=["status"])


def _provider_message(seen: CheckoutSnapshot) -> str:
    """The provider's, as the database takes them, without anybody's number."""
    words = redact(seen.message.encode(errors="replace").decode())
    return words.replace("\x00", "")[:200]


def _has_later_checkout(checkout: Checkout) -> bool:
    others = Checkout.objects.filter(payment_id=checkout.payment_id)
    return others.filter(pk__gt=checkout.pk).exists()
