"""Refunds of a checkout's money, through the provider that took it.

Staff or the service request a refund, a second person approves a large one, and
`send_refunds` sends it. A request reduces the checkout's refundable amount at once, so
that two people cannot refund the same money. Each transfer is claimed under a lease
before the call to the provider, and recorded after it: `Refund.tries` is the fence.
"""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import cast
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Greatest
from django.db.models.lookups import GreaterThan

from verification.backoffice.approvals import (
    SERVICE_STAFF,
    DecisionRefused,
    StaffActor,
    record_approval,
    record_rejection,
)
from verification.checks.models import CheckResult, ResultStatus
from verification.consents.models import REFUSED_STATUSES
from verification.jobs.claims import claim_due, schedule_next_run, sweep
from verification.jobs.names import JobName
from verification.jobs.queue import advisory_lock, beat, job, schedule_job
from verification.notifications.outbox import notify
from verification.payments.alerts import (
    alert_about_review_flag,
    alert_unfinished_part,
    clear_review_flag,
    keep_unfinished_part,
    raise_review_flag,
)
from verification.payments.disputes import (
    lock_checkout,
    release_held_money,
    top_up_movement,
)
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
from verification.payments.payer_messages import (
    cancel_shortfalls,
    refund_notice,
    top_up_refund_notice,
)
from verification.payments.registry import provider_named
from verification.providers.base import ProviderError, Unavailable
from verification.providers.payment_provider import (
    ProviderRefund,
    RefundRequest,
    RefundSnapshot,
    RefundState,
)
from verification.reports.models import Report, ReportStatus
from verification.reports.status import locked_reports
from verification.values.clock import now
from verification.web.log import redact
from workspaces.ledger import InsufficientBalance, record_movements, take_back
from workspaces.models import Account

logger = logging.getLogger(__name__)
# Staff's list of unfinished parts holds payments of this time.
LISTED_FOR = timedelta(days=90)
# A call to a provider ends well within this time.
LEASE = timedelta(minutes=2)
LONGEST_WAIT = timedelta(hours=6)
# An approved refund that lasts longer gets REFUND_STUCK.
STUCK_AFTER = timedelta(days=3)


class NotRefundable(DecisionRefused):
    """The refund is refused and no row has changed. The text says why."""


@transaction.atomic
def request_refund(
    checkout_id: UUID,
    amount: Decimal,
    *,
    reason: str,
    by: StaffActor,
    expected: Decimal | None = None,
    is_part: bool = False,
) -> Refund:
    """Request a refund of this amount; with `is_part` it is the `unfinished_part`.

    It waits for a second person if all refunds of the checkout together exceed
    REFUND_NEEDS_SECOND_ABOVE. `expected` is the refundable amount that the person saw:
    a different amount means that a colleague was faster. Raises NotRefundable.
    """
    checkout = lock_checkout(checkout_id)
    if is_part and amount != unfinished_part(checkout):
        raise NotRefundable("The part that was not done has changed. Look again.")
    if not reason.strip():
        raise NotRefundable("Say why the money is given back.")
    if checkout.status != CheckoutStatus.PAID:
        raise NotRefundable("Nothing was paid by this checkout.")
    if expected is not None and expected != checkout.refundable:
        raise NotRefundable("Somebody else has given something back. Look again.")
    if not _is_refundable_amount(amount, checkout.refundable):
        most = f"{checkout.paid_currency} {checkout.refundable:.2f}"
        raise NotRefundable(
            f"Give an amount above 0 in whole cents; {most} can still be given back."
        )
    if checkout.is_part and not checkout.is_counted and amount != checkout.refundable:
        raise NotRefundable(
            "It is a part that waits for the rest of the payment: give all of it back."
        )
    # Small refunds add up: together they need a second person as one large refund does.
    large = checkout.refunded + amount > settings.REFUND_NEEDS_SECOND_ABOVE
    return _create_refund(checkout, amount, RefundCause.STAFF, reason, by, large=large)


def _is_refundable_amount(amount: Decimal, most: Decimal) -> bool:
    return amount.is_finite() and 0 < amount <= most and amount == round(amount, 2)


