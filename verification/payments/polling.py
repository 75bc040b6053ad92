"""Polls: ask payment providers for the state of checkouts.

A provider's event, a returning payer and the clock only bring `next_poll_at` forward.
The service records nothing but the provider's answer to a poll. A poll that dies is due
again after its lease. If an event comes during a poll, another poll follows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils.timezone import now

from verification.jobs.claims import claim_due, schedule_next_run
from verification.jobs.heartbeat import beat
from verification.jobs.queue import job, schedule_job
from verification.payments.disputes import record_disputes
from verification.payments.models import (
    PROMPT_LIFETIME,
    Checkout,
    CheckoutKind,
    CheckoutStatus,
    DisputeStatus,
    Payment,
    PaymentStatus,
    ReviewFlag,
)
from verification.payments.refunds import flag_refunds_elsewhere
from verification.payments.registry import is_built_in, provider_named
from verification.payments.settlement import settle
from verification.providers.base import ProviderError, Unavailable
from verification.providers.payment_provider import CheckoutSnapshot
from verification.reports.models import ReportStatus
from verification.settings.payments import PAYMENT_GRACE_DAYS

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
# Disputes with these statuses hold money.
HOLDING_STATUSES = [DisputeStatus.OPEN, DisputeStatus.LOST]
# A call to a provider ends well within this time.
LEASE = timedelta(minutes=2)
BATCH_SIZE = 16
# The least time between two polls for a payer who is waiting.
MIN_POLL_INTERVAL = timedelta(seconds=5)
# A job starts no batch after this time, so that its worker can stop.
JOB_SECONDS = 20.0


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
    """Return the ids of open checkouts whose payment is no longer payable."""
    opened = [c for c in checkouts if c.status == CheckoutStatus.OPEN and c.payment_id]
    payments = Payment.objects.filter(
        # A checkout that was opened before the link expired still pays a draft.
        Q(status__in=Payment.OUTSTANDING)
        | Q(status=PaymentStatus.EXPIRED, report__status=ReportStatus.DRAFT),
        pk__in=[checkout.payment_id for checkout in opened],
    )
    payable = set(payments.values_list("pk", flat=True)) if opened else set()
    return {checkout.pk for checkout in opened if checkout.payment_id not in payable}


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
    known = Q(review_flags__contains=[ReviewFlag.DISPUTED]) | Q(
        disputes__status__in=HOLDING_STATUSES
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
        if age > polling_period():
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


def polling_period() -> timedelta:
    """Return how long after its opening the service polls a checkout by itself."""
    return timedelta(days=settings.PAYMENT_LINK_DAYS + PAYMENT_GRACE_DAYS)


def schedule_poll(at: datetime) -> None:
    """Schedule a polling job for checkouts that this transaction makes due.

    Always a new job: a job that waits already may run before this transaction commits.
    """
    schedule_job(poll_due_checkouts, at=at)


def poll_now(*checkout_ids: UUID) -> None:
    """Poll these checkouts once the transaction commits."""
    at = now()
    Checkout.objects.filter(pk__in=checkout_ids).update(next_poll_at=at)
    schedule_poll(at)


def close_checkouts(payment_id: UUID) -> None:
    """Close the open checkouts of a payment that has ended, once this commits.

    The next poll asks the provider to expire them. Money that arrives is refunded.
    """
    opened = Checkout.objects.filter(payment_id=payment_id, status=CheckoutStatus.OPEN)
    if ids := list(opened.values_list("pk", flat=True)):
        poll_now(*ids)


@transaction.atomic
def poll_soon(checkout_id: UUID) -> bool:
    """Poll within `MIN_POLL_INTERVAL` for a payer who is waiting.

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
