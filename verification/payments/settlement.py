"""Poll checkouts, and settle: turn the provider's answer into payment and entries.

A provider's event, a returning payer and the clock only bring `next_poll_at` forward.
`poll_due_checkouts` asks the provider, and `settle` records the answer. A poll that
dies is due again after its lease. If an event comes during a poll, another poll
follows.

`settle` is the only place where a payment becomes PAID. Report, payment, checkout,
ledger entry, refund and event change in one transaction. Rows are locked in the order
report, payment, checkout, as everywhere.
"""

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from verification.checks.due_checks import schedule_checks
from verification.checks.events import payment_event
from verification.consents.models import is_consent_refused
from verification.jobs.claims import claim_due, schedule_next_run
from verification.jobs.queue import beat, job, schedule_job
from verification.notifications.outbox import notify
from verification.payments.alerts import raise_review_flag
from verification.payments.disputes import record_disputes
from verification.payments.models import (
    PROMPT_LIFETIME,
    UNFINISHED_STATUSES,
    Checkout,
    CheckoutKind,
    CheckoutStatus,
    DisputeStatus,
    Payment,
    PaymentStatus,
    RefundCause,
    ReviewFlag,
)
from verification.payments.payer_messages import (
    build_receipt,
    build_top_up_receipt,
    cancel_shortfalls,
    payer_of,
    payment_receipt,
    payment_shortfall,
    top_up_receipt,
)
from verification.payments.refunds import (
    flag_refunds_elsewhere,
    provider_message,
    refund_parts,
    refund_surplus,
)
from verification.payments.registry import is_built_in, minimum_amount, provider_named
from verification.providers.base import ProviderError, Unavailable
from verification.providers.payment_provider import (
    CheckoutSnapshot,
    CheckoutState,
    PromptFailure,
)
from verification.reports.hosted_links import cancel_requests
from verification.reports.models import Report, ReportStatus
from verification.reports.status import Transition, apply_transitions, locked_reports
from verification.settings.providers import PAYMENT_GRACE_DAYS
from verification.values.clock import now
from webhooks.events import record_events
from workspaces.ledger import Kind, Movement, record_movements

logger = logging.getLogger(__name__)
# Times after the opening of a checkout. Polls go on every hour for as long as providers
# repeat their events, and then rarely: some pages can be paid while they are open.
POLL_TIMES = [timedelta(minutes=minutes) for minutes in (1, 5, 15, 60)]
# Payers answer a prompt soon, and providers send no event for some of its endings.
PROMPT_POLL_TIMES = [
    timedelta(seconds=30),
    timedelta(minutes=1),
    PROMPT_LIFETIME,
    *POLL_TIMES[1:],
]
HOURLY_INTERVAL = timedelta(hours=1)
HOURLY_FOR = timedelta(hours=72)
LATE_INTERVAL = timedelta(hours=6)
# Calls to a provider end within this time, as a rule. Two polls at once do no harm.
LEASE = timedelta(minutes=1)
BATCH_SIZE = 16
# The least time between two polls for a waiting payer.
MIN_POLL_INTERVAL = timedelta(seconds=5)
# A job starts no batch after this time, so that its worker can stop.
JOB_SECONDS = 20.0
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


def poll_now(checkout_id: UUID) -> None:
    """Poll this checkout once the transaction commits.

    One at a time: a transaction that locks two without their report's lock can deadlock
    with `settle`.
    """
    at = now()
    Checkout.objects.filter(pk=checkout_id).update(next_poll_at=at)
    schedule_poll(at)


def schedule_poll(at: datetime) -> None:
    """Schedule a polling job for checkouts that this transaction makes due.

    Always a new job: a job that waits already may run before this transaction commits.
    """
    schedule_job(poll_due_checkouts, at=at)


def close_checkouts(payment_id: UUID) -> None:
    """Close the unfinished checkouts of a payment that has ended, once this commits.

    The next poll asks the provider to expire them. Money that arrives is refunded.
    The caller has locked the report.
    """
    at = now()
    if Checkout.objects.unfinished(payment_id).update(next_poll_at=at):
        schedule_poll(at)


