"""Giving money of a checkout back, through the provider that took it.

Asking for a refund, deciding about it and sending it are apart: what is asked is
subtracted from what can still be given back at once, so that two people cannot give the
same money twice, and the provider is called by a job, outside any transaction.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Sum
from django.utils.timezone import now

from verification.checks.models import ResultStatus
from verification.jobs.queue import wake_up_by
from verification.notifications.notifying import notify
from verification.ordering.payers import refund_notice
from verification.payments.models import (
    Checkout,
    CheckoutStatus,
    Doubt,
    Payment,
    PaymentStatus,
    Refund,
    RefundCause,
    RefundStatus,
)
from verification.reports.holding import held
from verification.reports.models import Report
from workspaces.ledger import Kind, Movement, record

REFUNDS = "verification.ordering.tasks.send_refunds"
SERVICE = "service"


class NotRefundable(Exception):
    """Nothing was changed; the text says why."""


@transaction.atomic
def ask_for_refund(
    checkout_id: UUID, amount: Decimal, *, reason: str, actor: str
) -> Refund:
    """Give this much back. Above REFUND_NEEDS_SECOND_ABOVE it waits for a second
    person. Raises NotRefundable."""
    checkout = _hold(checkout_id)
    if not reason.strip():
        raise NotRefundable("Say why the money is given back.")
    if checkout.status != CheckoutStatus.PAID:
        raise NotRefundable("Nothing was paid by this checkout.")
    if not 0 < amount <= checkout.refundable:
        left = f"{checkout.paid_currency} {checkout.refundable:.2f}"
        raise NotRefundable(f"Give an amount above 0; {left} can still be given back.")
    large = amount > settings.REFUND_NEEDS_SECOND_ABOVE
    return _begin(checkout, amount, RefundCause.STAFF, reason, actor, large=large)


@transaction.atomic
def approve(refund_id: UUID, *, actor: str) -> Refund:
    """Raises NotRefundable for the person who asked, and when it was decided."""
    refund = hold_refund(refund_id)
    if refund.requested_by == actor:
        raise NotRefundable("Another person than who asked for it must approve it.")
    _decide(refund, actor)
    _approve(refund, now())
    return refund


@transaction.atomic
def reject(refund_id: UUID, *, actor: str) -> Refund:
    """The money can be given back by another refund. Raises NotRefundable."""
    refund = hold_refund(refund_id)
    _decide(refund, actor)
    end_refund(refund, RefundStatus.REJECTED, "")
    return refund


@transaction.atomic
def resolve_doubt(checkout_id: UUID) -> bool:
    """A person has seen to it; False when there was no doubt."""
    return bool(
        Checkout.objects.filter(pk=checkout_id).exclude(doubt="").update(doubt="")
    )


def give_back_surplus(checkout: Checkout, cause: RefundCause, at: datetime) -> None:
    """Of a held checkout that was paid and was not wanted: all of it, at once."""
    if not Refund.objects.filter(checkout=checkout).exclude(cause="STAFF").exists():
        reason = RefundCause(cause).label
        _begin(checkout, checkout.refundable, cause, reason, SERVICE, large=False)


def unfinished_part(report: Report) -> Decimal:
    """What the checks of a paid report cost that were not done."""
    undone = report.results.filter(
        status__in=[ResultStatus.FAILED, ResultStatus.CANCELLED]
    )
    return undone.aggregate(sum=Sum("price"))["sum"] or Decimal(0)


def _begin(
    checkout: Checkout,
    amount: Decimal,
    cause: RefundCause,
    reason: str,
    actor: str,
    *,
    large: bool,
) -> Refund:
    Checkout.objects.filter(pk=checkout.pk).update(refunded=F("refunded") + amount)
    refund = Refund(
        checkout=checkout,
        amount=amount,
        cause=cause,
        reason=reason[:300],
        status=RefundStatus.REQUESTED,
        requested_by=actor,
        needs_second=large,
    )
    # Refused when the workspace has spent it.
    _adjust(refund, -amount)
    refund.save(force_insert=True)
    if not large:
        _approve(refund, now())
    return refund


def _approve(refund: Refund, at: datetime) -> None:
    refund.status, refund.next_try_at = RefundStatus.APPROVED, at
    refund.save()
    wake_up_by(REFUNDS, at)


def _decide(refund: Refund, actor: str) -> None:
    if refund.status != RefundStatus.REQUESTED:
        raise NotRefundable(f"It is {refund.status} already.")
    refund.decided_by, refund.decided_at = actor, now()


def end_refund(refund: Refund, status: RefundStatus, message: str) -> None:
    """Of a held refund: what was not given back can be asked for again."""
    refund.status, refund.message = status, message[:200]
    refund.next_try_at, refund.ended_at = None, now()
    refund.save()
    if status == RefundStatus.DONE:
        _tell(refund)
        return
    checkout = refund.checkout
    back = F("refunded") - refund.amount
    Checkout.objects.filter(pk=checkout.pk).update(refunded=back)
    _adjust(refund, refund.amount)


def _tell(refund: Refund) -> None:
    """Say that the money was given back, to whom it went and on the report."""
    checkout = refund.checkout
    is_all = _given_back(checkout) == checkout.paid_amount
    if is_all and checkout.doubt == Doubt.OTHER_AMOUNT:
        Checkout.objects.filter(pk=checkout.pk).update(doubt="")
    if checkout.report is None:
        return
    if is_all and checkout.is_counted:
        paid = Payment.objects.filter(report=checkout.report, status=PaymentStatus.PAID)
        paid.update(status=PaymentStatus.REFUNDED)
    notify(*refund_notice(checkout.report, refund))


def _given_back(checkout: Checkout) -> Decimal:
    done = Refund.objects.filter(checkout=checkout, status=RefundStatus.DONE)
    return done.aggregate(sum=Sum("amount"))["sum"] or Decimal(0)


def _adjust(refund: Refund, amount: Decimal) -> None:
    """Move the balance that the checkout had topped up."""
    checkout = refund.checkout
    if checkout.account is None or not checkout.is_counted:
        return
    record(
        Movement(
            checkout.account.pk,
            Kind.ADJUSTMENT,
            amount,
            refund.requested_by,
            note=f"refund {refund.pk}",
            checkout_id=checkout.pk,
        )
    )


def _hold(checkout_id: UUID) -> Checkout:
    """The checkout, locked after its report, as every verb does."""
    report_id = Checkout.objects.values_list("report_id", flat=True).get(pk=checkout_id)
    if report_id:
        held().get(pk=report_id)
    checkouts = Checkout.objects.select_for_update(of=("self",), no_key=True)
    return checkouts.select_related("account").get(pk=checkout_id)


def hold_refund(refund_id: UUID) -> Refund:
    """Report, checkout and refund, locked in that order."""
    checkout_id = Refund.objects.values_list("checkout_id", flat=True).get(pk=refund_id)
    checkout = _hold(checkout_id)
    refund = Refund.objects.select_for_update(no_key=True).get(pk=refund_id)
    refund.checkout = checkout
    return refund
