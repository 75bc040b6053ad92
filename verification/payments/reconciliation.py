"""Reconciliation: compare our books with those of the payment providers, both ways.

A poll repairs a checkout that is paid there and not here, and a dispute that differs.
Any other difference raises a review flag, or an alert if it concerns no checkout of
ours. "Here" is our database and "there" is the provider.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Q

from verification.db.ids import number_of_id
from verification.jobs.queue import beat, job
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
from verification.payments.refunds import (
    build_refund_request,
    flag_refunds_elsewhere,
    is_recorded,
)
from verification.payments.registry import providers
from verification.payments.settlement import poll_now
from verification.providers.base import ProviderError
from verification.providers.payment_provider import (
    CheckoutProvider,
    CheckoutState,
    DisputeSnapshot,
    ProviderPayment,
    ProviderRefund,
    RefundState,
)
from verification.values.clock import now

logger = logging.getLogger(__name__)

CHUNK_SIZE = 500
# The payer's bank can still send the money of a done refund back.
REFUND_CHECK_DELAYS = [timedelta(days=days) for days in (0, 7, 30)]
# The job reads books of this time that it could not read before.
MAX_CATCH_UP = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Difference:
    provider: str
    # The id of our checkout, or the provider's id of a payment, refund or dispute that
    # concerns no checkout of ours.
    concerns: UUID | str
    fault: str
    # A poll repairs it.
    mends_itself: bool = False
    # The provider did not answer, so that the difference is only possible.
    is_unanswered: bool = False
    # The provider's total of refunds of the checkout, and the time of that answer.
    refunded: tuple[Decimal, datetime] | None = None

    @property
    def checkout_id(self) -> UUID | None:
        return self.concerns if isinstance(self.concerns, UUID) else None

    def __str__(self) -> str:
        return f"{self.provider} {self.concerns} {self.fault}"


def day_bounds(first: date, last: date) -> tuple[datetime, datetime]:
    """Return the start of one day and the end of another, in UTC."""
    start = datetime.combine(first, time(), UTC)
    return start, datetime.combine(last, time(), UTC) + timedelta(days=1)


@job
def reconcile_yesterday() -> None:
    """Compare the books of yesterday, and of earlier days that could not be read."""
    yesterday = now().astimezone(UTC).date() - timedelta(days=1)
    for provider in providers():
        day, all_read = _first_day(provider.name, yesterday), True
        while day <= yesterday and beat():
            is_read = _reconcile_day(provider, day, is_last=day == yesterday)
            all_read = all_read and is_read
            # A day that could not be read is compared again, and delays no later one.
            if all_read:
                ReconciliationProgress.objects.update_or_create(
                    provider=provider.name, defaults={"day": day}
                )
            day += timedelta(days=1)


def _first_day(provider: str, yesterday: date) -> date:
    """Return the day after the last compared one, and at the latest yesterday."""
    compared = ReconciliationProgress.objects.filter(provider=provider).first()
    if compared is None:
        # If the books of yesterday cannot be read, the next job begins there.
        before = yesterday - timedelta(days=1)
        compared = ReconciliationProgress.objects.create(provider=provider, day=before)
    after = compared.day + timedelta(days=1)
    return min(yesterday, max(after, yesterday - MAX_CATCH_UP))


def _reconcile_day(provider: CheckoutProvider, day: date, *, is_last: bool) -> bool:
    """Compare the books of one day; log each difference, and repair or report it.

    Returns False if the next job has to compare the day once more. A question that the
    provider does not answer then either is reported.
    """
    is_complete = True
    try:
        for difference in reconcile(provider, *day_bounds(day, day)):
            logger.error("books differ: %s", difference)
            is_unanswered = difference.is_unanswered
            if is_unanswered and is_last:
                is_complete = False
                continue
            # A review flag alerts the operators itself.
            is_flagged = difference.checkout_id and not difference.mends_itself
            if is_unanswered or not is_flagged:
                kind = OperatorAlertKind.BOOKS
                if is_unanswered:
                    kind = OperatorAlertKind.UNREAD
                record_alert(kind, difference, message=str(difference))
    except ProviderError as e:
        why = e.code
    except Exception as e:
        # Unreadable books of one provider must not stop the job for the others.
        why = type(e).__name__
    else:
        return is_complete
    logger.error("the books of %s were not read: %s", provider.name, why)
    message = f"{provider.name}, {day}: {why}"
    record_alert(OperatorAlertKind.UNREAD, provider.name, day, message=message)
    return False


def reconcile(
    provider: CheckoutProvider, start: datetime, end: datetime, *, mend: bool = True
) -> Iterator[Difference]:
    """Yield the differences of this time; `mend` repairs or flags each one.

    Raises ProviderError if the provider's books cannot be read.
    """
    for difference in _differences(provider, start, end):
        checkout_id = difference.checkout_id
        if mend and checkout_id and not difference.is_unanswered:
            if difference.mends_itself:
                poll_now(checkout_id)
            elif difference.refunded:
                flag_refunds_elsewhere(checkout_id, *difference.refunded)
            else:
                # A day is compared again if one before it was not read. Staff may have
                # cleared the flag meanwhile.
                cause = f"{start:%F} {difference.fault}"
                raise_review_flag(checkout_id, ReviewFlag.BOOKS_DIFFER, cause)
        yield difference


def _differences(
    provider: CheckoutProvider, start: datetime, end: datetime
) -> Iterator[Difference]:
    listed: set[UUID] = set()
    books = provider.payments_between(start, end)
    while chunk := list(islice(books, CHUNK_SIZE)):
        beat()
        # The books may list payments that are not ours.
        ids = {paid.reference for paid in chunk if _is_id(paid.reference)}
        rows = Checkout.objects.filter(pk__in=ids, provider=provider.name)
        ours = {checkout.reference: checkout for checkout in rows}
        for paid in chunk:
            checkout = ours.get(paid.reference)
            yield from _compare_payment(provider, paid, checkout, listed)
    yield from _compare_unlisted(provider, start, end, listed)
    yield from _compare_refunds(provider, start, end)
    for found in provider.refunds_between(start, end):
        beat()
        yield from _compare_provider_refund(provider, found)
    yield from _compare_disputes(provider, start, end)


def _is_id(reference: str) -> bool:
    try:
        return str(UUID(reference)) == reference
    except ValueError:
        return False


def _compare_payment(
    provider: CheckoutProvider,
    paid: ProviderPayment,
    checkout: Checkout | None,
    listed: set[UUID],
) -> Iterator[Difference]:
    """Compare one payment of the provider's books, and add its checkout to `listed`."""
    if checkout is None:
        # A foreign reference may hold anything, even personal data, so it is left out.
        known_as = "nothing of ours"
        if _is_id(paid.reference):
            # A restore may have lost it: the payer has a receipt with this number.
            number = number_of_id("P", UUID(paid.reference))
            known_as = f"{number} ({paid.reference}), which is not known here"
        fault = f"{paid.amount} {paid.currency} was paid there, for {known_as}"
        yield Difference(provider.name, paid.transaction, fault)
        return
    here = (checkout.paid_amount, checkout.paid_currency)
    there = (paid.amount, paid.currency)
    is_again = checkout.pk in listed
    is_unpaid_here = checkout.status != CheckoutStatus.PAID
    fault = ""
    if is_again:
        fault = "was paid there more than once"
    elif is_unpaid_here:
        fault = f"is paid there and {checkout.status} here"
    elif here != there:
        fault = "{} {} was paid there, {} {} here".format(*there, *here)
    elif checkout.transaction != paid.transaction:
        fault = f"is transaction {paid.transaction} there"
    listed.add(checkout.pk)
    if fault:
        mends_itself = is_unpaid_here and not is_again
        yield Difference(provider.name, checkout.pk, fault, mends_itself=mends_itself)


