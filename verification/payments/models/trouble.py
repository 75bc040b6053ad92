from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.timezone import now

from verification.ids import uuid7
from verification.payments.models.checkout import Checkout


class TroubleKind(models.TextChoices):
    UNOPENED = "UNOPENED", "Checkout not opened"
    REFUND = "REFUND", "Refund needs somebody"
    DOUBT = "DOUBT", "Payment in doubt"
    BOOKS = "BOOKS", "Books differ"
    UNREAD = "UNREAD", "Books not read"
    SIGNATURE = "SIGNATURE", "Signatures refused"
    ACCESS = "ACCESS", "Access refused"


class Trouble(models.Model):
    """What operators are told by e-mail, each cause once. It names ids, and nobody."""

    Kind = TroubleKind

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=9, choices=TroubleKind)
    cause = models.CharField(max_length=150, unique=True)
    checkout = models.ForeignKey(
        Checkout, models.PROTECT, null=True, related_name="troubles"
    )
    message = models.CharField(max_length=300)
    times = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=now, editable=False)
    # When the e-mail about it was written, or it had passed by itself by then.
    told_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        indexes = [
            models.Index(
                fields=["id"], condition=Q(told_at=None), name="troubles_to_tell"
            ),
            # What the purge looks for.
            models.Index(fields=["created_at"], name="troubles_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.message}"
