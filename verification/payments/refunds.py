"""Refunds of a checkout's money, through the provider that took it.

A person or a rule requests a refund, a second person may have to approve it, and a job
sends it outside any transaction. A request reduces the refundable amount at once, so
that two people cannot refund the same money.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import cast
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Greatest
from django.db.models.lookups import GreaterThan
from django.utils.timezone import now

from verification.backoffice.approvals import (
    SERVICE,
    DecisionRefused,
    StaffActor,
    record_approval,
    record_rejection,
)
from verification.checks.models import CheckResult, ResultStatus
from verification.consents.models import ConsentStatus
from verification.jobs.batches import sweep
from verification.jobs.queue import job, schedule_job
from verification.notifications.outbox import notify
from verification.payments.alerts import (
    alert_about_review_flag,
    alert_unfinished_part,
    clear_review_flag,
    raise_review_flag,
)
from verification.payments.messages import refund_notice, top_up_refund_notice
from verification.payments.models import (
    Checkout,
    CheckoutStatus,
    DisputeStatus,
    Payment,
    PaymentStatus,
    Refund,
    RefundCause,
    RefundStatus,
    ReviewFlag,
)
from verification.providers.payment_provider import ProviderRefund
from verification.reports.locks import locked_reports
from verification.reports.models import Report, ReportStatus
from workspaces.ledger import (
    InsufficientBalance,
    Kind,
    Movement,
    record_movements,
    take_back,
)
from workspaces.models import Account

logger = logging.getLogger(__name__)

UNFINISHED_STATUSES = [ResultStatus.PENDING, ResultStatus.RUNNING]
# A consent with one of these statuses ends its draft.
REFUSED_CONSENTS = [
    ConsentStatus.DECLINED,
    ConsentStatus.EXPIRED,
    ConsentStatus.WITHDRAWN,
]
# The list of unfinished parts goes back this far, by the time of payment.
LISTED_FOR = timedelta(days=90)
# Paths, because the modules of these jobs import this one.
REFUND_JOB = "verification.payments.refund_transfers.send_refunds"
POLL_JOB = "verification.payments.polling.poll_due_checkouts"


class NotRefundable(DecisionRefused):
    """The refund is refused and changes nothing; the text says why."""


@transaction.atomic
def request_refund(
    checkout_id: UUID,
    amount: Decimal,
    *,
    reason: str,
    by: StaffActor,
    left: Decimal | None = None,
) -> Refund:
    """Request a refund of this amount.

    It waits for a second person if all refunds of the checkout together exceed
    REFUND_NEEDS_SECOND_ABOVE. `left` is the refundable amount that the person saw; if
    it has changed, a colleague was faster. Raises NotRefundable.
    """
    return _request(lock_checkout(checkout_id), amount, reason, by, left)


@transaction.atomic
def request_unfinished_part_refund(
    checkout_id: UUID, *, reason: str, by: StaffActor, left: Decimal | None = None
) -> Refund:
    """Request a refund of `unfinished_part`. Raises NotRefundable."""
    checkout = lock_checkout(checkout_id)
    part = unfinished_part(checkout)
    if not part:
        raise NotRefundable("There is no part of checks that were not done.")
    return _request(checkout, part, reason, by, left)


@transaction.atomic
def approve_refund(refund_id: UUID, *, by: StaffActor) -> Refund:
    """Approve a request. Raises NotRefundable if the requester approves it, or if it
    has a decision already."""
    refund = lock_refund(refund_id)
    record_approval(refund, by, NotRefundable)
    _approve(refund, now())
    return refund


@transaction.atomic
def reject_refund(refund_id: UUID, *, by: StaffActor) -> Refund:
    """Reject a request: another refund may return its money. Raises NotRefundable."""
    refund = lock_refund(refund_id)
    record_rejection(refund, by, NotRefundable)
    end_refund(refund, RefundStatus.REJECTED, "")
    return refund


@transaction.atomic
def resolve_review_flags(
    checkout_id: UUID, seen: Iterable[str], reason: str
) -> list[str]:
    """Clear the doubts that a person has seen to, and return those it cleared.

    The reason accounts for money that stays on the checkout and pays for nothing.
    """
    if not reason.strip():
        raise ValueError("Say what was found.")
    lock_checkout(checkout_id)
    known = [ReviewFlag(name) for name in seen if name in ReviewFlag]
    # The doubt left the unfinished part to this person.
    left = Checkout.objects.filter(pk=checkout_id, accounted_at__isnull=False)
    was_left = with_unfinished_part(left).exists()
    cleared = [doubt.value for doubt in known if clear_review_flag(checkout_id, doubt)]
    if cleared:
        kept = Checkout.objects.filter(
            Q(is_counted=False)
            | Q(paid_amount__gt=F("refunded") + F("disputed") + F("counted_amount"))
            | Q(disputed__gt=0)
            | Q(pk__in=_without_payment())
            | (Q(pk=checkout_id) if was_left else Q(pk__in=[]))
        )
        kept.filter(pk=checkout_id, status=CheckoutStatus.PAID).update(
            reason_to_keep=reason[:500]
        )
    return cleared


def refund_surplus(
    checkout: Checkout, cause: RefundCause, amount: Decimal | None = None
) -> None:
    """Refund this much of a held checkout, or the rest of it, once for each cause."""
    if not Refund.objects.filter(checkout=checkout, cause=cause).exists():
        amount, reason = amount or checkout.refundable, RefundCause(cause).label
        _create_refund(checkout, amount, cause, reason, SERVICE, large=False)


def refund_parts(payment_id: UUID) -> None:
    """Refund the parts of a held payment whose rest did not come."""
    parts = Checkout.objects.parts(payment_id).select_for_update(no_key=True)
    for part in parts.order_by("id"):
        refund_surplus(part, RefundCause.SHORT)


@transaction.atomic
def abandon_payment(payment_id: UUID) -> None:
    """Refund the parts of a payment whose payer does not pay the rest."""
    report_id = Payment.objects.values_list("report_id", flat=True).get(pk=payment_id)
    locked_reports().get(pk=report_id)
    refund_parts(payment_id)


def try_refunds_now(checkout_id: UUID) -> None:
    """Poll the provider about the checkout's refunds once the transaction commits."""
    at = now()
    waiting = Refund.objects.filter(checkout=checkout_id, next_try_at__gt=at)
    if waiting.update(next_try_at=at):
        schedule_job(REFUND_JOB)


