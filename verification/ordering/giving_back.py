"""Sending refunds: asking providers to give back what was approved."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.db import transaction
from django.utils.timezone import now

from verification.jobs.heartbeat import beat
from verification.jobs.queue import wake_up_by
from verification.ordering.refunding import REFUNDS, end_refund, hold_refund
from verification.payments.models import Refund, RefundStatus
from verification.payments.registry import provider_named
from verification.providers.base import ProviderError, Unavailable
from verification.providers.checkout import RefundAsked, RefundSeen, RefundState

logger = logging.getLogger(__name__)

# Longer than any provider may take.
LEASE = timedelta(minutes=2)
LONGEST_WAIT = timedelta(hours=6)


def send_refunds() -> None:
    """Ask providers for what was approved, and about what they have not done yet."""
    while beat() and (refund := _claim()):
        seen = _ask(refund)
        with transaction.atomic():
            _record(hold_refund(refund.pk), seen)
    waiting = Refund.objects.filter(next_try_at__isnull=False)
    times = waiting.order_by("next_try_at").values_list("next_try_at", flat=True)
    if next_at := times.first():
        wake_up_by(REFUNDS, next_at)


@transaction.atomic
def _claim() -> Refund | None:
    due = Refund.objects.select_for_update(of=("self",), skip_locked=True)
    due = due.select_related("checkout").filter(next_try_at__lte=now())
    refund = due.order_by("next_try_at").first()
    if refund:
        refund.next_try_at, refund.tries = now() + LEASE, refund.tries + 1
        refund.save(update_fields=["next_try_at", "tries"])
    return refund


def _ask(refund: Refund) -> RefundSeen | ProviderError:
    checkout = refund.checkout
    asked = RefundAsked(
        str(refund.pk),
        checkout.reference,
        checkout.transaction,
        refund.amount,
        checkout.paid_currency,
    )
    try:
        provider = provider_named(checkout.provider)
        # An earlier try may have reached the provider without its answer reaching us.
        if refund.tries > 1:
            seen = provider.look_at_refund(asked, refund.provider_refund)
            if seen:
                return seen
        return provider.refund(asked)
    except ProviderError as e:
        return e


def _record(refund: Refund, seen: RefundSeen | ProviderError) -> None:
    if refund.status != RefundStatus.APPROVED:
        return
    if isinstance(seen, Unavailable):
        # Never given up: an earlier try may have been heard, and the money is gone.
        refund.message = seen.message[:200]
        _try_later(refund)
    elif isinstance(seen, ProviderError):
        logger.error("refund %s has failed: %s", refund.pk, seen.code)
        end_refund(refund, RefundStatus.FAILED, seen.message)
    elif seen.state == RefundState.PENDING:
        refund.provider_refund, refund.message = seen.refund, seen.message[:200]
        _try_later(refund)
    else:
        refund.provider_refund = seen.refund
        done = seen.state == RefundState.DONE
        end_refund(
            refund, RefundStatus.DONE if done else RefundStatus.FAILED, seen.message
        )


def _try_later(refund: Refund) -> None:
    wait = min(timedelta(minutes=2 ** min(refund.tries, 12)), LONGEST_WAIT)
    refund.next_try_at = now() + wait
    refund.save()