@transaction.atomic
def approve_refund(refund_id: UUID, *, by: StaffActor) -> Refund:
    """Approve a requested refund.

    Raises NotRefundable if the requester approves it, if it has a decision already, or
    if the payer's bank or a refund at the provider may take the money as well.
    """
    refund = lock_refund(refund_id)
    record_approval(refund, by, NotRefundable)
    disputes = refund.checkout.disputes.exclude(status=DisputeStatus.WON)
    if disputes.filter(held_amount__lt=F("amount")).exists():
        raise NotRefundable("The payer disputes this money at their bank: reject it.")
    if ReviewFlag.REFUNDED_ELSEWHERE in refund.checkout.review_flags:
        raise NotRefundable(
            "Money was refunded at the provider: reject it, or clear that flag first."
        )
    _approve(refund)
    return refund


@transaction.atomic
def reject_refund(refund_id: UUID, *, by: StaffActor) -> Refund:
    """Reject a requested refund, which frees its amount. Raises NotRefundable."""
    refund = lock_refund(refund_id)
    record_rejection(refund, by, NotRefundable)
    end_refund(refund, RefundStatus.REJECTED, "")
    return refund


def refund_surplus(
    checkout: Checkout, cause: RefundCause, amount: Decimal | None = None
) -> None:
    """Refund the amount, or the rest, of a locked checkout, once for each cause.

    If the provider has already refunded money, staff decide: it may be this surplus.
    """
    earlier = Refund.objects.filter(checkout=checkout, cause=cause)
    if not (checkout.refunded_elsewhere or earlier.exists()):
        amount, reason = amount or checkout.refundable, RefundCause(cause).label
        _create_refund(checkout, amount, cause, reason, SERVICE_STAFF, large=False)


def refund_play_money(checkout: Checkout) -> None:
    """Refund the rest of a locked checkout of the sandbox, as its client decides."""
    _create_refund(
        checkout,
        checkout.refundable,
        RefundCause.STAFF,
        "The client refunds the play money of its sandbox.",
        SERVICE_STAFF,
        large=False,
    )


def refund_parts(payment_id: UUID) -> None:
    """Refund the parts of a locked payment whose rest did not come."""
    rows = Checkout.objects.parts(payment_id).select_for_update(no_key=True)
    parts = list(rows.order_by("id"))
    cancel_shortfalls(parts)
    for part in parts:
        refund_surplus(part, RefundCause.SHORT)


@transaction.atomic
def abandon_payment(payment_id: UUID) -> None:
    """Refund the parts of a payment whose payer does not pay the rest."""
    report_id = Payment.objects.values_list("report_id", flat=True).get(pk=payment_id)
    locked_reports().get(pk=report_id)
    refund_parts(payment_id)


def _create_refund(
    checkout: Checkout,
    amount: Decimal,
    cause: RefundCause,
    reason: str,
    by: StaffActor,
    *,
    large: bool,
) -> Refund:
    # A part with a refund stops waiting for the rest.
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
    try:
        _adjust_balance(refund, -amount)
    except InsufficientBalance as e:
        raise NotRefundable("The workspace has spent that money.") from e
    account = checkout.account
    if account and account.billing != Account.Billing.PLAY:
        # A workspace spends its credit on reports. No refund pays credit out.
        account.refresh_from_db(fields=["balance"])
        if checkout.is_counted and account.balance < 0:
            raise NotRefundable("The workspace has spent that money.")
    refund.save(force_insert=True)
    if not large:
        _approve(refund)
    return refund


def _approve(refund: Refund) -> None:
    refund.status, refund.next_try_at = RefundStatus.APPROVED, now()
    refund.save()
    # Always a new job: a job that waits already may run before this commits.
    schedule_job(send_refunds)


def try_refunds_now(checkout_id: UUID) -> None:
    """Poll the provider about the checkout's refunds once the transaction commits."""
    at = now()
    waiting = Refund.objects.filter(checkout=checkout_id, next_try_at__gt=at)
    if waiting.update(next_try_at=at):
        schedule_job(send_refunds)


@job
def send_refunds() -> None:
    """Send due refunds to their providers, or poll for their results."""
    while beat() and (refund := _claim()):
        try:
            _send(refund)
        except Exception as e:
            # The job retries this refund after its lease, and goes on with the others.
            why = type(e).__name__
            logger.error("refund %s was not sent (%s); retrying", refund.pk, why)
            if not connection.in_atomic_block:
                connection.close_if_unusable_or_obsolete()
    waiting = Refund.objects.filter(next_try_at__isnull=False)
    schedule_next_run(send_refunds, waiting, "next_try_at")