@job
def refund_unfinished_parts() -> None:
    """Refund the unfinished parts of reports that have ended.

    Jobs may run at the same time; each checkout is accounted for once.
    """
    sweep(_unaccounted(), refund_unfinished_part)


@transaction.atomic
def refund_unfinished_part(checkout_id: UUID) -> None:
    """Refund the unfinished part of a checkout's money.

    A doubt about the payment leaves the part to staff, and operators get an alert.
    """
    checkout = lock_checkout(checkout_id)
    if not _unaccounted().filter(pk=checkout_id).exists():
        # A retry, or another job, was faster.
        return
    Checkout.objects.filter(pk=checkout_id).update(accounted_at=now())
    part = unfinished_part(checkout)
    if checkout.is_part and not checkout.is_counted:
        refund_surplus(checkout, RefundCause.SHORT)
    elif part and not is_left_to_staff(checkout):
        cause = RefundCause.NOT_DONE
        refund = _create_refund(
            checkout, part, cause, str(cause.label), SERVICE, large=False
        )
        notify(*refund_notice(cast(Report, checkout.report), refund))
    elif part and not checkout.reason_to_keep:
        alert_unfinished_part(checkout, part)


def _unaccounted() -> QuerySet[Checkout]:
    """Checkouts whose report has ended for good, and that wait for `account_for`."""
    grace = timedelta(minutes=settings.REFUND_UNDONE_AFTER_MINUTES)
    some = Checkout.objects.filter(
        Q(is_counted=True) | Q(is_part=True),
        payment_id__isnull=False,
        accounted_at=None,
    )
    # An edit that replaced the payment has refunded all of it.
    return _with_ended_report(some, now() - grace) | some.filter(
        pk__in=_without_payment()
    )


def _with_ended_report(
    checkouts: QuerySet[Checkout], ended_by: datetime
) -> QuerySet[Checkout]:
    """Filter checkouts whose report ended by then, was cancelled, or is a draft whose
    subject refuses consent."""
    results = CheckResult.objects.filter(
        report=OuterRef("report"), status__in=UNFINISHED_STATUSES
    )
    ended = Q(report__completed_at__lte=ended_by)
    cancelled = Q(report__status=ReportStatus.CANCELLED)
    refused = Q(
        report__status=ReportStatus.DRAFT, report__consent__status__in=REFUSED_CONSENTS
    )
    payment = Payment.objects.filter(pk=OuterRef("payment_id"))
    return checkouts.filter(
        refused | Q(ended | cancelled, ~Exists(results)), Exists(payment)
    )


