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

from verification.jobs.heartbeat import beat
from verification.jobs.queue import later, wake_up_by
from verification.payments.disputes import record_disputes
from verification.payments.models import (
    PROMPT_LIVES,
    Checkout,
    CheckoutKind,
    CheckoutStatus,
    DisputeStatus,
    Doubt,
    Payment,
    PaymentStatus,
)
from verification.payments.refunds import LOOKS, notice_refunds_elsewhere
from verification.payments.registry import is_built_in, provider_named
from verification.payments.settlement import settle
from verification.providers.base import ProviderError, Unavailable
from verification.providers.checkout import CheckoutSeen
from verification.reports.models import ReportStatus
from verification.settings.payments import PAID_AFTER_LINK_DAYS

logger = logging.getLogger(__name__)

# After the checkout was opened; then hourly, as long as a provider repeats its events,
# and then seldom: some pages can be paid as long as anybody has them open.
TIMES = [timedelta(minutes=minutes) for minutes in (1, 5, 15, 60)]
# A prompt is answered soon, and some of its endings make no event.
PROMPT_TIMES = [timedelta(seconds=30), timedelta(minutes=1), PROMPT_LIVES, *TIMES[1:]]
HOURLY = timedelta(hours=1)
HOURLY_FOR = timedelta(hours=72)
SELDOM = timedelta(hours=6)
# Disputes with these statuses hold money.
HOLDING = [DisputeStatus.OPEN, DisputeStatus.LOST]
# Longer than any provider may take.
LEASE = timedelta(minutes=2)
AT_ONCE = 16
# Between two looks that payers who wait bring forward.
PAUSE = timedelta(seconds=5)
# A job ends after this long, so that the cluster can be stopped and watched.
JOB_SECONDS = 20.0


def looked_for() -> timedelta:
    """Return for how long after its opening the service polls a checkout by itself."""
    return timedelta(days=settings.PAYMENT_LINK_DAYS + PAID_AFTER_LINK_DAYS)


def look_by(at: datetime) -> None:
    """Have checkouts that this transaction makes due be looked at by then.

    By a job of their own: one that waits already may run before the commit.
    """
    later(LOOKS, at=at)


def look_now(*checkout_ids: UUID) -> None:
    """Something happened to them: look as soon as the transaction has committed."""
    at = now()
    Checkout.objects.filter(pk__in=checkout_ids).update(next_look_at=at)
    look_by(at)


@transaction.atomic
def look_soon(checkout_id: UUID) -> bool:
    """Somebody waits to be told: whether an answer from after this moment will come.

    There is one look in five seconds at most. One that is under way may have been
    answered before the payer paid, so that another one follows it. False if one was
    answered within the last seconds, or if nothing more is expected.
    """
    rows = Checkout.objects.select_for_update(no_key=True)
    checkout = rows.filter(pk=checkout_id, next_look_at__isnull=False).first()
    if checkout is None or checkout.next_look_at is None:
        return False
    at = now()
    looked_at = checkout.looked_at
    soon = max(at, looked_at + PAUSE) if looked_at else at
    if checkout.next_look_at <= soon:
        return True
    if soon > at and not _is_under_way(checkout):
        return False
    Checkout.objects.filter(pk=checkout_id).update(next_look_at=soon)
    look_by(soon)
    return True


def is_being_asked(checkout: Checkout) -> bool:
    """Whether the provider is asked now, or seconds after the last time."""
    if checkout.next_look_at is None:
        return False
    if checkout.looked_at is None or _is_under_way(checkout):
        return True
    return checkout.next_look_at <= checkout.looked_at + PAUSE


def _is_under_way(checkout: Checkout) -> bool:
    """Claimed, not answered, and not wanted again since."""
    looked_at = checkout.looked_at
    return looked_at is not None and checkout.next_look_at == looked_at + LEASE