def _compare_unlisted(
    provider: CheckoutProvider, start: datetime, end: datetime, listed: set[UUID]
) -> Iterator[Difference]:
    """Ask the provider about our paid checkouts that its books do not list.

    Its books may list them on another day.
    """
    ours = Checkout.objects.filter(
        provider=provider.name, status="PAID", paid_at__gte=start, paid_at__lt=end
    )
    # A provider may leave out payments that refunds or disputes took back. Refunds that
    # wait for a second person took nothing.
    taken = Refund.objects.filter(
        checkout=OuterRef("pk"), status__in=[RefundStatus.APPROVED, RefundStatus.DONE]
    )
    ours = ours.filter(~Exists(taken), disputed=0)
    for checkout in ours.order_by("id").iterator():
        beat()
        if checkout.pk in listed:
            continue
        try:
            snapshot = provider.look(checkout.reference, checkout.session)
        except ProviderError as e:
            yield _unanswered(checkout, f"is paid here: {e.code}")
            continue
        if snapshot.state != CheckoutState.PAID:
            fault = f"is paid here and {snapshot.state} there"
            yield Difference(provider.name, checkout.pk, fault)


def _compare_refunds(
    provider: CheckoutProvider, start: datetime, end: datetime
) -> Iterator[Difference]:
    times = Q()
    for later in REFUND_CHECK_DELAYS:
        times |= Q(ended_at__gte=start - later, ended_at__lt=end - later)
    ended = Refund.objects.filter(
        times,
        status__in=[RefundStatus.DONE, RefundStatus.FAILED],
        checkout__provider=provider.name,
    )
    for refund in ended.select_related("checkout").order_by("id"):
        beat()
        here = f"refund {refund.pk} is {refund.status} here"
        try:
            snapshot = provider.poll_refund(
                build_refund_request(refund), refund.provider_refund
            )
        except ProviderError as e:
            yield _unanswered(refund.checkout, f"{here}: {e.code}")
            continue
        state = snapshot.state if snapshot else "not known"
        is_done_there = state == RefundState.DONE
        if is_done_there != (refund.status == RefundStatus.DONE):
            fault = f"{here} and {state} there"
            yield Difference(provider.name, refund.checkout_id, fault)


