"""Payments that nobody has made: reminding of each once, and closing it in the end."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils.timezone import now

from verification.jobs.sweeping import sweep
from verification.notifications.notifying import notify
from verification.ordering.gates import cannot_be_made
from verification.ordering.holding import hold_payment
from verification.ordering.payers import payment_reminder, stop_asking_payer
from verification.ordering.paying import ASKING, CHECKOUT_LIVES
from verification.ordering.refunding import give_back_parts
from verification.ordering.stopping import fail
from verification.payments.models import (
    Checkout,
    CheckoutStatus,
    Payment,
    PaymentStatus,
)
from verification.reports.models import ReportStatus

EXPIRED = ("PAYMENT_EXPIRED", "Nobody paid in time.")


def expire_payments() -> None:
    sweep(_asked().filter(expires_at__lte=now()), expire_payment)


def remind_payers() -> None:
    # Half of the time that was given for this link.
    half, at = (F("expires_at") - F("link_made_at")) / 2, now()
    due = _asked().filter(reminded_at=None, expires_at__gt=at)
    sweep(due.filter(expires_at__lte=at + half), _remind)


@transaction.atomic
def expire_payment(payment_id: UUID) -> None:
    """Close a link that was not paid by; nothing happens to one that was.

    Who is paying at this moment is waited for.
    """
    report, payment = hold_payment(payment_id)
    at = now()
    is_asked = payment.is_outstanding and report.status in ASKING
    is_due = payment.expires_at is not None and payment.expires_at <= at
    if not (is_asked and is_due) or _is_being_paid(payment):
        return
    payment.status = PaymentStatus.EXPIRED
    payment.save(update_fields=["status"])
    give_back_parts(payment.pk)
    stop_asking_payer(payment)
    if report.status == ReportStatus.PENDING_PAYMENT:
        cause = f"payment:{payment.generation}"
        code, message = EXPIRED
        if told := cannot_be_made(report):
            message = f"Nobody could pay for it: {told}"
        fail(report, (code, message), "payment expired", "service", cause, at)


def _is_being_paid(payment: Payment) -> bool:
    return Checkout.objects.filter(
        payment_id=payment.pk,
        status=CheckoutStatus.OPEN,
        created_at__gt=now() - CHECKOUT_LIVES - timedelta(minutes=5),
    ).exists()


@transaction.atomic
def _remind(payment_id: UUID) -> None:
    report, payment = hold_payment(payment_id)
    if payment.reminded_at or not payment.is_outstanding or report.status not in ASKING:
        return
    if cannot_be_made(report):
        # Should the sources come back in time, the payer is reminded then.
        return
    payment.reminded_at = now()
    payment.save(update_fields=["reminded_at"])
    notify(*payment_reminder(report, payment))


def _asked() -> QuerySet[Payment]:
    """Who waits for the subject's consent is not asked yet: its time begins then."""
    return Payment.objects.filter(
        status__in=Payment.OUTSTANDING, report__status__in=ASKING
    )