@transaction.atomic
def poll_soon(checkout_id: UUID) -> bool:
    """Poll within `MIN_POLL_INTERVAL`, as the payer is waiting.

    The answer of a poll that is under way may be older than the payment, so that
    another poll follows it. Returns False, and schedules nothing, if a poll ended
    within the interval, or if the checkout has no further poll.
    """
    rows = Checkout.objects.select_for_update(no_key=True)
    checkout = rows.filter(pk=checkout_id, next_poll_at__isnull=False).first()
    if checkout is None or checkout.next_poll_at is None:
        return False
    at = now()
    polled_at = checkout.polled_at
    soon = max(at, polled_at + MIN_POLL_INTERVAL) if polled_at else at
    if checkout.next_poll_at <= soon:
        return True
    if soon > at and not _is_claimed(checkout):
        return False
    Checkout.objects.filter(pk=checkout_id).update(next_poll_at=soon)
    schedule_poll(soon)
    return True


def is_being_polled(checkout: Checkout) -> bool:
    """Return whether a poll is under way, or due within `MIN_POLL_INTERVAL`."""
    if checkout.next_poll_at is None:
        return False
    if checkout.polled_at is None or _is_claimed(checkout):
        return True
    return checkout.next_poll_at <= checkout.polled_at + MIN_POLL_INTERVAL


def _is_claimed(checkout: Checkout) -> bool:
    """Return whether a poll is under way, and no other poll is to follow it at once."""
    polled_at = checkout.polled_at
    return polled_at is not None and checkout.next_poll_at == polled_at + LEASE


@job
def poll_due_checkouts() -> None:
    """Poll the checkouts that are due, for `JOB_SECONDS` at most."""
    stop_at = time.monotonic() + JOB_SECONDS
    while beat() and time.monotonic() < stop_at and (due := _claim()):
        _poll(due)
    waiting = Checkout.objects.filter(next_poll_at__isnull=False)
    schedule_next_run(poll_due_checkouts, waiting, "next_poll_at")


def _claim() -> list[Checkout]:
    """Claim a batch of due checkouts. `next_poll_at` is the fence of the claim."""
    at = now()
    due = Checkout.objects.filter(next_poll_at__lte=at).order_by("next_poll_at")
    assignments = "next_poll_at = lease.ends, polled_at = lease.begins"
    return claim_due(due[:BATCH_SIZE], assignments, LEASE, at)


def _poll(checkouts: Sequence[Checkout]) -> None:
    for checkout, answer in zip(checkouts, _query_providers(checkouts), strict=True):
        if isinstance(answer, ProviderError):
            logger.warning("poll of checkout %s failed: %s", checkout.pk, answer.code)
            _schedule_next_poll(checkout, unanswered=checkout.unanswered + 1)
            continue
        try:
            settle(checkout.pk, answer, checkout.polled_at)
            if answer.disputes:
                record_disputes(checkout.pk, answer.disputes)
            if answer.refunded and checkout.polled_at:
                flag_refunds_elsewhere(checkout.pk, answer.refunded, checkout.polled_at)
        except Exception as e:
            # The next poll follows after the lease.
            logger.error(
                "checkout %s was not settled: %s", checkout.pk, type(e).__name__
            )
            continue
        is_complete = answer.disputes is not None or not _is_disputed(checkout)
        _schedule_next_poll(
            checkout, unanswered=0 if is_complete else checkout.unanswered + 1
        )


def _query_providers(
    checkouts: Sequence[Checkout],
) -> list[CheckoutSnapshot | ProviderError]:
    """Poll live providers in threads, and the sandbox's on this database connection."""
    unpayable = _unpayable_checkouts(checkouts)
    with ThreadPoolExecutor(BATCH_SIZE) as pool:
        futures = [
            None
            if is_built_in(c.provider)
            else pool.submit(_query_provider, c, is_payable=c.pk not in unpayable)
            for c in checkouts
        ]
        return [
            future.result() if future else _query_provider(checkout)
            for future, checkout in zip(futures, checkouts, strict=True)
        ]


