"""Settlement: turn a provider's answer about a checkout into payment and entries.

This is the only place where a payment becomes PAID. Report, payment, checkout, ledger
entry, refund and event change in one transaction. Rows are locked in the order report,
payment, checkout, as everywhere.
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
# A provider that accepted a prompt finds it after this time.
SENT_WITHIN = timedelta(seconds=30)
# A report with one of these statuses still accepts its payer's money.
AWAITED_STATUSES = {
    ReportStatus.DRAFT,
    ReportStatus.PENDING_CONSENT,
    ReportStatus.PENDING_PAYMENT,
}


@transaction.atomic
def settle(
    checkout_id: UUID, snapshot: CheckoutSnapshot, asked_at: datetime | None = None
) -> bool:
    """Record the provider's answer, polled at `asked_at`.

    Returns True if this call makes the checkout PAID.
    """
    checkout, report = _lock(checkout_id)
    if checkout.status == CheckoutStatus.PAID:
        # An answer from before the payment contradicts nothing.
        if not (asked_at and checkout.paid_at and checkout.paid_at >= asked_at):
            _check_paid_checkout(checkout, snapshot)
        return False
    if snapshot.state == CheckoutState.PAID:
        _accept_money(checkout, report, snapshot, now())
        return True
    _record_unpaid(checkout, report, _expire_prompt(checkout, snapshot, asked_at))
    return False


def _lock(checkout_id: UUID) -> tuple[Checkout, Report | None]:
    report_id = Checkout.objects.values_list("report_id", flat=True).get(pk=checkout_id)
    report = locked_reports().get(pk=report_id) if report_id else None
    if report:
        payments = Payment.objects.select_for_update(no_key=True)
        if payment := payments.filter(report=report).first():
            report.payment = payment
    checkouts = Checkout.objects.select_for_update(of=("self",), no_key=True)
    return checkouts.select_related("account").get(pk=checkout_id), report


def _expire_prompt(
    checkout: Checkout, snapshot: CheckoutSnapshot, asked_at: datetime | None
) -> CheckoutSnapshot:
    """Turn the snapshot of an overdue prompt into a failure; return any other as it is.

    A prompt is NOT_SENT if the provider does not find it after `SENT_WITHIN`.
    """
    if not (checkout.is_waiting_prompt and asked_at):
        return snapshot
    if snapshot.state == CheckoutState.UNKNOWN:
        ends_at, failure = checkout.created_at + SENT_WITHIN, PromptFailure.NOT_SENT
    elif snapshot.state == CheckoutState.OPEN:
        ends_at, failure = checkout.prompt_ends_at, PromptFailure.TIMED_OUT
    else:
        return snapshot
    if asked_at < ends_at:
        return snapshot
    return replace(snapshot, state=CheckoutState.FAILED, failure=failure)


def _check_paid_checkout(checkout: Checkout, snapshot: CheckoutSnapshot) -> None:
    """Raise CONTRADICTED if the provider calls a paid checkout unpaid.

    Refunds and disputes explain such an answer. UNKNOWN may pass.
    """
    consistent = {CheckoutState.PAID, CheckoutState.UNKNOWN}
    if snapshot.state in consistent or checkout.refunded or checkout.disputed:
        return
    is_explained = snapshot.refunded or snapshot.disputes
    if snapshot.state == CheckoutState.REVERSED and is_explained:
        # The poll records these refunds and disputes next.
        return
    checkout.message = _provider_message(snapshot)
    logger.error("checkout %s is paid, and now %s", checkout.pk, snapshot.state)
    checkout.save(update_fields=["message"])
    raise_review_flag(checkout.pk, ReviewFlag.CONTRADICTED)


def _accept_money(
    checkout: Checkout, report: Report | None, snapshot: CheckoutSnapshot, at: datetime
) -> None:
    """Record the money, and decide whether it pays, waits for a person or goes back."""
    checkout.status, checkout.paid_at = CheckoutStatus.PAID, at
    checkout.paid_amount = snapshot.amount
    checkout.paid_currency = (snapshot.currency or "").upper()
    checkout.transaction = snapshot.transaction
    checkout.message = _provider_message(snapshot)
    checkout.failure = ""
    amount = snapshot.amount or Decimal(0)
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
        # The balance gets the amount that arrived, even if it differs from `amount`.
        checkout.count(amount)
        checkout.receipt = build_top_up_receipt(checkout.account, checkout)
        checkout.save()
        _top_up(checkout.account, checkout)


def _surplus_cause(
    checkout: Checkout, report: Report | None, payment: Payment | None
) -> RefundCause | None:
    """Return why this money is surplus; None if it pays.

    A payment that expired after its checkout was opened still takes the money.
    """
    if report is None:
        return None
    if payment is None or payment.pk != checkout.payment_id:
        return RefundCause.NOT_ASKED
    if payment.status in {PaymentStatus.PAID, PaymentStatus.REFUNDED}:
        return RefundCause.PAID_TWICE
    payable = {*Payment.OUTSTANDING, PaymentStatus.EXPIRED}
    if payment.status not in payable or report.status not in AWAITED_STATUSES:
        return RefundCause.NOT_ASKED
    # The purge has deleted the subject, so that no check can run.
    return RefundCause.NOT_ASKED if report.subject is None else None


def _apply_to_payment(
    report: Report, payment: Payment, checkout: Checkout, amount: Decimal, at: datetime
) -> None:
    """Apply money to an unpaid payment: all of the amount, too much, or a part."""
    checkout.receipt = build_receipt(report, payer_of(report), checkout)
    if amount >= payment.amount:
        # This money pays alone, so earlier parts go back.
        refund_parts(payment.pk)
    parts = list(Checkout.objects.parts(payment.pk).select_for_update(no_key=True))
    missing = payment.amount - sum(part.refundable for part in parts)
    if amount < missing:
        # A part waits only if the payer can pay the rest: the link is valid, and the
        # rest is not below the provider's minimum.
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
    results = report.results.values_list("name", "status", "id")
    insert(event_rows([payment_event(report, list(results), payment)], at))
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
    checkout: Checkout, report: Report | None, snapshot: CheckoutSnapshot
) -> None:
    """Record that a checkout ended unpaid. A later poll may still find it paid.

    Providers let payers try again in the same checkout.
    """
    status = ENDED_STATUSES.get(snapshot.state)
    if status is None or checkout.status == status:
        return
    checkout.status, checkout.message = status, _provider_message(snapshot)
    if checkout.is_prompt:
        checkout.failure = snapshot.failure or ""
    checkout.save(update_fields=["status", "message", "failure"])
    payment = getattr(report, "payment", None) if report else None
    if (
        payment
        and payment.pk == checkout.payment_id
        and payment.status == PaymentStatus.PENDING
        and snapshot.state in {CheckoutState.FAILED, CheckoutState.REVERSED}
        and not _has_later_checkout(checkout)
    ):
        payment.status = PaymentStatus.FAILED
        payment.save(update_fields=["status"])


def _has_later_checkout(checkout: Checkout) -> bool:
    others = Checkout.objects.filter(payment_id=checkout.payment_id)
    return others.filter(pk__gt=checkout.pk).exists()


def _provider_message(snapshot: CheckoutSnapshot) -> str:
    """Return the provider's text without personal data, as the database accepts it."""
    text = redact(snapshot.message.encode(errors="replace").decode())
    return text.replace("\x00", "")[:200]
