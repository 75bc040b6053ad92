from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.utils.timezone import now


class StaffEntryKind(models.TextChoices):
    TOP_UP = "TOP_UP"
    ADJUSTMENT = "ADJUSTMENT"


class StaffEntryStatus(models.TextChoices):
    REQUESTED = "REQUESTED", "Waits for a second person"
    REJECTED = "REJECTED"
    BOOKED = "BOOKED"


class StaffEntry(models.Model):
    """Money that staff put on an account, or take from it, by hand.

    Its id is that of the page it was asked by, so that a page that is sent twice is
    one entry.
    """

    Kind = StaffEntryKind
    Status = StaffEntryStatus

    id = models.UUIDField(primary_key=True, editable=False)
    account = models.ForeignKey(
        "workspaces.Account", models.PROTECT, related_name="staff_entries"
    )
    kind = models.CharField(max_length=10, choices=StaffEntryKind)
    # What it does to the balance.
    amount = models.DecimalField(max_digits=14, decimal_places=2)
    note = models.CharField(max_length=200, blank=True)
    status = models.CharField(max_length=9, choices=StaffEntryStatus)
    # Above an amount that the operator sets, another person must agree.
    needs_second = models.BooleanField(default=False)
    requested_by = models.CharField(max_length=100)
    # Users of the back office by their ids, since names can be changed.
    requested_by_user = models.BigIntegerField()
    decided_by = models.CharField(max_length=100, blank=True)
    decided_by_user = models.BigIntegerField(null=True)
    decided_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        verbose_name_plural = "staff entries"
        constraints = [
            models.CheckConstraint(
                name="staff_top_up_or_say_why_they_adjust",
                condition=Q(kind="TOP_UP", amount__gt=0)
                | (Q(kind="ADJUSTMENT") & ~Q(amount=0) & ~Q(note="")),
            ),
            models.CheckConstraint(
                name="large_staff_entries_are_decided_by_another",
                condition=Q(needs_second=False, status="BOOKED")
                | Q(needs_second=True, status__in=["REQUESTED", "REJECTED"])
                | Q(
                    Q(needs_second=True, decided_by_user__isnull=False),
                    ~Q(decided_by_user=F("requested_by_user")),
                ),
            ),
            models.CheckConstraint(
                name="staff_entry_decided_at_iff_decided",
                condition=Q(decided_by_user=None, decided_at=None)
                | Q(decided_by_user__isnull=False, decided_at__isnull=False),
            ),
        ]
        indexes = [
            # What waits for a second person.
            models.Index(
                fields=["id"],
                condition=Q(status="REQUESTED"),
                name="staff_entries_to_decide",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.amount} ({self.status})"

    @property
    def money(self) -> str:
        return f"{self.account.currency} {self.amount:.2f}"