def is_left_to_staff(checkout: Checkout) -> bool:
    """Return whether staff decide about the unfinished part of this payment."""
    paying = Checkout.objects.paying(cast(UUID, checkout.payment_id))
    doubted = ~Q(review_flags=[]) | Q(refunded_elsewhere__gt=0) | ~Q(reason_to_keep="")
    # An automatic refund of this part has failed.
    tried = checkout.refunds.filter(cause=RefundCause.NOT_DONE)
    return paying.filter(doubted).exists() or tried.exists()


def unfinished_part(checkout: Checkout) -> Decimal:
    """Return the price of the report's unfinished checks, less earlier refunds."""
    report = checkout.report
    over = _with_ended_report(
        Checkout.objects.filter(pk=checkout.pk, is_counted=True), now()
    )
    if report is None or not over.exists():
        return Decimal(0)
    undone = report.results.exclude(status=ResultStatus.COMPLETED)
    cost = undone.aggregate(sum=Sum("price"))["sum"] or Decimal(0)
    # Several checkouts may have paid the report together.
    paid = report.checkouts.filter(payment_id=checkout.payment_id, is_counted=True)
    gone = sum(one.counted_amount - one.kept for one in paid)
    return max(Decimal(0), min(cost - gone, checkout.kept))


def with_unfinished_part(checkouts: QuerySet[Checkout]) -> QuerySet[Checkout]:
    """Filter checkouts of the last `LISTED_FOR` with an `unfinished_part`."""
    undone = (
        CheckResult.objects.filter(report=OuterRef("report"))
        .exclude(status=ResultStatus.COMPLETED)
        .values("report")
        .values_list(Sum("price"))
    )
    surplus = F("paid_amount") - F("counted_amount")
    back = F("refunded") + F("disputed")
    gone = (
        Checkout.objects.filter(payment_id=OuterRef("payment_id"), is_counted=True)
        .values("payment_id")
        .annotate(gone=Sum(Greatest(back - surplus, Value(Decimal(0)))))
        .values_list("gone")
    )
    # The time comes first, so that the sums cover recent checkouts only.
    lately = checkouts.filter(
        paid_at__gt=now() - LISTED_FOR,
        is_counted=True,
        paid_amount__gt=F("refunded") + F("disputed"),
    )
    return _with_ended_report(lately, now()).filter(
        GreaterThan(Subquery(undone), Subquery(gone))
    )


def _request(
    checkout: Checkout,
    amount: Decimal,
    reason: str,
    by: StaffActor,
    left: Decimal | None,
) -> Refund:
    if not reason.strip():
        raise NotRefundable("Say why the money is given back.")
    if checkout.status != CheckoutStatus.PAID:
        raise NotRefundable("Nothing was paid by this checkout.")
    if left is not None and left != checkout.refundable:
        raise NotRefundable("Somebody else has given something back. Look again.")
    if not _is_refundable_amount(amount, checkout.refundable):
        told = f"{checkout.paid_currency} {checkout.refundable:.2f}"
        raise NotRefundable(
            f"Give an amount above 0 in whole cents; {told} can still be given back."
        )
    if checkout.is_part and not checkout.is_counted and amount != checkout.refundable:
        raise NotRefundable(
            "It is a part that waits for the rest of the payment: give all of it back."
        )
    # Several small refunds of a checkout are one large one.
    large = checkout.refunded + amount > settings.REFUND_NEEDS_SECOND_ABOVE
    return _create_refund(checkout, amount, RefundCause.STAFF, reason, by, large=large)


def _is_refundable_amount(amount: Decimal, most: Decimal) -> bool:
    if not amount.is_finite():
        return False
    return 0 < amount <= most and amount == round(amount, 2)


def _create_refund(
    checkout: Checkout,
    amount: Decimal,
    cause: RefundCause,
    reason: str,
    by: StaffActor,
    *,
    large: bool,
) -> Refund:
    # A part with a refund no longer waits for the rest.
    checkout.is_part = checkout.is_part and checkout.is_counted
    Checkout.objects.filter(pk=checkout.pk).update(
        refunded=F("refunded") + amount, is_part=checkout.is_part
    )
    refund = Refund(
        checkout=checkout,
        amount=amount,
        cause=cause,
        reason=reason[:300],
        status=RefundStatus.REQUESTED,
        requested_by=by.name,
        requested_by_user=by.user,
        needs_second=large,
    )
    _take_from_balance(refund)
    refund.save(force_insert=True)
    if not large:
        _approve(refund, now())
    return refund


