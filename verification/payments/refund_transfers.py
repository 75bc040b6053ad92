"""Sending refunds: asking providers to give back what was approved."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.db import connection, transaction
from django.utils.timezone import now

from verification.jobs.claims import claim_due, schedule_next_run
from verification.jobs.heartbeat import beat
from verification.jobs.queue import advisory_lock, job
from verification.payments.models import Refund, RefundStatus, ReviewFlag
from verification.payments.refunds import (
    end_refund,
    flag_refund,
    lock_refund,
)
from verification.payments.registry import provider_named
from verification.providers.base import ProviderError, Unavailable
from verification.providers.payment_provider import (
    RefundRequest,
    RefundSnapshot,
    RefundState,
)

logger = logging.getLogger(__name__)

# Longer than any provider may take.
LEASE = timedelta(minutes=2)
LONGEST_WAIT = timedelta(hours=6)
# A person is told of a refund that has no end by then.
STUCK_AFTER = timedelta(days=3)


@job
def send_refunds() -> None:
    """Ask providers for what was approved, and about what they have not done yet."""
    while beat() and (refund := _claim()):
        try:
            _send(refund)
        except Exception as e:
            # Its claim lapses, and it is tried again; the others go on.
            why = type(e).__name__
            logger.error("refund %s is left for the next run: %s", refund.pk, why)
            if not connection.in_atomic_block:
                connection.close_if_unusable_or_obsolete()
    waiting = Refund.objects.filter(next_try_at__isnull=False)
    schedule_next_run(send_refunds, waiting, "next_try_at")


def _send(refund: Refund) -> None:
    # A worker that was suspended for longer than its claim may still be asking. Two at
    # once could have a provider without idempotency keys pay twice.
    with advisory_lock(f"refund {refund.pk}") as is_alone:
        if not (is_alone and _is_claim_current(refund)):
            return
        seen = _query_provider(refund)
    with transaction.atomic():
        _record(lock_refund(refund.pk), refund.tries, seen)


def _claim() -> Refund | None:
    """Claim the refund that has been due longest. `tries` is the fence of the claim."""
    at = now()
    due = Refund.objects.filter(next_try_at__lte=at).order_by("next_try_at")
    assignments = "next_try_at = lease.ends, tries = tries + 1"
    claimed = claim_due(due[:1], assignments, LEASE, at)
    return claimed[0] if claimed else None


def _is_claim_current(refund: Refund) -> bool:
    """Whether nobody has claimed it since, or ended it: they may have asked already."""
    return Refund.objects.filter(
        pk=refund.pk, tries=refund.tries, status=RefundStatus.APPROVED
    ).exists()


def build_refund_request(refund: Refund) -> RefundRequest:
    """The refund, as a provider is asked for it or about it."""
    checkout = refund.checkout
    return RefundRequest(
        str(refund.pk),
        checkout.reference,
        checkout.transaction,
        refund.amount,
        checkout.paid_currency,
    )


def _query_provider(refund: Refund) -> RefundSnapshot | ProviderError:
    asked = build_refund_request(refund)
    try:
        provider = provider_named(refund.checkout.provider)
        # An earlier try may have reached the provider without its answer reaching us.
        if refund.tries > 1:
            if seen := provider.poll_refund(asked, refund.provider_refund):
                return seen
            if refund.provider_refund:
                return Unavailable("REFUND_NOT_FOUND", "The provider has lost it.")
    except ProviderError as e:
        # It was not asked to give back, so nothing is decided.
        return Unavailable(e.code, e.message)
    try:
        return provider.refund(asked)
    except ProviderError as e:
        return e


def _record(refund: Refund, tries: int, seen: RefundSnapshot | ProviderError) -> None:
    """What the try of this number has seen. A later one knows better, but money that
    was given back stays given back."""
    is_done = isinstance(seen, RefundSnapshot) and seen.state == RefundState.DONE
    if refund.status != RefundStatus.APPROVED:
        if is_done and refund.status == RefundStatus.FAILED:
            logger.error("refund %s has failed, and was done", refund.pk)
            flag_refund(refund)
        return
    if refund.tries != tries and not is_done:
        return
    if isinstance(seen, Unavailable):
        # Never given up: an earlier try may have been heard, and the money is gone.
        refund.message = seen.message[:200]
        _try_later(refund)
    elif isinstance(seen, ProviderError):
        _fail(refund, seen.code, seen.message)
    elif seen.state == RefundState.PENDING:
        refund.provider_refund, refund.message = seen.refund, seen.message[:200]
        _try_later(refund, needs_somebody=seen.needs_somebody)
    else:
        refund.provider_refund = seen.refund
        if is_done:
            end_refund(refund, RefundStatus.DONE, seen.message)
        else:
            _fail(refund, "by the provider", seen.message)


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
        why = "waits for somebody" if needs_somebody else "has no end for days"
        logger.error("refund %s %s: %s", refund.pk, why, refund.message)
        flag_refund(refund, ReviewFlag.REFUND_STUCK)
    refund.save()
