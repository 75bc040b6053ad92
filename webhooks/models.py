"""Events, the receivers' configurations, deliveries and attempts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q, QuerySet
from django.utils.timezone import now

from verification.db.base import force_custom_plan
from verification.db.encryption import EncryptedJSONField
from verification.db.ids import uuid7
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
        # Delivered whatever is enabled, and enabled by nobody.
        WEBHOOK_TEST = "webhook.test", "A test event was asked for."

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
        indexes = [
            # What the purge of payloads looks for.
            models.Index(
                fields=["created_at"],
                condition=Q(payload__isnull=False),
                name="events_with_payload",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.id}"


class Configuration(models.Model):
    """Where a workspace gets its events in one environment, and how that goes."""

    class DisabledReason(models.TextChoices):
        GONE = "GONE", "The receiver answered 410 Gone."
        FAILING = "FAILING", "Nothing was delivered for five days."

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="webhook_configurations"
    )
    environment = models.CharField(max_length=10, choices=Environment)
    url = models.CharField(max_length=2048)
    enabled = models.BooleanField()
    enabled_events = ArrayField(models.CharField(max_length=30, choices=Event.Name))
    secret = EncryptedJSONField()
    # Signs beside the current one until `previous_secret_ends_at`.
    previous_secret = EncryptedJSONField(null=True)
    previous_secret_ends_at = models.DateTimeField(null=True, editable=False)
    # Attempts that failed since the last that did not, and the first of them.
    failures_in_row = models.PositiveIntegerField(default=0)
    failing_since = models.DateTimeField(null=True, editable=False)
    # The circuit breaker: nothing is sent before this, and then one at a time.
    resting_until = models.DateTimeField(null=True, editable=False)
    # Rests since the last attempt that did not fail.
    rests = models.PositiveSmallIntegerField(default=0, db_default=0)
    # Set when the service disabled it, not when the client did.
    disabled_at = models.DateTimeField(null=True, editable=False)
    disabled_reason = models.CharField(max_length=7, choices=DisabledReason, blank=True)
    created_at = models.DateTimeField(default=now, editable=False)
    updated_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        verbose_name = "webhook configuration"
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "environment"],
                name="one_webhook_configuration_an_environment",
            ),
            models.CheckConstraint(
                name="disabled_configurations_say_why",
                condition=Q(disabled_at=None, disabled_reason="")
                | (
                    Q(enabled=False, disabled_at__isnull=False) & ~Q(disabled_reason="")
                ),
            ),
            models.CheckConstraint(
                name="failing_since_the_first_failure",
                condition=Q(failures_in_row=0, failing_since=None)
                | Q(failures_in_row__gt=0, failing_since__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.url

    def secrets(self, at: datetime) -> list[str]:
        """The current one first, then the previous one while it still counts."""
        both = [self.secret]
        if self.previous_secret_ends_at and at < self.previous_secret_ends_at:
            both.append(self.previous_secret)
        return both


class DeliveryStatus(models.TextChoices):
    PENDING = "PENDING"
    RETRYING = "RETRYING"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"


D = DeliveryStatus


class Delivery(models.Model):
    """One event on its way to its workspace's receiver. The row is the queue.

    Made by the database when the event is recorded, where the event is enabled. It is
    due when `next_attempt_at` has passed. A sender claims it by moving that past its
    lease (`leased_until`) and counting `fence`; what it then writes names the fence,
    so that one that comes late overwrites nothing.
    """

    Status = DeliveryStatus

    event = models.OneToOneField(
        Event, models.CASCADE, primary_key=True, related_name="delivery"
    )
    # None once the configuration was deleted.
    configuration = models.ForeignKey(
        Configuration,
        models.SET_NULL,
        null=True,
        related_name="deliveries",
        db_index=False,
    )
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="deliveries", db_index=False
    )
    environment = models.CharField(max_length=10, choices=Environment)
    name = models.CharField(max_length=30, choices=Event.Name)
    status = models.CharField(
        max_length=9, choices=DeliveryStatus, db_default=DeliveryStatus.PENDING
    )
    # Attempts that failed on the present schedule; it begins anew when redelivered.
    failures = models.PositiveSmallIntegerField(db_default=0)
    # Attempts whose end was recorded.
    attempts = models.PositiveIntegerField(db_default=0)
    # Every claim ever, which fences a late sender off.
    fence = models.PositiveIntegerField(db_default=0)
    next_attempt_at = models.DateTimeField(null=True, editable=False)
    leased_until = models.DateTimeField(null=True, editable=False)
    # Of the last attempt that got one.
    status_code = models.PositiveSmallIntegerField(null=True)
    delivered_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(editable=False)

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            models.CheckConstraint(
                name="deliveries_wait_until_they_end",
                condition=Q(
                    status__in=[D.PENDING, D.RETRYING], next_attempt_at__isnull=False
                )
                | Q(status__in=[D.DELIVERED, D.FAILED], next_attempt_at=None),
            ),
            models.CheckConstraint(
                name="ended_deliveries_are_not_leased",
                condition=Q(leased_until=None) | Q(next_attempt_at__isnull=False),
            ),
            models.CheckConstraint(
                name="delivered_at_iff_delivered",
                condition=Q(status=D.DELIVERED) ^ Q(delivered_at=None),
            ),
        ]
        indexes = [
            # The claim, configuration by configuration.
            models.Index(
                fields=["configuration", "next_attempt_at", "event"],
                condition=Q(next_attempt_at__isnull=False),
                name="deliveries_due",
            ),
            # How many of a configuration are under way.
            models.Index(
                fields=["configuration", "leased_until"],
                condition=Q(leased_until__isnull=False),
                name="deliveries_leased",
            ),
            # The list, newest first: ids are ordered by time.
            models.Index(
                F("workspace"),
                F("environment"),
                F("event").desc(),
                name="deliveries_listed",
            ),
            # What recovery looks for.
            models.Index(
                fields=["workspace", "environment", "created_at"],
                condition=Q(status=D.FAILED),
                name="deliveries_failed",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.event_id}"


class Attempt(models.Model):
    """One request to a receiver, and what came of it."""

    class Error(models.TextChoices):
        """Why there was no answer, or none that counts. Blank when there was one."""

        NAME_UNKNOWN = "NAME_UNKNOWN", "The host name could not be resolved."
        TARGET_BLOCKED = "TARGET_BLOCKED", "The address may not be called."
        NOT_CONNECTED = "NOT_CONNECTED", "No connection could be made."
        NOT_TRUSTED = "NOT_TRUSTED", "The certificate was not accepted."
        TIMED_OUT = "TIMED_OUT", "The answer was not complete in time."
        BROKEN = "BROKEN", "The connection ended before the answer did."
        UNREADABLE = "UNREADABLE", "The stored event could not be read."

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    delivery = models.ForeignKey(
        Delivery, models.CASCADE, related_name="attempt_set", db_index=False
    )
    number = models.PositiveIntegerField()
    url = models.CharField(max_length=2048)
    started_at = models.DateTimeField()
    duration_ms = models.PositiveIntegerField()
    status_code = models.PositiveSmallIntegerField(null=True)
    error = models.CharField(max_length=14, choices=Error, blank=True)
    # The first 1 KiB of the answer's body, as text.
    answer = EncryptedJSONField(null=True)

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(
                fields=["delivery", "number"], name="attempts_are_numbered"
            ),
        ]
        indexes = [
            # What the purge of answers looks for.
            models.Index(
                fields=["started_at"],
                condition=Q(answer__isnull=False),
                name="attempts_with_answer",
            )
        ]

    def __str__(self) -> str:
        return f"{self.delivery_id} #{self.number}"


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    deliveries: list[Delivery]
    total: int


def deliveries_of(workspace_id: UUID, environment: str) -> QuerySet[Delivery]:
    """Return the deliveries with their events, without the payloads."""
    return (
        Delivery.objects.filter(workspace=workspace_id, environment=environment)
        .select_related("event")
        .defer("event__payload")
    )


@force_custom_plan()
def list_deliveries(
    workspace_id: UUID,
    environment: str,
    *,
    event: str | None = None,
    status: str | None = None,
    page: int,
    size: int,
) -> DeliveryPage:
    """Return one page of the deliveries, and their total number."""
    found = deliveries_of(workspace_id, environment)
    if event:
        found = found.filter(name=event)
    if status:
        found = found.filter(status=status)
    first = page * size
    # Ids grow with time, and the index is sorted by them.
    deliveries = list(found.order_by("-event_id")[first : first + size])
    # After a page that is not full the total is known without a count.
    total = first + len(deliveries)
    if len(deliveries) == size or (first and not deliveries):
        total = found.order_by().count()
    return DeliveryPage(deliveries, total)
