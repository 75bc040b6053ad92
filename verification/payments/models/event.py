from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.timezone import now

from verification.encryption import EncryptedJSONField
from verification.ids import uuid7
from verification.payments.models.checkout import Checkout


class PaymentEvent(models.Model):
    """An event of a payment provider as it came, once its signature was right.

    The database takes the same event once. The body is forgotten after 90 days.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    provider = models.CharField(max_length=20)
    event_id = models.CharField(max_length=255)
    type = models.CharField(max_length=100)
    # Our checkout's; null where the event names none that we know.
    checkout = models.ForeignKey(
        Checkout, models.PROTECT, null=True, related_name="events"
    )
    body_sha256 = models.BinaryField()
    body = EncryptedJSONField(null=True)
    received_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "event_id"], name="an_event_is_taken_once"
            )
        ]
        indexes = [
            # What the purge looks for.
            models.Index(
                fields=["received_at"],
                condition=Q(body__isnull=False),
                name="payment_events_with_body",
            )
        ]

    def __str__(self) -> str:
        return f"{self.type} ({self.provider})"