def _unpayable_checkouts(checkouts: Sequence[Checkout]) -> set[UUID]:
    """Return the ids of unfinished checkouts whose payment is no longer payable."""
    unfinished = [
        c for c in checkouts if c.status in UNFINISHED_STATUSES and c.payment_id
    ]
    payments = Payment.objects.filter(
        # A checkout that was opened before the link expired still pays a draft.
        Q(status__in=Payment.OUTSTANDING)
        | Q(status=PaymentStatus.EXPIRED, report__status=ReportStatus.DRAFT),
        pk__in=[checkout.payment_id for checkout in unfinished],
    )
    payable = {
        payment.pk
        for payment in payments.select_related("report__consent")
        if not is_consent_refused(payment.report)
    }
    return {c.pk for c in unfinished if c.payment_id not in payable}


def _query_provider(
    checkout: Checkout, *, is_payable: bool = True
) -> CheckoutSnapshot | ProviderError:
    try:
        provider = provider_named(checkout.provider)
        if not is_payable:
            provider.expire(checkout.reference, checkout.session)
        return provider.look(checkout.reference, checkout.session)
    except ProviderError as e:
        return e
    except Exception as e:
        # An answer that the adapter cannot read must not stop the polls of the others.
        logger.exception("poll of checkout %s: unreadable answer", checkout.pk)
        return Unavailable("UNREADABLE", type(e).__name__)


def _is_disputed(checkout: Checkout) -> bool:
    """Return whether an event or an earlier poll has reported a dispute."""
    holding = [DisputeStatus.OPEN, DisputeStatus.LOST]
    known = Q(disputes__status__in=holding) | Q(
        review_flags__contains=[ReviewFlag.DISPUTED]
    )
    paid = Checkout.objects.filter(pk=checkout.pk, status=CheckoutStatus.PAID)
    return paid.filter(known).exists()


def _schedule_next_poll(checkout: Checkout, *, unanswered: int) -> None:
    """Set the time of the next poll, unless something has brought it forward."""
    claimed = Checkout.objects.filter(
        pk=checkout.pk, next_poll_at=checkout.next_poll_at
    )
    at = now()
    if not unanswered:
        ended = claimed.filter(status=CheckoutStatus.PAID)
        age = at - checkout.created_at
        if age > HOURLY_FOR:
            # Some providers expire their pages, and report it.
            ended = claimed.filter(
                Q(status__in=[CheckoutStatus.PAID, CheckoutStatus.EXPIRED])
                # A payer cannot answer a prompt that has ended.
                | Q(kind=CheckoutKind.PROMPT)
            )
        if age > timedelta(days=settings.PAYMENT_LINK_DAYS + PAYMENT_GRACE_DAYS):
            # A payment is unlikely by then, and the provider's event would poll again.
            claimed.filter(status=CheckoutStatus.OPEN).update(
                status=CheckoutStatus.EXPIRED
            )
            ended = claimed
        if ended.update(next_poll_at=None, unanswered=0):
            return
    claimed.update(
        next_poll_at=_next_poll_at(checkout, unanswered, at), unanswered=unanswered
    )


def _next_poll_at(checkout: Checkout, unanswered: int, at: datetime) -> datetime:
    if unanswered:
        return at + min(timedelta(minutes=2 ** min(unanswered, 10)), HOURLY_INTERVAL)
    times = PROMPT_POLL_TIMES if checkout.is_prompt else POLL_TIMES
    planned = (checkout.created_at + wait for wait in times)
    is_old = at - checkout.created_at > HOURLY_FOR
    wait = LATE_INTERVAL if is_old else HOURLY_INTERVAL
    return next((moment for moment in planned if moment > at), at + wait)


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
            _check_paid_checkout(checkout, report, snapshot)
        return False
    is_paid = snapshot.state == CheckoutState.PAID
    if is_paid and snapshot.refunded and snapshot.refunded >= (snapshot.amount or 0):
        # All went back before the first answer, or before one that a restore has lost.
        snapshot = replace(snapshot, state=CheckoutState.REVERSED)
    elif is_paid:
        checkout.refunded_elsewhere = snapshot.refunded or Decimal(0)
        _accept_money(checkout, report, snapshot, now())
        if checkout.refunded_elsewhere:
            raise_review_flag(checkout.pk, ReviewFlag.REFUNDED_ELSEWHERE)
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


