"""Reconciliation: comparing our books with those of the payment providers, both ways.

A new look mends a checkout that is paid there and not here, and a dispute that differs.
Any other difference raises a doubt, for a person.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

from django.db.models import F, Q
from django.utils.timezone import now

from verification.jobs.heartbeat import beat
from verification.jobs.queue import job
from verification.payments.alerts import raise_review_flag, record_alert
from verification.payments.disputes import required_hold
from verification.payments.models import (
    Checkout,
    CheckoutStatus,
    OperatorAlertKind,
    ReconciliationProgress,
    Refund,
    RefundStatus,
    ReviewFlag,
)
from verification.payments.polling import poll_now
from verification.payments.refund_transfers import build_refund_request
from verification.payments.refunds import flag_refunds_elsewhere, is_recorded
from verification.payments.registry import providers
from verification.providers.base import ProviderError
from verification.providers.payment_provider import (
    CheckoutProvider,
    CheckoutState,
    DisputeSnapshot,
    ProviderPayment,
    ProviderRefund,
    RefundState,
)

logger = logging.getLogger(__name__)

CHUNK_SIZE = 500
# A refund that was done can still come back from the payer's bank.
REFUND_CHECK_DELAYS = [timedelta(days=days) for days in (0, 7, 30)]

# As far back as the job reads books that it could not read then.
MAX_CATCH_UP = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Difference:
    provider: str
    # Ours, where there is one.
    checkout_id: UUID | None
    # What tells it: a checkout, a refund, or a transaction of the provider's.
    name: str
    fault: str
    # Asking the provider again is enough.
    mends_itself: bool = False
    # Nobody knows: the provider did not say.
    is_unanswered: bool = False
    # All that the provider has given back of the checkout, when asked at that time.
    given_back: tuple[Decimal, datetime] | None = None

    def __str__(self) -> str:
        return f"{self.provider} {self.name} {self.fault}"


def day_bounds(first: date, last: date) -> tuple[datetime, datetime]:
    """From the beginning of one day to the end of another, in UTC."""
    start = datetime.combine(first, time(), UTC)
    return start, datetime.combine(last, time(), UTC) + timedelta(days=1)


@job
def reconcile_yesterday() -> None:
    """Compare the books of yesterday, and of earlier days that could not be read.

    Log each difference, and mend it or raise a doubt.
    """
    yesterday = now().astimezone(UTC).date() - timedelta(days=1)
    for provider in providers():
        day = _first_day(provider.name, yesterday)
        while day <= yesterday and _reconcile_day(provider, day):
            ReconciliationProgress.objects.update_or_create(
                provider=provider.name, defaults={"day": day}
            )
            day += timedelta(days=1)


def _first_day(provider: str, yesterday: date) -> date:
    """The day after the last that was compared; yesterday in any case."""
    compared = ReconciliationProgress.objects.filter(provider=provider).first()
    if compared is None:
        # If these books cannot be read, this is where they begin the next time.
        before = yesterday - timedelta(days=1)
        compared = ReconciliationProgress.objects.create(provider=provider, day=before)
    after = compared.day + timedelta(days=1)
    return min(yesterday, max(after, yesterday - MAX_CATCH_UP))


def _reconcile_day(provider: CheckoutProvider, day: date) -> bool:
    """Compare the books of one day. Returns whether all of them could be compared."""
    whole = True
    try:
        for difference in reconcile(provider, *day_bounds(day, day)):
            logger.error("books differ: %s", difference)
            whole = whole and not difference.is_unanswered
            _alert_operators(difference)
    except ProviderError as e:
        why = e.code
    except Exception as e:
        # The unreadable books of one provider must not stop the job for the others.
        why = type(e).__name__
    else:
        return whole
    logger.error("the books of %s were not read: %s", provider.name, why)
    told = f"{provider.name}, {day}: {why}"
    record_alert(OperatorAlertKind.UNREAD, provider.name, day, message=told)
    return False


def _alert_operators(difference: Difference) -> None:
    """Alert the operators, unless a doubt does so or the provider did not answer."""
    in_doubt = difference.checkout_id and not difference.mends_itself
    if not (in_doubt or difference.is_unanswered):
        record_alert(OperatorAlertKind.BOOKS, difference, message=str(difference))


def reconcile(
    provider: CheckoutProvider, start: datetime, end: datetime, *, mend: bool = True
) -> Iterator[Difference]:
    """Raises ProviderError when the provider's books cannot be read."""
    for difference in _differences(provider, start, end):
        if mend and difference.checkout_id and not difference.is_unanswered:
            _repair(difference.checkout_id, difference)
        yield difference