def _compare_provider_refund(
    provider: CheckoutProvider, found: ProviderRefund
) -> Iterator[Difference]:
    """Report a refund that somebody made in the provider's dashboard."""
    checkout = Checkout.objects.of_transaction(provider.name, found.transaction).first()
    fault = f"{found.amount} {found.currency} was given back there"
    if checkout is None:
        fault = f"{fault}, of a payment that is not known here"
        yield Difference(provider.name, found.refund, fault)
        return
    if is_recorded(checkout, found):
        return
    asked_at = now()
    try:
        refunded = provider.look(checkout.reference, checkout.session).refunded
    except ProviderError as e:
        yield _unanswered(checkout, f"{fault}: {e.code}")
        return
    yield Difference(
        provider.name,
        checkout.pk,
        f"{fault} by refund {found.refund}, not by us",
        # Without the provider's total, `reconcile` raises BOOKS_DIFFER.
        refunded=None if refunded is None else (refunded, asked_at),
    )


def _compare_disputes(
    provider: CheckoutProvider, start: datetime, end: datetime
) -> Iterator[Difference]:
    """Compare the disputes that opened there in this time, and some of ours.

    These are open disputes, and lost ones that hold too little.
    """
    listed: set[UUID] = set()
    for dispute in provider.disputes_between(start, end):
        beat()
        paid = Checkout.objects.of_transaction(provider.name, dispute.transaction)
        if checkout := paid.first():
            listed.add(checkout.pk)
            yield from _compare_dispute(checkout, dispute)
        else:
            fault = "is disputed there, and its payment is not known here"
            yield Difference(provider.name, dispute.dispute, fault)
    lost = Q(disputes__status="LOST", disputes__held_amount__lt=F("disputes__amount"))
    is_refundable = Q(paid_amount__gt=F("refunded") + F("disputed"))
    ours = Checkout.objects.filter(
        Q(disputes__status="OPEN") | lost & is_refundable, provider=provider.name
    )
    for checkout in ours.exclude(pk__in=listed).distinct().order_by("id"):
        beat()
        try:
            disputes = provider.look(checkout.reference, checkout.session).disputes
        except ProviderError as e:
            yield _unanswered(checkout, f"is disputed here: {e.code}")
            continue
        for dispute in disputes or ():
            yield from _compare_dispute(checkout, dispute)


def _compare_dispute(
    checkout: Checkout, dispute: DisputeSnapshot
) -> Iterator[Difference]:
    ours = checkout.disputes.filter(provider_dispute=dispute.dispute).first()
    here = ours.status if ours else "not known"
    fault = ""
    if here != dispute.state:
        fault = f"is {here} here and {dispute.state} there"
    elif ours:
        required = required_hold(checkout, ours.held_amount, dispute)
        if ours.held_amount != required:
            fault = f"holds {ours.held_amount} here in place of {required}"
    if fault:
        fault = f"dispute {dispute.dispute} {fault}"
        yield Difference(checkout.provider, checkout.pk, fault, mends_itself=True)


def _unanswered(checkout: Checkout, fault: str) -> Difference:
    return Difference(checkout.provider, checkout.pk, fault, is_unanswered=True)
