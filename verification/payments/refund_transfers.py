"""The transfer of approved refunds to providers, and polls for their results.

Each transfer is claimed under a lease before the call to the provider, and recorded
after it. `Refund.tries` is the fence of the claim.
"""

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

# A call to a provider ends well within this time.
LEASE = timedelta(minutes=2)
LONGEST_WAIT = timedelta(hours=6)
# An approved refund that lasts longer gets REFUND_STUCK.
STUCK_AFTER = timedelta(days=3)


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
        if not (is_alone and _is_claim_current(refund)):
            return
        answer = _query_provider(refund)
    with transaction.atomic():
        _record(lock_refund(refund.pk), refund.tries, answer)


def _is_claim_current(refund: Refund) -> bool:
    """Return whether no later claim exists, and the refund has not ended."""
    return Refund.objects.filter(
        pk=refund.pk, tries=refund.tries, status=RefundStatus.APPROVED
    ).exists()


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
        refund.message = answer.message[:200]
        _try_later(refund)
    elif isinstance(answer, ProviderError):
        _fail(refund, answer.code, answer.message)
    elif answer.state == RefundState.PENDING:
        refund.provider_refund, refund.message = answer.refund, answer.message[:200]
        _try_later(refund, needs_somebody=answer.needs_somebody)
    else:
        refund.provider_refund = answer.refund
        if is_done:
            end_refund(refund, RefundStatus.DONE, answer.message)
        else:
            _fail(refund, "by the provider", answer.message)


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
        logger.error("refund %s %s: %s", refund.pk, why, refund.message)
        flag_refund(refund, ReviewFlag.REFUND_STUCK)
    refund.save()