def _claim() -> Refund | None:
    """Claim the refund that has been due longest. `tries` is the fence of the claim."""
    at = now()
    due = Refund.objects.filter(next_try_at__lte=at).order_by("next_try_at")
    assignments = "next_try_at = lease.ends, tries = tries + 1"
    claimed = claim_due(due[:1], assignments, LEASE, at)
    return claimed[0] if claimed else None


def _send(refund: Refund) -> None:
    # A worker that was suspended past its lease may still be calling the provider. Two
    # calls at once could make a provider without idempotency keys pay twice.
    with advisory_lock(f"refund {refund.pk}") as is_alone:
        current = Refund.objects.filter(
            pk=refund.pk, tries=refund.tries, status=RefundStatus.APPROVED
        )
        if not (is_alone and current.exists()):
            return
        answer = _query_provider(refund)
    with transaction.atomic():
        _record(lock_refund(refund.pk), refund.tries, answer)


def _query_provider(refund: Refund) -> RefundSnapshot | ProviderError:
    request = build_refund_request(refund)
    try:
        provider = provider_named(refund.checkout.provider)
        # An earlier try may have reached the provider although its answer was lost.
        if refund.tries > 1:
            if snapshot := provider.poll_refund(request, refund.provider_refund):
                return snapshot
            if refund.provider_refund:
                return Unavailable("REFUND_NOT_FOUND", "The provider has lost it.")
    except ProviderError as e:
        # A failed poll decides nothing, even a refused one: a later try asks again.
        return Unavailable(e.code, e.message)
    try:
        return provider.refund(request)
    except ProviderError as e:
        return e


def build_refund_request(refund: Refund) -> RefundRequest:
    """Return the request that sends the refund, or polls for it."""
    checkout = refund.checkout
    return RefundRequest(
        str(refund.pk),
        checkout.reference,
        checkout.transaction,
        refund.amount,
        checkout.paid_currency,
    )


def _record(refund: Refund, tries: int, answer: RefundSnapshot | ProviderError) -> None:
    """Record the provider's answer to the try with this number.

    The answer to an earlier try counts only if the refund is done.
    """
    is_done = isinstance(answer, RefundSnapshot) and answer.state == RefundState.DONE
    if refund.status != RefundStatus.APPROVED:
        if is_done and refund.status == RefundStatus.FAILED:
            logger.error("refund %s is FAILED here, and done there", refund.pk)
            flag_refund(refund)
        return
    if refund.tries != tries and not is_done:
        return
    if isinstance(answer, Unavailable):
        # Retry without end: an earlier try may have moved the money.
        refund.message = provider_message(answer.message, refund.checkout.report)
        _try_later(refund)
    elif isinstance(answer, ProviderError):
        _fail(refund, answer.code, answer.message)
    elif answer.state == RefundState.PENDING:
        refund.provider_refund = answer.refund
        refund.message = provider_message(answer.message, refund.checkout.report)
        _try_later(refund, needs_somebody=answer.needs_somebody)
    else:
        refund.provider_refund = answer.refund
        if is_done:
            end_refund(refund, RefundStatus.DONE, answer.message)
        else:
            _fail(refund, "by the provider", answer.message)


def provider_message(text: str, report: Report | None) -> str:
    """Return the provider's text without personal data, as the database accepts it.

    It is empty for an erased report.
    """
    if report and report.erased_at:
        return ""
    text = redact(text.encode(errors="replace").decode())
    return text.replace("\x00", "")[:200]


def _fail(refund: Refund, code: str, message: str) -> None:
    logger.error("refund %s has failed: %s", refund.pk, code)
    end_refund(refund, RefundStatus.FAILED, message)
    flag_refund(refund)


def _try_later(refund: Refund, *, needs_somebody: bool = False) -> None:
    wait = min(timedelta(minutes=2 ** min(refund.tries, 12)), LONGEST_WAIT)
    at = now()
    refund.next_try_at = at + wait
    approved_at = refund.decided_at or refund.created_at
    if refund.stuck_at is None and (needs_somebody or at - approved_at > STUCK_AFTER):
        refund.stuck_at = at
        why = "waits for a person" if needs_somebody else "has been pending for days"
        logger.error("refund %s %s", refund.pk, why)
        flag_refund(refund, ReviewFlag.REFUND_STUCK)
    refund.save()


