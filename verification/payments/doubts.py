"""What a person must look at about a checkout: raised and cleared one by one, so that
none hides another."""

from __future__ import annotations

from uuid import UUID

from django.db.models import F, Func, Value

from verification.payments.models import Checkout, Doubt


def raise_doubt(checkout_id: UUID, doubt: Doubt) -> bool:
    """False when it is there already."""
    without = Checkout.objects.filter(pk=checkout_id).exclude(doubts__contains=[doubt])
    changed = Func(F("doubts"), Value(doubt.value), function="array_append")
    return bool(without.update(doubts=changed))


def clear_doubt(checkout_id: UUID, doubt: Doubt) -> bool:
    """False when it is not there."""
    having = Checkout.objects.filter(pk=checkout_id, doubts__contains=[doubt])
    changed = Func(F("doubts"), Value(doubt.value), function="array_remove")
    return bool(having.update(doubts=changed))
