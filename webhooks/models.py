from __future__ import annotations

from django.db import models
from django.utils.timezone import now

from verification.encryption import EncryptedJSONField
from verification.ids import uuid7
from workspaces.models import Environment, Workspace


class Event(models.Model):
    """Something that happened, recorded in the transaction that caused it."""

    class Name(models.TextChoices):
        REPORT_CREATED = "report.created", "A report is created."
        REPORT_READY = "report.ready", "Every check in a report has finished."
        REPORT_FAILED = "report.failed", "A report could not complete."
        CHECK_COMPLETED = "check.completed", "One check finished."
        CHECK_FAILED = "check.failed", "One check could not complete."
        REFERENCE_SUBMITTED = (
            "reference.submitted",
            "A referee submitted their answers.",
        )
        MONITORING_ALERT_CREATED = (
            "monitoring.alert.created",
            "A monitoring run raised an alert.",
        )
        PAYMENT_PAID = "payment.paid", "A candidate or third-party payment completed."

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="events")
    environment = models.CharField(max_length=10, choices=Environment)
    name = models.CharField(max_length=30, choices=Name)
    # What caused it, such as a result and its attempt: one cause, one event.
    cause = models.CharField(max_length=100)
    report_id = models.UUIDField(null=True, db_index=True)
    payload = EncryptedJSONField(null=True)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name", "cause"], name="one_event_a_cause")
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.id}"