def end_refund(refund: Refund, status: RefundStatus, message: str) -> None:
    """End a locked refund with this status.

    The amount of a failed or rejected refund is free for disputes and other refunds.
    """
    refund.message = provider_message(message, refund.checkout.report)
    refund.status = status
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
    is_disputed = checkout.disputes.exclude(status=DisputeStatus.WON).exists()
    if is_disputed or status == RefundStatus.REJECTED:
        # The next poll lets the disputes hold the amount. It also finds out whether a
        # rejected refund was sent, as a restore may have lost its approval.
        Checkout.objects.filter(pk=checkout.pk).update(next_poll_at=refund.ended_at)
        schedule_job(JobName.POLL_DUE_CHECKOUTS)
    if checkout.is_counted:
        # An edit has replaced the payment, whose payer pays the whole amount again.
        pays_nothing = _without_payment().filter(pk=checkout.pk).exists()
    else:
        # A part whose rest did not come, and which nobody looks at yet
        pays_nothing = status == RefundStatus.REJECTED and not checkout.review_flags
    if pays_nothing:
        raise_review_flag(checkout.pk, ReviewFlag.PAYS_NOTHING)


def flag_refund(refund: Refund, flag: ReviewFlag = ReviewFlag.REFUND_FAILED) -> None:
    """Raise the flag on the refund's checkout, and alert the operators."""
    if not raise_review_flag(refund.checkout_id, flag):
        # Another refund has raised the flag. This one needs an alert of its own.
        alert_about_review_flag(refund.checkout_id, flag, refund.pk)


def _notify_payer(refund: Refund) -> None:
    """Notify the payer of a done refund. Mark a fully refunded payment REFUNDED."""
    checkout = refund.checkout
    if _is_fully_refunded(Checkout.objects.filter(pk=checkout.pk)):
        clear_review_flag(checkout.pk, ReviewFlag.OTHER_CURRENCY)
        clear_review_flag(checkout.pk, ReviewFlag.REFUND_FAILED)
    if checkout.report is None or checkout.payment_id is None:
        notify(*top_up_refund_notice(refund))
        return
    paying = Checkout.objects.paying(checkout.payment_id)
    if checkout.is_counted and _is_fully_refunded(paying):
        paid = Payment.objects.filter(status=PaymentStatus.PAID)
        if payment := paid.filter(pk=checkout.payment_id).first():
            payment.set_status(PaymentStatus.REFUNDED)
    notify(*refund_notice(checkout.report, refund))


def _is_fully_refunded(checkouts: QuerySet[Checkout]) -> bool:
    """Return whether done refunds cover all the money of these checkouts."""
    done = Refund.objects.filter(checkout__in=checkouts, status=RefundStatus.DONE)
    refunded = done.aggregate(sum=Sum("amount"))["sum"]
    return refunded == checkouts.aggregate(sum=Sum("paid_amount"))["sum"]


@job
def refund_unfinished_parts() -> None:
    """Refund the unfinished parts of reports that have ended.

    Jobs may run at the same time; each checkout is accounted for once.
    """
    sweep(_unaccounted(), refund_unfinished_part)


@transaction.atomic
def refund_unfinished_part(checkout_id: UUID) -> None:
    """Refund the unfinished part of a checkout's money.

    A review flag on the payment leaves the part to staff, and alerts the operators.
    """
    checkout = lock_checkout(checkout_id)
    if not _unaccounted().filter(pk=checkout_id).exists():
        # Another job has accounted for it, or the client has retried a check.
        return
    Checkout.objects.filter(pk=checkout_id).update(accounted_at=now())
    part = unfinished_part(checkout)
    if checkout.is_part and not checkout.is_counted:
        refund_surplus(checkout, RefundCause.SHORT)
    elif part and not is_left_to_staff(checkout):
        cause = RefundCause.NOT_DONE
        refund = _create_refund(
            checkout, part, cause, str(cause.label), SERVICE_STAFF, large=False
        )
        notify(*refund_notice(cast(Report, checkout.report), refund))
    elif part:
        alert_unfinished_part(checkout, part)


def _unaccounted() -> QuerySet[Checkout]:
    """Return checkouts of ended reports that wait for `refund_unfinished_part`."""
    grace = timedelta(minutes=settings.REFUND_UNDONE_AFTER_MINUTES)
    unaccounted = Checkout.objects.filter(
        Q(is_counted=True) | Q(is_part=True),
        payment_id__isnull=False,
        accounted_at=None,
    )
    # An edit that replaced the payment has refunded all of it.
    replaced = unaccounted.filter(pk__in=_without_payment())
    return _with_ended_report(unaccounted, now() - grace) | replaced