def _repair(checkout_id: UUID, difference: Difference) -> None:
    if difference.mends_itself:
        poll_now(checkout_id)
    elif difference.given_back:
        flag_refunds_elsewhere(checkout_id, *difference.given_back)
    else:
        raise_review_flag(checkout_id, ReviewFlag.BOOKS_DIFFER)


def _differences(
    provider: CheckoutProvider, start: datetime, end: datetime
) -> Iterator[Difference]:
    there: set[UUID] = set()
    for some in _chunks(provider.payments_between(start, end)):
        ours = _checkouts_by_reference(provider, some)
        for paid in some:
            checkout = ours.get(paid.reference)
            yield from _compare(provider, paid, checkout, seen=there)
    yield from _compare_unlisted(provider, start, end, there)
    for later in REFUND_CHECK_DELAYS:
        yield from _compare_refunds(provider, start - later, end - later)
    for found in provider.refunds_between(start, end):
        beat()
        yield from _compare_provider_refund(provider, found)
    yield from _compare_disputes(provider, start, end)


def _chunks(books: Iterable[ProviderPayment]) -> Iterator[list[ProviderPayment]]:
    some: list[ProviderPayment] = []
    for paid in books:
        some.append(paid)
        if len(some) == CHUNK_SIZE:
            yield some
            some = []
            beat()
    yield some


def _checkouts_by_reference(
    provider: CheckoutProvider, some: list[ProviderPayment]
) -> dict[str, Checkout]:
    """Ours by the reference in the provider's books, which may have others."""
    ids = {paid.reference for paid in some if _is_id(paid.reference)}
    found = Checkout.objects.filter(pk__in=ids, provider=provider.name)
    return {checkout.reference: checkout for checkout in found}


def _compare(
    provider: CheckoutProvider,
    paid: ProviderPayment,
    checkout: Checkout | None,
    *,
    seen: set[UUID],
) -> Iterator[Difference]:
    if checkout is None:
        # Not its reference, which may be anybody's and say anything.
        told = f"{paid.amount} {paid.currency} was paid there, for nothing of ours"
        yield Difference(provider.name, None, paid.transaction, told)
        return

    def differs(told: str, *, mends_itself: bool = False) -> Difference:
        name, pk = provider.name, checkout.pk
        return Difference(name, pk, str(pk), told, mends_itself)

    if checkout.pk in seen:
        yield differs("was paid there more than once")
        return
    seen.add(checkout.pk)
    if checkout.status != CheckoutStatus.PAID:
        yield differs(f"is paid there and {checkout.status} here", mends_itself=True)
        return
    here = (checkout.paid_amount, checkout.paid_currency)
    if here != (paid.amount, paid.currency):
        told = f"{paid.amount} {paid.currency} was paid there, {here[0]} {here[1]} here"
        yield differs(told)
    elif checkout.transaction != paid.transaction:
        yield differs(f"is transaction {paid.transaction} there")


def _compare_unlisted(
    provider: CheckoutProvider, start: datetime, end: datetime, there: set[UUID]
) -> Iterator[Difference]:
    """Compare our checkouts of this time that the books do not list: the provider says
    whether they were paid on another day."""
    ours = Checkout.objects.filter(
        provider=provider.name, status="PAID", paid_at__gte=start, paid_at__lt=end
    )
    # Books may leave out payments that refunds or disputes took back.
    ours = ours.filter(refunded=0, disputed=0)
    for checkout in ours.order_by("id").iterator():
        beat()
        if checkout.pk in there:
            continue
        try:
            seen = provider.look(checkout.reference, checkout.session)
        except ProviderError as e:
            yield _unanswered_difference(
                provider, checkout.pk, f"is paid here: {e.code}"
            )
            continue
        if seen.state != CheckoutState.PAID:
            told = f"is paid here and {seen.state} there"
            yield Difference(provider.name, checkout.pk, str(checkout.pk), told)