def _approve(refund: Refund, at: datetime) -> None:
    refund.status, refund.next_try_at = RefundStatus.APPROVED, at
    refund.save()
    # `wake_up_by` would rely on a waiting job, which may run before this commits.
    schedule_job(REFUND_JOB)


def end_refund(refund: Refund, status: RefundStatus, message: str) -> None:
    """End a held refund.

    The checkout's disputes, or another refund, may take money that it did not return.
    """
    refund.status, refund.message = status, message[:200]
    refund.next_try_at, refund.ended_at = None, now()
    refund.save()
    if refund.stuck_at:
        clear_review_flag(refund.checkout_id, ReviewFlag.REFUND_STUCK)
    if status == RefundStatus.DONE:
        _notify_payer(refund)
        return
    checkout = refund.checkout
    back = F("refunded") - refund.amount
    Checkout.objects.filter(pk=checkout.pk).update(refunded=back, accounted_at=None)
    _adjust_balance(refund, refund.amount)
    if checkout.disputes.exclude(status=DisputeStatus.WON).exists():
        # The next look lets them hold it.
        Checkout.objects.filter(pk=checkout.pk).update(next_poll_at=refund.ended_at)
        schedule_job(POLL_JOB)
    is_rejected_part = status == RefundStatus.REJECTED and not checkout.is_counted
    if (is_rejected_part and not checkout.review_flags) or (
        # An edit has replaced the payment, and asks for the whole amount.
        checkout.is_counted and _without_payment().filter(pk=checkout.pk).exists()
    ):
        raise_review_flag(checkout.pk, ReviewFlag.PAYS_NOTHING)


def flag_refund(refund: Refund, why: ReviewFlag = ReviewFlag.REFUND_FAILED) -> None:
    """Have a person look at a refund that failed, or that does not end."""
    if not raise_review_flag(refund.checkout_id, why):
        # Another refund has raised this doubt.
        alert_about_review_flag(refund.checkout_id, why, refund.pk)


@transaction.atomic
def flag_refunds_elsewhere(
    checkout_id: UUID, refunded: Decimal, asked_at: datetime
) -> None:
    """Raise a doubt if the provider has refunded more than we requested.

    `refunded` is the provider's total, as it answered at `asked_at`.
    """
    checkout = lock_checkout(checkout_id)
    elsewhere = refunded - checkout.refunded
    if checkout.status != CheckoutStatus.PAID:
        return
    if elsewhere <= checkout.refunded_elsewhere:
        return
    # A refund that has failed since then was part of that total.
    if checkout.refunds.filter(ended_at__gte=asked_at).exists():
        return
    logger.error("checkout %s was given back elsewhere: %s", checkout.pk, elsewhere)
    Checkout.objects.filter(pk=checkout.pk).update(refunded_elsewhere=elsewhere)
    raise_review_flag(checkout.pk, ReviewFlag.REFUNDED_ELSEWHERE)


def _without_payment() -> QuerySet[Checkout]:
    """Checkouts whose payment an edit of the report has replaced."""
    there = Payment.objects.filter(pk=OuterRef("payment_id"))
    return Checkout.objects.filter(~Exists(there), payment_id__isnull=False)


def _notify_payer(refund: Refund) -> None:
    """Notify the payer of a refund that is done, and mark the payment REFUNDED."""
    checkout = refund.checkout
    if _is_fully_refunded(Checkout.objects.filter(pk=checkout.pk)):
        clear_review_flag(checkout.pk, ReviewFlag.OTHER_CURRENCY)
        clear_review_flag(checkout.pk, ReviewFlag.REFUND_FAILED)
    if checkout.report is None or checkout.payment_id is None:
        notify(*top_up_refund_notice(refund))
        return
    paying = Checkout.objects.paying(checkout.payment_id)
    if checkout.is_counted and _is_fully_refunded(paying):
        paid = Payment.objects.filter(pk=checkout.payment_id)
        paid.filter(status=PaymentStatus.PAID).update(status=PaymentStatus.REFUNDED)
    notify(*refund_notice(checkout.report, refund))