def look_at_due() -> None:
    stop_at = time.monotonic() + JOB_SECONDS
    while beat() and time.monotonic() < stop_at and (due := _claim()):
        _look(due)
    waiting = Checkout.objects.filter(next_look_at__isnull=False)
    times = waiting.order_by("next_look_at").values_list("next_look_at", flat=True)
    wake_up_by(LOOKS, times.first())


@transaction.atomic
def _claim() -> list[Checkout]:
    """Take some that are due, so that nobody else looks at them meanwhile."""
    at = now()
    due = list(
        Checkout.objects.select_for_update(skip_locked=True, no_key=True)
        .filter(next_look_at__lte=at)
        .order_by("next_look_at")[:AT_ONCE]
    )
    for checkout in due:
        checkout.next_look_at, checkout.looked_at = at + LEASE, at
    Checkout.objects.bulk_update(due, ["next_look_at", "looked_at"])
    return due


def _look(checkouts: Sequence[Checkout]) -> None:
    for checkout, seen in zip(checkouts, _ask_all(checkouts), strict=True):
        if isinstance(seen, ProviderError):
            logger.warning("checkout %s was not answered: %s", checkout.pk, seen.code)
            _come_back(checkout, unanswered=checkout.unanswered + 1)
            continue
        try:
            settle(checkout.pk, seen, checkout.looked_at)
            if seen.disputes:
                record_disputes(checkout.pk, seen.disputes)
            if seen.refunded and checkout.looked_at:
                notice_refunds_elsewhere(checkout.pk, seen.refunded, checkout.looked_at)
        except Exception as e:
            # Its claim lapses, and it is looked at again.
            logger.error(
                "checkout %s was not settled: %s", checkout.pk, type(e).__name__
            )
            continue
        is_whole = seen.disputes is not None or not _is_disputed(checkout)
        _come_back(checkout, unanswered=0 if is_whole else checkout.unanswered + 1)


def _is_disputed(checkout: Checkout) -> bool:
    """Return whether an event or an earlier look has told of a dispute."""
    known = Q(doubts__contains=[Doubt.DISPUTED]) | Q(disputes__status__in=HOLDING)
    paid = Checkout.objects.filter(pk=checkout.pk, status=CheckoutStatus.PAID)
    return paid.filter(known).exists()


def _ask_all(checkouts: Sequence[Checkout]) -> list[CheckoutSeen | ProviderError]:
    """Live providers all at once, in threads; the sandbox's is a table of ours."""
    unwanted = _unwanted(checkouts)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [
            None
            if is_built_in(c.provider)
            else pool.submit(_ask, c, is_wanted=c.pk not in unwanted)
            for c in checkouts
        ]
        return [
            one.result() if one else _ask(checkout)
            for one, checkout in zip(asked, checkouts, strict=True)
        ]


def _unwanted(checkouts: Sequence[Checkout]) -> set[UUID]:
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
        look_now(*ids)


def _ask(checkout: Checkout, *, is_wanted: bool = True) -> CheckoutSeen | ProviderError:
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


def _come_back(checkout: Checkout, *, unanswered: int) -> None:
    """Choose the next look, unless something has brought it forward meanwhile."""
    claimed = Checkout.objects.filter(
        pk=checkout.pk, next_look_at=checkout.next_look_at
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
        if age > looked_for():
            # Nobody will pay it any more; an event would have it looked at again.
            claimed.filter(status=CheckoutStatus.OPEN).update(
                status=CheckoutStatus.EXPIRED
            )
            ended = claimed
        if ended.update(next_look_at=None, unanswered=0):
            return
    claimed.update(
        next_look_at=_next_look(checkout, unanswered, at), unanswered=unanswered
    )


def _next_look(checkout: Checkout, unanswered: int, at: datetime) -> datetime:
    if unanswered:
        return at + min(timedelta(minutes=2 ** min(unanswered, 10)), HOURLY)
    times = PROMPT_TIMES if checkout.is_prompt else TIMES
    planned = (checkout.created_at + wait for wait in times)
    is_old = at - checkout.created_at > HOURLY_FOR
    wait = SELDOM if is_old else HOURLY
    return next((moment for moment in planned if moment > at), at + wait)
