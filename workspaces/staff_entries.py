"""Top-ups and adjustments by staff, each booked once and the large ones by two people.

A page that asks for one has an id, and so has what it asks for: sent again, by a double
click or after going back, it books nothing.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Sum
from django.db.models.functions import Abs
from django.utils.timezone import now

from verification.backoffice.approvals import (
    DecisionRefused,
    StaffActor,
    record_approval,
    record_rejection,
)
from workspaces.ledger import InsufficientBalance, Kind, Movement, record_movements
from workspaces.models import Account, StaffEntry, StaffEntryStatus

# Several small entries within this time are one large one.
COMBINED_PERIOD = timedelta(days=1)


class NotBooked(DecisionRefused):
    """Nothing was changed; the text says why."""


class AlreadySent(NotBooked):
    """The page that asks for it was sent already."""


def needs_approval(account: Account, amount: Decimal) -> bool:
    """Whether staff have moved so much here within a day that another must agree."""
    if account.billing == Account.Billing.PLAY:
        return False
    lately = account.staff_entries.filter(created_at__gt=now() - COMBINED_PERIOD)
    others = lately.exclude(status=StaffEntryStatus.REJECTED)
    moved = others.aggregate(sum=Sum(Abs("amount")))["sum"] or Decimal(0)
    return moved + abs(amount) > settings.STAFF_ENTRY_NEEDS_SECOND_ABOVE


@transaction.atomic
def request_entry(
    page: UUID, account_id: UUID, kind: Kind, amount: Decimal, note: str, by: StaffActor
) -> StaffEntry:
    """Book this, or have it wait for a second person where all that staff moved on the
    account within a day is above STAFF_ENTRY_NEEDS_SECOND_ABOVE.

    Raises NotBooked, and InsufficientBalance.
    """
    if by.user is None:
        raise NotBooked("Only a person moves money by hand.")
    # Held, so that of two at once the second sees the first.
    account = Account.objects.select_for_update(no_key=True).get(pk=account_id)
    if before := StaffEntry.objects.filter(pk=page).first():
        raise AlreadySent(f"This page was sent before: {before}. Nothing was added.")
    entry = StaffEntry(
        id=page,
        account=account,
        kind=kind.value,
        amount=amount,
        note=note,
        needs_second=needs_approval(account, amount),
        status=StaffEntryStatus.REQUESTED,
        requested_by=by.name,
        requested_by_user=by.user,
    )
    if not entry.needs_second:
        entry.status = StaffEntryStatus.BOOKED
    entry.save(force_insert=True)
    if not entry.needs_second:
        _book(entry)
    return entry


@transaction.atomic
def approve(entry_id: UUID, *, by: StaffActor) -> StaffEntry:
    """Raises NotBooked for the person who asked, and when it was decided."""
    entry = _lock_entry(entry_id)
    record_approval(entry, by, NotBooked)
    entry.status = StaffEntryStatus.BOOKED
    entry.save()
    try:
        _book(entry)
    except InsufficientBalance as e:
        raise NotBooked(str(e)) from e
    return entry


@transaction.atomic
def reject(entry_id: UUID, *, by: StaffActor) -> StaffEntry:
    """Who asked for it may, too. Raises NotBooked when it was decided."""
    entry = _lock_entry(entry_id)
    record_rejection(entry, by, NotBooked)
    entry.status = StaffEntryStatus.REJECTED
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