def _is_fully_refunded(checkouts: QuerySet[Checkout]) -> bool:
    """Return whether refunds that are done cover all the money of these checkouts."""
    done = Refund.objects.filter(checkout__in=checkouts, status=RefundStatus.DONE)
    given = done.aggregate(sum=Sum("amount"))["sum"]
    return given == checkouts.aggregate(sum=Sum("paid_amount"))["sum"]


def _take_from_balance(refund: Refund) -> None:
    """Take a top-up's refund from its balance. Raises NotRefundable if it is spent."""
    account = refund.checkout.account
    try:
        _adjust_balance(refund, -refund.amount)
    except InsufficientBalance as e:
        raise NotRefundable("The workspace has spent that money.") from e
    if account is None or account.billing != Account.Billing.PREPAID:
        return
    # Credit buys reports; it is not paid out.
    account.refresh_from_db(fields=["balance"])
    if refund.checkout.is_counted and account.balance < 0:
        raise NotRefundable("The workspace has spent that money.")


@transaction.atomic
def record_refund_elsewhere(
    checkout_id: UUID, found: ProviderRefund, *, reason: str, by: StaffActor
) -> Refund:
    """Enter a refund that somebody made in the provider's dashboard, once.

    `found` is the refund as the provider's API reports it. A refund of a top-up leaves
    the balance even if the money is spent. Raises NotRefundable.
    """
    checkout = lock_checkout(checkout_id)
    if not reason.strip():
        raise NotRefundable("Say why the money was given back.")
    if found.transaction != checkout.transaction or not checkout.transaction:
        raise NotRefundable("The provider gave back money of another payment.")
    if is_recorded(checkout, found):
        raise NotRefundable("It is recorded already.")
    if found.currency != checkout.paid_currency or not _is_refundable_amount(
        found.amount, checkout.refundable
    ):
        told = f"{checkout.paid_currency} {checkout.refundable:.2f}"
        raise NotRefundable(f"Only {told} of this checkout are left.")
    elsewhere = max(checkout.refunded_elsewhere - found.amount, Decimal(0))
    Checkout.objects.filter(pk=checkout.pk).update(
        refunded=F("refunded") + found.amount,
        refunded_elsewhere=elsewhere,
        is_part=checkout.is_part and checkout.is_counted,
    )
    refund = Refund.objects.create(
        checkout=checkout,
        amount=found.amount,
        cause=RefundCause.ELSEWHERE,
        reason=reason[:300],
        status=RefundStatus.DONE,
        requested_by=by.name,
        requested_by_user=by.user,
        provider_refund=found.refund,
        ended_at=now(),
    )
    if movement := _movement(refund, -found.amount):
        take_back(movement)
    if not elsewhere:
        clear_review_flag(checkout.pk, ReviewFlag.REFUNDED_ELSEWHERE)
    _notify_payer(refund)
    return refund


def is_recorded(checkout: Checkout, found: ProviderRefund) -> bool:
    """Find the refund by the provider's name, or by ours if that answer was lost."""
    return any(
        refund.provider_refund == found.refund or str(refund.pk) in found.words
        for refund in checkout.refunds.all()
    )


def _adjust_balance(refund: Refund, amount: Decimal) -> None:
    """Move the balance of a top-up."""
    if movement := _movement(refund, amount):
        record_movements(movement)


def _movement(refund: Refund, amount: Decimal) -> Movement | None:
    checkout = refund.checkout
    if checkout.account is None or not checkout.is_counted:
        return None
    return Movement(
        checkout.account.pk,
        Kind.ADJUSTMENT,
        amount,
        refund.requested_by,
        note=f"refund {refund.pk}",
        checkout_id=checkout.pk,
    )


def lock_checkout(checkout_id: UUID) -> Checkout:
    """Lock the checkout after its report, and return it."""
    report_id = Checkout.objects.values_list("report_id", flat=True).get(pk=checkout_id)
    if report_id:
        locked_reports().get(pk=report_id)
    checkouts = Checkout.objects.select_for_update(of=("self",), no_key=True)
    return checkouts.select_related("account").get(pk=checkout_id)


def lock_refund(refund_id: UUID) -> Refund:
    """Lock report, checkout and refund, in that order, and return the refund."""
    checkout_id = Refund.objects.values_list("checkout_id", flat=True).get(pk=refund_id)
    checkout = lock_checkout(checkout_id)
    refund = Refund.objects.select_for_update(no_key=True).get(pk=refund_id)
    refund.checkout = checkout
    return refund
