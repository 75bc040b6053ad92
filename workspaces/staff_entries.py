"""Top-ups and adjustments by staff. Large ones need the approval of a second person.

The page with the form has an id, which is the id of its entry. So a form that is sent
twice, by a double click or after going back, books once.
"""

from datetime import timedelta
from decimal import Decimal
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Sum
from django.db.models.functions import Abs

from verification.backoffice.approvals import (
    DecisionRefused,
    StaffActor,
    record_approval,
    record_rejection,
)
from verification.values.clock import now
from workspaces.ledger import InsufficientBalance, Kind, Movement, record_movements
from workspaces.models import Account, StaffEntry

# All entries within this time count as one for the limit.
COMBINED_PERIOD = timedelta(days=1)


class NotBooked(DecisionRefused):
    """Nothing was booked; the text says why."""


def needs_approval(account: Account, amount: Decimal) -> bool:
    """Return whether staff move so much within a day that a second person approves."""
    if account.billing == Account.Billing.PLAY:
        return False
    lately = account.staff_entries.filter(created_at__gt=now() - COMBINED_PERIOD)
    others = lately.exclude(status=StaffEntry.Status.REJECTED)
    moved = others.aggregate(sum=Sum(Abs("amount")))["sum"] or Decimal(0)
    return moved + abs(amount) > settings.STAFF_ENTRY_NEEDS_SECOND_ABOVE


@transaction.atomic
def request_entry(
    page: UUID, account_id: UUID, kind: Kind, amount: Decimal, note: str, by: StaffActor
) -> StaffEntry:
    """Book the entry, or let it wait for a second person.

    It waits if staff move more than STAFF_ENTRY_NEEDS_SECOND_ABOVE on the account in
    a day. Raises NotBooked and InsufficientBalance.
    """
    if by.user is None:
        raise NotBooked("Only a person moves money by hand.")
    # Under this lock, the second of two concurrent requests sees the first.
    account = Account.objects.select_for_update(no_key=True).get(pk=account_id)
    if before := StaffEntry.objects.filter(pk=page).first():
        raise NotBooked(f"This page was sent before: {before}. Nothing was added.")
    needs_second = needs_approval(account, amount)
    status = StaffEntry.Status.REQUESTED if needs_second else StaffEntry.Status.BOOKED
    entry = StaffEntry.objects.create(
        id=page,
        account=account,
        kind=kind.value,
        amount=amount,
        note=note,
        needs_second=needs_second,
        status=status,
        requested_by=by.name,
        requested_by_user=by.user,
    )
    if not needs_second:
        _book(entry)
    return entry


@transaction.atomic
def approve(entry_id: UUID, *, by: StaffActor) -> StaffEntry:
    """Book an entry. Raises NotBooked for its requester, and if it has a decision."""
    entry = _lock_entry(entry_id)
    record_approval(entry, by, NotBooked)
    entry.status = StaffEntry.Status.BOOKED
    entry.save()
    try:
        _book(entry)
    except InsufficientBalance as e:
        raise NotBooked(str(e)) from e
    return entry


@transaction.atomic
def reject(entry_id: UUID, *, by: StaffActor) -> StaffEntry:
    """Reject an entry; its requester may too. Raises NotBooked if it has a decision."""
    entry = _lock_entry(entry_id)
    record_rejection(entry, by, NotBooked)
    entry.status = StaffEntry.Status.REJECTED
    entry.save()
    return entry


def _lock_entry(entry_id: UUID) -> StaffEntry:
    rows = StaffEntry.objects.select_for_update(of=("self",), no_key=True)
    return rows.select_related("account").get(pk=entry_id)


def _book(entry: StaffEntry) -> None:
    record_movements(
        Movement(
            entry.account_id,
            Kind(entry.kind),
            entry.amount,
            entry.requested_by,
            note=entry.note,
            staff_entry_id=entry.pk,
        )
    )