def _with_ended_report(
    checkouts: QuerySet[Checkout], ended_by: datetime
) -> QuerySet[Checkout]:
    """Filter checkouts whose report ended by this time.

    A cancelled report, and a draft whose subject refuses consent or objects, end at
    once.
    """
    results = CheckResult.objects.filter(
        report=OuterRef("report"),
        status__in=[ResultStatus.PENDING, ResultStatus.RUNNING],
    )
    ended = Q(report__completed_at__lte=ended_by)
    cancelled = Q(report__status=ReportStatus.CANCELLED)
    refusal = Q(report__consent__status__in=REFUSED_STATUSES)
    objection = Q(report__restricted_at__isnull=False)
    refused = Q(refusal | objection, report__status=ReportStatus.DRAFT)
    payment = Payment.objects.filter(pk=OuterRef("payment_id"))
    return checkouts.filter(
        refused | Q(ended | cancelled, ~Exists(results)), Exists(payment)
    )


def is_left_to_staff(checkout: Checkout) -> bool:
    """Return whether staff decide about the unfinished part of this payment."""
    paying = Checkout.objects.paying(cast(UUID, checkout.payment_id))
    flagged = ~Q(review_flags=[]) | Q(refunded_elsewhere__gt=0) | ~Q(reason_to_keep="")
    # The service refunds the part once. A failed refund of it is for staff.
    earlier = checkout.refunds.filter(cause=RefundCause.NOT_DONE)
    return paying.filter(flagged).exists() or earlier.exists()


def unfinished_part(checkout: Checkout) -> Decimal:
    """Return the price of the report's unfinished checks, less earlier refunds."""
    report = checkout.report
    counted = Checkout.objects.filter(pk=checkout.pk, is_counted=True)
    if report is None or not _with_ended_report(counted, now()).exists():
        return Decimal(0)
    undone = report.results.exclude(status=ResultStatus.COMPLETED)
    cost = undone.aggregate(sum=Sum("price"))["sum"] or Decimal(0)
    # Several checkouts can pay one report together.
    paid = report.checkouts.filter(payment_id=checkout.payment_id, is_counted=True)
    gone = sum(one.counted_amount - one.kept_amount for one in paid)
    return max(Decimal(0), min(cost - gone, checkout.kept_amount))


def with_unfinished_part(checkouts: QuerySet[Checkout]) -> QuerySet[Checkout]:
    """Filter checkouts with an `unfinished_part`, paid within `LISTED_FOR`."""
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
    # The filter by time keeps the sums to recent checkouts.
    lately = checkouts.filter(
        paid_at__gt=now() - LISTED_FOR,
        is_counted=True,
        paid_amount__gt=F("refunded") + F("disputed"),
    )
    return _with_ended_report(lately, now()).filter(
        GreaterThan(Subquery(undone), Subquery(gone))
    )


@transaction.atomic
def flag_refunds_elsewhere(
    checkout_id: UUID, refunded: Decimal, asked_at: datetime
) -> None:
    """Raise REFUNDED_ELSEWHERE if the provider has refunded more than we sent.

    `refunded` is the provider's total at the time `asked_at`.
    """
    checkout = lock_checkout(checkout_id)
    # A refund that we never sent is not in the provider's total.
    unsent = checkout.refunds.filter(tries=0, ended_at=None).aggregate(
        sum=Sum("amount")
    )
    elsewhere = refunded - checkout.refunded + (unsent["sum"] or 0)
    is_known = elsewhere <= checkout.refunded_elsewhere
    if checkout.status != CheckoutStatus.PAID or is_known:
        return
    # The total may contain a refund that has failed since `asked_at`.
    if checkout.refunds.filter(ended_at__gte=asked_at).exists():
        return
    message = "checkout %s: %s was refunded at the provider, not by us"
    logger.error(message, checkout.pk, elsewhere)
    # A part of which something went back stops waiting for the rest of its payment.
    is_part = checkout.is_part and checkout.is_counted
    Checkout.objects.filter(pk=checkout.pk).update(
        refunded_elsewhere=elsewhere, is_part=is_part
    )
    raise_review_flag(checkout.pk, ReviewFlag.REFUNDED_ELSEWHERE)


