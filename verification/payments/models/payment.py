from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from verification.encryption import EncryptedJSONField
from verification.ids import uuid7
from verification.reports.models import Report


class PaymentStatus(models.TextChoices):
    NOT_REQUIRED = "NOT_REQUIRED"
    PENDING = "PENDING"
    PAID = "PAID"
    FAILED = "FAILED", "The last attempt failed"
    EXPIRED = "EXPIRED"
    REFUNDED = "REFUNDED"
    CANCELLED = "CANCELLED"


class Payment(models.Model):
    """What the subject or a nominated payer pays for one report.

    A report that the workspace pays for has no row. One that costs nothing has a row
    for its payer, who is asked when an edit makes it cost something.
    """

    Status = PaymentStatus
    # Money can be taken for it.
    OUTSTANDING = (PaymentStatus.PENDING, PaymentStatus.FAILED)

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    report = models.OneToOneField(Report, models.CASCADE, related_name="payment")
    status = models.CharField(max_length=12, choices=PaymentStatus)
    amount = models.DecimalField(max_digits=10, decimal_places=2)
    currency = models.CharField(max_length=3, default="KES")
    # {name, email, phone} of a nominated payer
    payer = EncryptedJSONField(null=True)
    # Which link is the valid one; a new link raises it and so kills the old.
    generation = models.PositiveIntegerField(default=1)
    # SHA-256 of the link's token; the token itself is derived, and kept nowhere.
    token_digest = models.BinaryField(null=True, unique=True)
    expires_at = models.DateTimeField(null=True)
    # When the present link was made; another is made once a minute at most.
    link_made_at = models.DateTimeField(db_default=Now(), editable=False)
    reminded_at = models.DateTimeField(null=True, editable=False)
    # When the payer asked for another link, which the client alone can send.
    link_wanted_at = models.DateTimeField(null=True, editable=False)
    paid_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="paid_at_iff_paid",
                condition=Q(status__in=["PAID", "REFUNDED"], paid_at__isnull=False)
                | (~Q(status__in=["PAID", "REFUNDED"]) & Q(paid_at=None)),
            ),
            models.CheckConstraint(
                name="payment_amount_is_not_negative", condition=Q(amount__gte=0)
            ),
            models.CheckConstraint(
                name="who_is_asked_to_pay_has_a_link",
                condition=Q(status="NOT_REQUIRED")
                | Q(token_digest__isnull=False, expires_at__isnull=False),
            ),
        ]
        indexes = [
            # What expiry and reminders look for.
            models.Index(
                fields=["expires_at"],
                condition=Q(status__in=["PENDING", "FAILED"]),
                name="payments_waiting",
            )
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.amount} {self.currency}"

    @property
    def is_outstanding(self) -> bool:
        return self.status in self.OUTSTANDING

    @property
    def is_settled(self) -> bool:
        """Nothing is owed: it was paid and kept, or never cost anything."""
        return self.status in {PaymentStatus.PAID, PaymentStatus.NOT_REQUIRED}