def _compare_refunds(
    provider: CheckoutProvider, start: datetime, end: datetime
) -> Iterator[Difference]:
    ended = Refund.objects.filter(
        Q(status=RefundStatus.DONE) | Q(status=RefundStatus.FAILED),
        checkout__provider=provider.name,
        ended_at__gte=start,
        ended_at__lt=end,
    )
    for refund in ended.select_related("checkout").order_by("id"):
        beat()
        try:
            seen = provider.poll_refund(
                build_refund_request(refund), refund.provider_refund
            )
        except ProviderError as e:
            told = f"refund {refund.pk} is {refund.status} here: {e.code}"
            yield _unanswered_difference(provider, refund.checkout_id, told)
            continue
        state = seen.state if seen else "not known"
        done_here = refund.status == RefundStatus.DONE
        done_there = state == RefundState.DONE
        if done_here != done_there:
            told = f"refund {refund.pk} is {refund.status} here and {state} there"
            name, pk = provider.name, refund.checkout_id
            yield Difference(name, pk, str(pk), told)


def _compare_provider_refund(
    provider: CheckoutProvider, found: ProviderRefund
) -> Iterator[Difference]:
    """Compare a refund that a person made in the provider's dashboard."""
    paid = Checkout.objects.filter(provider=provider.name).exclude(transaction="")
    checkout = paid.filter(transaction=found.transaction).first()
    told = f"{found.amount} {found.currency} was given back there"
    if checkout is None:
        told = f"{told}, of nothing of ours"
        yield Difference(provider.name, None, found.refund, told)
        return
    if is_recorded(checkout, found):
        return
    asked_at = now()
    try:
        refunded = provider.look(checkout.reference, checkout.session).refunded
    except ProviderError as e:
        yield _unanswered_difference(provider, checkout.pk, f"{told}: {e.code}")
        return
    yield Difference(
        provider.name,
        checkout.pk,
        str(checkout.pk),
        f"{told} by refund {found.refund}, not by us",
        # Where it does not say how much in all, it calls the checkout unpaid by now.
        given_back=None if refunded is None else (refunded, asked_at),
    )


def _compare_disputes(
    provider: CheckoutProvider, start: datetime, end: datetime
) -> Iterator[Difference]:
    """Compare disputes that opened there in this time, and ours that are open, or that
    are lost and hold too little."""
    listed: set[UUID] = set()
    for seen in provider.disputes_between(start, end):
        beat()
        paid = Checkout.objects.filter(provider=provider.name).exclude(transaction="")
        checkout = paid.filter(transaction=seen.transaction).first()
        if checkout is None:
            told = "is disputed there, and is nothing of ours"
            yield Difference(provider.name, None, seen.dispute, told)
        else:
            listed.add(checkout.pk)
            yield from _compare_dispute(provider, checkout, seen)
    lost = Q(disputes__status="LOST", disputes__held__lt=F("disputes__amount"))
    is_left = Q(paid_amount__gt=F("refunded") + F("disputed"))
    ours = Checkout.objects.filter(
        Q(disputes__status="OPEN") | lost & is_left, provider=provider.name
    )
    for checkout in ours.exclude(pk__in=listed).distinct().order_by("id"):
        beat()
        try:
            disputes = provider.look(checkout.reference, checkout.session).disputes
        except ProviderError as e:
            yield _unanswered_difference(
                provider, checkout.pk, f"is disputed here: {e.code}"
            )
            continue
        for seen in disputes or ():
            yield from _compare_dispute(provider, checkout, seen)


def _compare_dispute(
    provider: CheckoutProvider, checkout: Checkout, seen: DisputeSnapshot
) -> Iterator[Difference]:
    ours = checkout.disputes.filter(provider_dispute=seen.dispute).first()
    here = ours.status if ours else "not known"
    wanted = required_hold(checkout, ours.held, seen) if ours else Decimal(0)
    if here != seen.state:
        told = f"dispute {seen.dispute} is {here} here and {seen.state} there"
    elif ours and ours.held != wanted:
        told = f"dispute {seen.dispute} holds {ours.held} here in place of {wanted}"
    else:
        return
    name, pk = provider.name, checkout.pk
    yield Difference(name, pk, str(pk), told, mends_itself=True)


def _unanswered_difference(
    provider: CheckoutProvider, pk: UUID, told: str
) -> Difference:
    return Difference(provider.name, pk, str(pk), told, is_unanswered=True)


def _is_id(reference: str) -> bool:
    try:
        return str(UUID(reference)) == reference
    except ValueError:
        return False