@transaction.atomic
def record_refund_elsewhere(
    checkout_id: UUID, found: ProviderRefund, *, reason: str, by: StaffActor
) -> Refund:
    """Record a refund that somebody made in the provider's dashboard, once.

    `found` comes from the provider's API. A refund of a top-up leaves the balance even
    if the workspace has spent the money. A dispute that took the refunded money as well
    holds that much less. Raises NotRefundable.
    """
    checkout = lock_checkout(checkout_id)
    if not reason.strip():
        raise NotRefundable("Say why the money was given back.")
    if found.transaction != checkout.transaction or not checkout.transaction:
        raise NotRefundable("The provider gave back money of another payment.")
    if is_recorded(checkout, found):
        raise NotRefundable("It is recorded already.")
    most = checkout.refundable + checkout.disputed
    if found.currency != checkout.paid_currency or not _is_refundable_amount(
        found.amount, most
    ):
        left = f"{checkout.paid_currency} {most:.2f}"
        raise NotRefundable(f"Only {left} of this checkout are left.")
    release_held_money(checkout, found.amount - checkout.refundable)
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
    if movement := top_up_movement(refund, -found.amount, refund.requested_by):
        take_back(movement)
    if not elsewhere:
        clear_review_flag(checkout.pk, ReviewFlag.REFUNDED_ELSEWHERE)
    # The rest of a part stops waiting for the payment, so staff decide about it.
    rest = Checkout.objects.filter(pk=checkout.pk, is_counted=False, review_flags=[])
    if rest.filter(paid_amount__gt=F("refunded") + F("disputed")).exists():
        raise_review_flag(checkout.pk, ReviewFlag.PAYS_NOTHING)
    _notify_payer(refund)
    return refund


def is_recorded(checkout: Checkout, found: ProviderRefund) -> bool:
    """Return whether we know the provider's refund, by its id or by ours.

    Our id finds a refund of ours whose answer from the provider was lost.
    """
    return any(
        refund.provider_refund == found.refund or str(refund.pk) in found.words
        for refund in checkout.refunds.exclude(status=RefundStatus.REJECTED)
    )


@transaction.atomic
def resolve_review_flags(
    checkout_id: UUID, names: Iterable[str], reason: str
) -> list[str]:
    """Clear these flags of the checkout, and return the names of the cleared ones.

    The page of the person names the flags. If money that pays for nothing stays on the
    checkout, the reason says why.
    """
    if not reason.strip():
        raise ValueError("Say what was found.")
    lock_checkout(checkout_id)
    known = [ReviewFlag(name) for name in names if name in ReviewFlag]
    # A flag leaves the unfinished part of the payment to this person.
    accounted = Checkout.objects.filter(pk=checkout_id, accounted_at__isnull=False)
    was_left = with_unfinished_part(accounted).exists()
    cleared = [flag.value for flag in known if clear_review_flag(checkout_id, flag)]
    if cleared:
        keeps_money = Checkout.objects.filter(
            pk=checkout_id, status=CheckoutStatus.PAID
        )
        if was_left:
            keep_unfinished_part(checkout_id)
        else:
            keeps_money = keeps_money.filter(
                Q(is_counted=False)
                | Q(paid_amount__gt=F("refunded") + F("disputed") + F("counted_amount"))
                | Q(disputed__gt=0)
                | Q(pk__in=_without_payment())
            )
        keeps_money.update(reason_to_keep=reason[:500])
    return cleared


def _without_payment() -> QuerySet[Checkout]:
    """Return checkouts whose payment an edit of the report has replaced."""
    payment = Payment.objects.filter(pk=OuterRef("payment_id"))
    return Checkout.objects.filter(~Exists(payment), payment_id__isnull=False)


def _adjust_balance(refund: Refund, amount: Decimal) -> None:
    if movement := top_up_movement(refund, amount, refund.requested_by):
        record_movements(movement)


def lock_refund(refund_id: UUID) -> Refund:
    """Lock report, checkout and refund, in that order, and return the refund."""
    checkout_id = Refund.objects.values_list("checkout_id", flat=True).get(pk=refund_id)
    checkout = lock_checkout(checkout_id)
    refund = Refund.objects.select_for_update(no_key=True).get(pk=refund_id)
    refund.checkout = checkout
    return refund
