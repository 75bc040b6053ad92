"""Asking payment providers what became of checkouts.

Whatever makes us look (the provider's event, a payer who comes back, the clock) only
brings the next look forward: what is then recorded is always the provider's own answer.
A look that dies on its way is due again when its claim lapses, and what happens while
one is under way is looked at by the next.
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

# After the checkout was opened; then hourly, as long as a provider repeats its events,
# and then seldom: some pages can be paid as long as anybody has them open.
POLL_TIMES = [timedelta(minutes=minutes) for minutes in (1, 5, 15, 60)]
# A prompt is answered soon, and some of its endings make no event.
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
# Longer than any provider may take.
LEASE = timedelta(minutes=2)
BATCH_SIZE = 16
# Between two looks that payers who wait bring forward.
MIN_POLL_INTERVAL = timedelta(seconds=5)
# A job ends after this long, so that the cluster can be stopped and watched.
JOB_SECONDS = 20.0


def polling_period() -> timedelta:
    """Return for how long after its opening the service polls a checkout by itself."""
    return timedelta(days=settings.PAYMENT_LINK_DAYS + PAYMENT_GRACE_DAYS)


def schedule_poll(at: datetime) -> None:
    """Have checkouts that this transaction makes due be looked at by then.

    By a job of their own: one that waits already may run before the commit.
    """
    schedule_job(poll_due_checkouts, at=at)


def poll_now(*checkout_ids: UUID) -> None:
    """Something happened to them: look as soon as the transaction has committed."""
    at = now()
    Checkout.objects.filter(pk__in=checkout_ids).update(next_poll_at=at)
    schedule_poll(at)


@transaction.atomic
def poll_soon(checkout_id: UUID) -> bool:
    """Somebody waits to be told: whether an answer from after this moment will come.

    There is one look in five seconds at most. One that is under way may have been
    answered before the payer paid, so that another one follows it. False if one was
    answered within the last seconds, or if nothing more is expected.
    """
    rows = Checkout.objects.select_for_update(no_key=True)
    checkout = rows.filter(pk=checkout_id, next_poll_at__isnull=False).first()
    if checkout is None or checkout.next_poll_at is None:
        return False
    at = now()
    looked_at = checkout.polled_at
    soon = max(at, looked_at + MIN_POLL_INTERVAL) if looked_at else at
    if checkout.next_poll_at <= soon:
        return True
    if soon > at and not _is_claimed(checkout):
        return False
    Checkout.objects.filter(pk=checkout_id).update(next_poll_at=soon)
    schedule_poll(soon)
    return True


def is_being_polled(checkout: Checkout) -> bool:
    """Whether the provider is asked now, or seconds after the last time."""
    if checkout.next_poll_at is None:
        return False
    if checkout.polled_at is None or _is_claimed(checkout):
        return True
    return checkout.next_poll_at <= checkout.polled_at + MIN_POLL_INTERVAL


def _is_claimed(checkout: Checkout) -> bool:
    """Claimed, not answered, and not wanted again since."""
    looked_at = checkout.polled_at
    return looked_at is not None and checkout.next_poll_at == looked_at + LEASE


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
    for checkout, seen in zip(checkouts, _query_providers(checkouts), strict=True):
        if isinstance(seen, ProviderError):
            logger.warning("checkout %s was not answered: %s", checkout.pk, seen.code)
            _schedule_next_poll(checkout, unanswered=checkout.unanswered + 1)
            continue
        try:
            settle(checkout.pk, seen, checkout.polled_at)
            if seen.disputes:
                record_disputes(checkout.pk, seen.disputes)
            if seen.refunded and checkout.polled_at:
                flag_refunds_elsewhere(checkout.pk, seen.refunded, checkout.polled_at)
        except Exception as e:
            # Its claim lapses, and it is looked at again.
            logger.error(
                "checkout %s was not settled: %s", checkout.pk, type(e).__name__
            )
            continue
        is_whole = seen.disputes is not None or not _is_disputed(checkout)
        _schedule_next_poll(
            checkout, unanswered=0 if is_whole else checkout.unanswered + 1
        )


def _is_disputed(checkout: Checkout) -> bool:
    """Return whether an event or an earlier look has told of a dispute."""
    known = Q(review_flags__contains=[ReviewFlag.DISPUTED]) | Q(
        disputes__status__in=HOLDING_STATUSES
    )
    paid = Checkout.objects.filter(pk=checkout.pk, status=CheckoutStatus.PAID)
    return paid.filter(known).exists()


def _query_providers(
    checkouts: Sequence[Checkout],
) -> list[CheckoutSnapshot | ProviderError]:
    """Live providers all at once, in threads; the sandbox's is a table of ours."""
    unwanted = _unpayable_checkouts(checkouts)
    with ThreadPoolExecutor(BATCH_SIZE) as pool:
        asked = [
            None
            if is_built_in(c.provider)
            else pool.submit(_query_provider, c, is_wanted=c.pk not in unwanted)
            for c in checkouts
        ]
        return [
            one.result() if one else _query_provider(checkout)
            for one, checkout in zip(asked, checkouts, strict=True)
        ]


def _unpayable_checkouts(checkouts: Sequence[Checkout]) -> set[UUID]:
    """Open ones of payments that nobody has to pay any more."""
    opened = [c for c in checkouts if c.status == CheckoutStatus.OPEN and c.payment_id]
    asked = Payment.objects.filter(
        # An expired link of a draft still pays.
        Q(status__in=Payment.OUTSTANDING)
        | Q(status=PaymentStatus.EXPIRED, report__status=ReportStatus.DRAFT),
        pk__in=[checkout.payment_id for checkout in opened],
    )
    wanted = set(asked.values_list("pk", flat=True)) if opened else set()
    return {checkout.pk for checkout in opened if checkout.payment_id not in wanted}


def close_checkouts(payment_id: UUID) -> None:
    """Have the provider take nothing more for a payment that has ended, as far as it
    can, once the transaction has committed. What was paid already is given back."""
    opened = Checkout.objects.filter(payment_id=payment_id, status=CheckoutStatus.OPEN)
    if ids := list(opened.values_list("pk", flat=True)):
        poll_now(*ids)


def _query_provider(
    checkout: Checkout, *, is_wanted: bool = True
) -> CheckoutSnapshot | ProviderError:
    try:
        provider = provider_named(checkout.provider)
        if not is_wanted:
            provider.expire(checkout.reference, checkout.session)
        return provider.look(checkout.reference, checkout.session)
    except ProviderError as e:
        return e
    except Exception as e:
        # An answer that the adapter cannot read must not keep the others waiting.
        logger.exception("checkout %s was answered unreadably", checkout.pk)
        return Unavailable("UNREADABLE", type(e).__name__)


def _schedule_next_poll(checkout: Checkout, *, unanswered: int) -> None:
    """Choose the next look, unless something has brought it forward meanwhile."""
    claimed = Checkout.objects.filter(
        pk=checkout.pk, next_poll_at=checkout.next_poll_at
    )
    at = now()
    if not unanswered:
        ended = claimed.filter(status=CheckoutStatus.PAID)
        age = at - checkout.created_at
        if age > HOURLY_FOR:
            # Some providers end their pages, and say so.
            ended = claimed.filter(
                Q(status__in=[CheckoutStatus.PAID, CheckoutStatus.EXPIRED])
                # Nobody answers a prompt that has ended.
                | Q(kind=CheckoutKind.PROMPT)
            )
        if age > polling_period():
            # Nobody will pay it any more; an event would have it looked at again.
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
