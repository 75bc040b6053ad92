"""What a person must look at about a checkout: raised and cleared one by one, so that
none hides another."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.db.models import F, Func, Value

from verification.ids import uuid7
from verification.payments.models import Checkout, Doubt, TroubleKind
from verification.payments.models.checkout import REFUND_DOUBTS
from verification.payments.troubles import note


@transaction.atomic
def raise_doubt(checkout_id: UUID, doubt: Doubt) -> bool:
    """False when it is there already."""
    without = Checkout.objects.filter(pk=checkout_id).exclude(doubts__contains=[doubt])
    changed = Func(F("doubts"), Value(doubt.value), function="array_append")
    is_new = bool(without.update(doubts=changed))
    if is_new:
        note_doubt(checkout_id, doubt, uuid7())
    return is_new


def note_doubt(checkout_id: UUID, doubt: Doubt, cause: UUID) -> None:
    """Have operators told of it."""
    names, told = (checkout_id, doubt, cause), str(doubt.label)
    kind = TroubleKind.REFUND if doubt in REFUND_DOUBTS else TroubleKind.DOUBT
    note(kind, *names, message=told, checkout_id=checkout_id)


@transaction.atomic
def clear_doubt(checkout_id: UUID, doubt: Doubt) -> bool:
    """False when it is not there. What was left to staff by it is looked at again."""
    having = Checkout.objects.filter(pk=checkout_id, doubts__contains=[doubt])
    changed = Func(F("doubts"), Value(doubt.value), function="array_remove")
    if not having.update(doubts=changed):
        return False
    its = Checkout.objects.filter(pk=checkout_id, payment_id__isnull=False)
    of_payment = Checkout.objects.filter(payment_id__in=its.values("payment_id"))
    of_payment.update(accounted_at=None)
    return True
