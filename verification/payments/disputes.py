"""Disputes: a payer's bank takes money back, or may take it back.

A dispute that is open or lost holds its money: staff cannot refund it, and a top-up
leaves the balance at once. A dispute that is won sets the money free.
"""

from collections.abc import Iterable
from decimal import Decimal
from uuid import UUID

from django.db import transaction
from django.db.models import F

from verification.backoffice.approvals import SERVICE_STAFF
from verification.payments.alerts import clear_review_flag, raise_review_flag
from verification.payments.models import (
    Checkout,
    CheckoutStatus,
    Dispute,
    DisputeStatus,
    Refund,
    ReviewFlag,
)
from verification.providers.payment_provider import DisputeSnapshot, DisputeState
from verification.reports.status import locked_reports
from verification.values.clock import now
from workspaces.ledger import Kind, Movement, take_back
from workspaces.models import Environment


@transaction.atomic
def record_disputes(checkout_id: UUID, disputes: Iterable[DisputeSnapshot]) -> None:
    """Record disputes as the provider's API reports them; a repeat changes nothing."""
    # A won dispute frees money that another one may hold, so won disputes come first.
    for snapshot in sorted(disputes, key=lambda one: one.state != DisputeState.WON):
        checkout = lock_checkout(checkout_id)
        if checkout.status == CheckoutStatus.PAID:
            _record(checkout, snapshot)


def _record(checkout: Checkout, snapshot: DisputeSnapshot) -> None:
    known = Dispute.objects.filter(checkout=checkout, provider_dispute=snapshot.dispute)
    dispute = known.first() or Dispute(
        checkout=checkout, provider_dispute=snapshot.dispute, status=""
    )
    before, held_before = dispute.status, dispute.held_amount
    dispute.status = DisputeStatus(snapshot.state.value)
    dispute.held_amount = required_hold(checkout, held_before, snapshot)
    dispute.amount = max(snapshot.amount, dispute.held_amount)
    is_open = dispute.status == DisputeStatus.OPEN
    dispute.ended_at = None if is_open else dispute.ended_at or now()
    dispute.save()
    if more := dispute.held_amount - held_before:
        _hold(dispute, more)
    if not checkout.disputes.filter(status=DisputeStatus.LOST).exists():
        # A bank may decide again in our favour.
        clear_review_flag(checkout.pk, ReviewFlag.DISPUTE_LOST)
    # No person has to look at play money.
    if dispute.status == before or checkout.environment == Environment.SANDBOX:
        return
    if is_open:
        raise_review_flag(checkout.pk, ReviewFlag.DISPUTED)
        return
    if not checkout.disputes.filter(status=DisputeStatus.OPEN).exists():
        clear_review_flag(checkout.pk, ReviewFlag.DISPUTED)
    if dispute.status == DisputeStatus.LOST:
        raise_review_flag(checkout.pk, ReviewFlag.DISPUTE_LOST)
    elif not checkout.is_counted:
        # The won dispute frees money that pays for nothing, so that staff must decide.
        raise_review_flag(checkout.pk, ReviewFlag.PAYS_NOTHING)


def required_hold(
    checkout: Checkout, held_amount: Decimal, snapshot: DisputeSnapshot
) -> Decimal:
    """Return the amount that a dispute must hold, from the amount that it holds now."""
    if snapshot.state == DisputeState.WON:
        return Decimal(0)
    # A dispute holds at most the rest of the money; one in another currency, all of it.
    available = checkout.refundable + held_amount
    is_known = snapshot.currency == checkout.paid_currency
    return min(snapshot.amount, available) if is_known else available


def release_held_money(checkout: Checkout, amount: Decimal) -> None:
    """Let the disputes of a locked checkout hold this much less.

    A negative amount changes nothing.
    """
    for dispute in checkout.disputes.filter(held_amount__gt=0).order_by("id"):
        released = min(dispute.held_amount, amount)
        if released > 0:
            dispute.held_amount -= released
            dispute.save(update_fields=["held_amount"])
            _hold(dispute, -released)
            amount -= released


def _hold(dispute: Dispute, more: Decimal) -> None:
    """Hold this much more of the checkout's money; less if the amount is negative."""
    checkout = dispute.checkout
    # A disputed part stops waiting for the rest of its payment.
    is_part = checkout.is_part and checkout.is_counted
    Checkout.objects.filter(pk=checkout.pk).update(
        disputed=F("disputed") + more, is_part=is_part
    )
    if movement := top_up_movement(dispute, -more, SERVICE_STAFF.name):
        take_back(movement)


def top_up_movement(
    about: Refund | Dispute, amount: Decimal, actor: str
) -> Movement | None:
    """Return the movement on the balance of a top-up. A report's checkout has none."""
    checkout = about.checkout
    if checkout.account is None or not checkout.is_counted:
        return None
    return Movement(
        checkout.account.pk,
        Kind.ADJUSTMENT,
        amount,
        actor,
        note=f"{about._meta.model_name} {about.pk}",
        checkout_id=checkout.pk,
    )


def lock_checkout(checkout_id: UUID) -> Checkout:
    """Lock the checkout after its report, and return it."""
    report_id = Checkout.objects.values_list("report_id", flat=True).get(pk=checkout_id)
    if report_id:
        locked_reports().get(pk=report_id)
    checkouts = Checkout.objects.select_for_update(of=("self",), no_key=True)
    return checkouts.select_related("account").get(pk=checkout_id)
