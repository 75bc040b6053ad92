from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.utils.timezone import now

from verification.ids import uuid7
from verification.payments.models.checkout import Checkout


class RefundStatus(models.TextChoices):
    REQUESTED = "REQUESTED", "Waits for a second person"
    REJECTED = "REJECTED"
    # Waits for the provider to be asked, or to be asked what became of it.
    APPROVED = "APPROVED"
    DONE = "DONE"
    FAILED = "FAILED"


class RefundCause(models.TextChoices):
    STAFF = "STAFF", "Decided by staff"
    PAID_TWICE = "PAID_TWICE", "The payment had been paid already"
    NOT_ASKED = "NOT_ASKED", "The report had ended, or asked for something else"
    OVERPAID = "OVERPAID", "More was paid than asked"
    SHORT = "SHORT", "Less was paid than asked, and the rest did not come"
    NOT_DONE = "NOT_DONE", "What it was paid for was not done"
    ELSEWHERE = "ELSEWHERE", "Given back at the provider, and recorded by staff"


class Refund(models.Model):
    """Money of one checkout given back, through the provider that took it.

    It is due when `next_try_at` has passed. Our name for it at the provider is its id,
    so that a try whose answer was lost is found again and not paid twice.
    """

    Status = RefundStatus
    Cause = RefundCause

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    checkout = models.ForeignKey(Checkout, models.PROTECT, related_name="refunds")
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    cause = models.CharField(max_length=10, choices=RefundCause)
    reason = models.CharField(max_length=300)
    status = models.CharField(max_length=9, choices=RefundStatus)
    requested_by = models.CharField(max_length=100)
    # Users of the back office by their ids, since names can be changed.
    requested_by_user = models.BigIntegerField(null=True)
    decided_by_user = models.BigIntegerField(null=True)
    # Above an amount that the operator sets, another person must agree.
    needs_second = models.BooleanField(default=False)
    decided_by = models.CharField(max_length=100, blank=True)
    decided_at = models.DateTimeField(null=True)
    # The provider's name for it, once it has said so.
    provider_refund = models.CharField(max_length=255, blank=True)
    message = models.CharField(max_length=200, blank=True)
    tries = models.PositiveSmallIntegerField(default=0)
    # When a person was told that it takes too long.
    stuck_at = models.DateTimeField(null=True, editable=False)
    next_try_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=now, editable=False)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="refund_amount_is_positive", condition=Q(amount__gt=0)
            ),
            models.CheckConstraint(
                name="refunds_are_tried_while_approved",
                condition=Q(status="APPROVED", next_try_at__isnull=False)
                | (~Q(status="APPROVED") & Q(next_try_at=None)),
            ),
            models.CheckConstraint(
                name="refund_ended_at_iff_ended",
                condition=Q(
                    status__in=["REJECTED", "DONE", "FAILED"], ended_at__isnull=False
                )
                | Q(status__in=["REQUESTED", "APPROVED"], ended_at=None),
            ),
            models.CheckConstraint(
                name="large_refunds_are_decided_by_another",
                condition=Q(needs_second=False)
                | Q(status__in=["REQUESTED", "REJECTED"])
                | Q(
                    Q(requested_by_user__isnull=False, decided_by_user__isnull=False),
                    ~Q(decided_by_user=F("requested_by_user")),
                ),
            ),
            models.UniqueConstraint(
                fields=["checkout", "cause"],
                condition=~Q(cause__in=["STAFF", "ELSEWHERE"]),
                name="the_service_gives_back_once_for_a_cause",
            ),
            models.UniqueConstraint(
                fields=["checkout", "provider_refund"],
                condition=~Q(provider_refund=""),
                name="a_refund_of_the_provider_is_recorded_once",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_try_at"],
                condition=Q(next_try_at__isnull=False),
                name="refunds_to_try",
            ),
            # What waits for a second person.
            models.Index(
                fields=["id"],
                condition=Q(status="REQUESTED"),
                name="refunds_to_decide",
            ),
            models.Index(
                fields=["ended_at"],
                condition=Q(ended_at__isnull=False),
                name="refunds_ended",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.amount} of {self.checkout_id}"

    @property
    def money(self) -> str:
        return f"{self.checkout.paid_currency} {self.amount:.2f}"

    @property
    def workspace(self) -> str:
        return self.checkout.workspace.name

    @property
    def environment(self) -> str:
        return self.checkout.environment

    @property
    def provider(self) -> str:
        return self.checkout.provider