def _check_paid_checkout(
    checkout: Checkout, report: Report | None, snapshot: CheckoutSnapshot
) -> None:
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
    checkout.message = provider_message(snapshot.message, report)
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
    checkout.message = provider_message(snapshot.message, report)
    checkout.failure = ""
    amount = snapshot.amount or Decimal(0)
    if checkout.paid_currency != checkout.currency or amount <= 0:
        checkout.save()
        raise_review_flag(checkout.pk, ReviewFlag.OTHER_CURRENCY)
        logger.error("checkout %s was paid in another currency", checkout.pk)
        return
    payment = getattr(report, "payment", None)
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
        record_movements(
            Movement(
                checkout.account.pk,
                Kind.TOP_UP,
                amount,
                checkout.started_by,
                note=f"{checkout.provider} {checkout.number}",
                checkout_id=checkout.pk,
            )
        )
        notify(*top_up_receipt(checkout))


def _surplus_cause(
    checkout: Checkout, report: Report | None, payment: Payment | None
) -> RefundCause | None:
    """Return why this money is surplus, or None if it pays.

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
        _apply_part(report, payment, checkout, parts, missing - amount)
        return
    cancel_shortfalls(parts)
    for part in parts:
        part.count(part.refundable)
        part.save(update_fields=["is_counted", "counted_amount"])
    checkout.count(missing)
    checkout.save()
    if amount > missing:
        refund_surplus(checkout, RefundCause.OVERPAID, amount - missing)
    _mark_paid(report, payment, checkout, at)


def _apply_part(
    report: Report,
    payment: Payment,
    checkout: Checkout,
    parts: Sequence[Checkout],
    rest: Decimal,
) -> None:
    """Keep money beside earlier parts, or refund it if nobody can pay the rest.

    That is so if the link is no longer valid, or the rest is below the provider's
    minimum.
    """
    least = minimum_amount(report.environment, payment.currency)
    checkout.is_part = (
        payment.is_outstanding and rest >= least and not checkout.refunded_elsewhere
    )
    checkout.save()
    if not checkout.is_part:
        refund_surplus(checkout, RefundCause.SHORT)
        return
    payment.set_status(PaymentStatus.PENDING)
    # Unsent messages ask for more.
    cancel_requests(payment)
    cancel_shortfalls(parts)
    notify(*payment_shortfall(report, checkout, rest))


def _mark_paid(
    report: Report, payment: Payment, checkout: Checkout, at: datetime
) -> None:
    payment.paid_at = at
    payment.set_status(PaymentStatus.PAID)
    if report.status == ReportStatus.PENDING_PAYMENT:
        apply_transitions(
            [Transition(report, ReportStatus.RUNNING, "paid", "payer")], at
        )
        schedule_checks(report, at)
    results = report.results.values_list("name", "status", "id")
    record_events([payment_event(report, list(results), payment)], at)
    cancel_requests(payment)
    notify(*payment_receipt(report, checkout))


def _record_unpaid(
    checkout: Checkout, report: Report | None, snapshot: CheckoutSnapshot
) -> None:
    """Record that a checkout ended unpaid. A later poll may still find it paid.

    Providers let payers try again in the same checkout.
    """
    status = ENDED_STATUSES.get(snapshot.state)
    if status is None or checkout.status == status:
        return
    checkout.status = status
    checkout.message = provider_message(snapshot.message, report)
    if checkout.is_prompt:
        checkout.failure = snapshot.failure or ""
    checkout.save(update_fields=["status", "message", "failure"])
    payment = getattr(report, "payment", None)
    others = Checkout.objects.filter(payment_id=checkout.payment_id)
    if (
        payment
        and payment.pk == checkout.payment_id
        and payment.status == PaymentStatus.PENDING
        and snapshot.state in {CheckoutState.FAILED, CheckoutState.REVERSED}
        and not others.filter(pk__gt=checkout.pk).exists()
    ):
        payment.set_status(PaymentStatus.FAILED)
