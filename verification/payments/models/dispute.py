from __future__ import annotations

from decimal import Decimal

from django.db import models
from django.db.models import F, Q
from django.utils.timezone import now

from verification.ids import uuid7
from verification.payments.models.checkout import Checkout


class DisputeStatus(models.TextChoices):
    OPEN = "OPEN"
    WON = "WON"
    LOST = "LOST", "Lost: the money is gone"


class Dispute(models.Model):
    """A payer's bank takes money of a checkout back, or may do so.

    What is open or lost can neither be given back nor, of a top-up, be spent.
    """

    Status = DisputeStatus

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    checkout = models.ForeignKey(Checkout, models.PROTECT, related_name="disputes")
    # The provider's name for it.
    provider_dispute = models.CharField(max_length=255)
    status = models.CharField(max_length=4, choices=DisputeStatus)
    # As the provider tells it, and how much of the checkout's money that is.
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    held = models.DecimalField(max_digits=12, decimal_places=2, default=Decimal(0))
    created_at = models.DateTimeField(default=now, editable=False)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["checkout", "provider_dispute"],
                name="a_dispute_is_recorded_once",
            ),
            models.CheckConstraint(
                name="disputes_hold_no_more_than_they_are_about",
                condition=Q(held__gte=0, held__lte=F("amount")),
            ),
            models.CheckConstraint(
                name="a_dispute_that_was_won_holds_nothing",
                condition=~Q(status="WON") | Q(held=0),
            ),
            models.CheckConstraint(
                name="dispute_ended_at_iff_ended",
                condition=Q(status="OPEN", ended_at=None)
                | (~Q(status="OPEN") & Q(ended_at__isnull=False)),
            ),
        ]
        indexes = [
            # What the reconciliation asks about every day.
            models.Index(
                fields=["id"], condition=Q(status="OPEN"), name="disputes_open"
            )
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.amount} of {self.checkout_id}"
