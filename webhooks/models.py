"""Events, the receivers' configurations, deliveries and attempts."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q, QuerySet

from verification.db.base import ResultPage, read_page
from verification.db.encryption import EncryptedJSONField
from verification.db.models import DatedRow, Row
from verification.values.clock import now
from workspaces.models import Environment, Workspace


class Event(DatedRow):
    """A fact for receivers, recorded in the transaction that causes it."""

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
        CORRECTION_OPENED = (
            "correction.opened",
            "A subject says that a finding is wrong.",
        )
        CORRECTION_CLOSED = "correction.closed", "A correction was decided."
        REPORT_DECIDED = "report.decided", "A decision about a report counts."
        REPORT_RESTRICTED = "report.restricted", "The subject of a report objected."
        REPORT_ERASED = "report.erased", "The personal data of a report was erased."
        # Every receiver gets it; clients cannot enable or disable it.
        WEBHOOK_TEST = "webhook.test", "A test event was asked for."

    # Events that hold no personal data: the erasure of their report leaves them.
    IMPERSONAL_NAMES = (Name.REPORT_RESTRICTED, Name.REPORT_ERASED)

    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="events", db_index=False
    )
    environment = models.CharField(max_length=10, choices=Environment)
    name = models.CharField(max_length=30, choices=Name)
    # The cause, such as a result and its attempt: one cause makes one event.
    cause = models.CharField(max_length=100)
    report_id = models.UUIDField(null=True, db_index=True)
    payload = EncryptedJSONField(null=True)
    # Set when the report's subject objected: it is not sent again.
    restricted_at = models.DateTimeField(null=True, editable=False)
    # The place in the feed; null until a client reads the feed: `feed.py`.
    listed_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name", "cause"], name="one_event_a_cause")
        ]
        indexes = [
            # The feed, and the events that have no place in it yet.
            models.Index(
                fields=["workspace", "environment", "listed_at", "id"],
                include=["name", "created_at"],
                condition=Q(payload__isnull=False, restricted_at=None),
                name="events_to_pull",
            ),
            # The purge of payloads.
            models.Index(
                fields=["created_at"],
                condition=Q(payload__isnull=False),
                name="events_with_payload",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.id}"


class SimulatedAnswer(models.TextChoices):
    """An answer of a receiver of the sandbox that is sent no request."""

    ERROR = "500", "The receiver answered 500."
    GONE = "410", "The receiver answered 410 Gone."
    TIMEOUT = "timeout", "The receiver did not answer in time."


class Configuration(DatedRow):
    """The receiver of a workspace's events in one environment, and its failures."""

    class DisabledReason(models.TextChoices):
        GONE = "GONE", "The receiver answered 410 Gone."
        FAILING = "FAILING", "Nothing was delivered for five days."

    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="webhook_configurations"
    )
    environment = models.CharField(max_length=10, choices=Environment)
    url = models.CharField(max_length=2048)
    enabled = models.BooleanField()
    enabled_events = ArrayField(models.CharField(max_length=30, choices=Event.Name))
    secret = EncryptedJSONField()
    # Requests are signed with this secret, too, until `previous_secret_ends_at`.
    previous_secret = EncryptedJSONField(null=True)
    previous_secret_ends_at = models.DateTimeField(null=True, editable=False)
    # Those replaced before it: the end of each, in Unix seconds, by secret.
    older_secrets = EncryptedJSONField(null=True)
    # Failed attempts since the last success, and the time of the first of them.
    failures_in_row = models.PositiveIntegerField(default=0)
    failing_since = models.DateTimeField(null=True, editable=False)
    # The breaker: no delivery is sent before this time, and then one at a time.
    resting_until = models.DateTimeField(null=True, editable=False)
    # Rests of the breaker since the last success.
    rests = models.PositiveSmallIntegerField(default=0, db_default=0)
    # The answer that the sandbox gives in place of the receiver, and to how many more
    # attempts.
    simulated_answer = models.CharField(
        max_length=7, choices=SimulatedAnswer, blank=True, default="", db_default=""
    )
    simulated_left = models.PositiveSmallIntegerField(default=0, db_default=0)
    # Set if the service disabled it, null if the client did.
    disabled_at = models.DateTimeField(null=True, editable=False)
    disabled_reason = models.CharField(max_length=7, choices=DisabledReason, blank=True)
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
                name="answers_are_simulated_in_the_sandbox",
                condition=Q(simulated_left=0) | Q(environment="sandbox"),
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
        """Return the current secret, and the replaced ones that are still valid."""
        return [self.secret, *self.replaced_secrets(at)]

    def replaced_secrets(self, at: datetime) -> dict[str, float]:
        """Return when each replaced secret that is still valid ends, newest first."""
        last_end = self.previous_secret_ends_at
        if last_end is None or last_end <= at:
            return {}
        ends = {self.previous_secret: last_end.timestamp()} | (self.older_secrets or {})
        return {secret: end for secret, end in ends.items() if end > at.timestamp()}


class DeliveryStatus(models.TextChoices):
    PENDING = "PENDING"
    RETRYING = "RETRYING"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"


D = DeliveryStatus


class Delivery(models.Model):
    """One event for one receiver. This table is also the queue of deliveries.

    A trigger creates the delivery with the event, if the receiver has enabled it. A
    delivery is due when `next_attempt_at` has passed. A sender claims it: it moves
    `next_attempt_at` to the end of its lease (`leased_until`) and increments `fence`.
    The sender records its attempt only while the fence is the same, so that a late
    sender overwrites nothing.
    """

    event = models.OneToOneField(
        Event, models.CASCADE, primary_key=True, related_name="delivery"
    )
    # Ended deliveries outlive it. They are many, and no index has them, so a removal
    # neither changes them nor lets a constraint look for them.
    configuration = models.ForeignKey(
        Configuration,
        models.DO_NOTHING,
        null=True,
        related_name="deliveries",
        db_constraint=False,
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
    # Failed attempts of the present schedule. A redelivery starts a new schedule.
    failures = models.PositiveSmallIntegerField(db_default=0)
    # Recorded attempts of all schedules.
    attempts = models.PositiveIntegerField(db_default=0)
    # The number of claims.
    fence = models.PositiveIntegerField(db_default=0)
    next_attempt_at = models.DateTimeField(null=True, editable=False)
    leased_until = models.DateTimeField(null=True, editable=False)
    # The answer of the next attempt, which then sends no request.
    simulated_answer = models.CharField(
        max_length=7, choices=SimulatedAnswer, blank=True, db_default=""
    )
    # The last HTTP status that the receiver answered.
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
            # The claim, which goes from configuration to configuration.
            models.Index(
                fields=["configuration", "next_attempt_at", "event"],
                condition=Q(next_attempt_at__isnull=False),
                name="deliveries_due",
            ),
            # The number of leased deliveries of a configuration.
            models.Index(
                fields=["configuration", "leased_until"],
                condition=Q(leased_until__isnull=False),
                name="deliveries_leased",
            ),
            # The list, newest first: ids grow with time.
            models.Index(
                F("workspace"),
                F("environment"),
                F("event").desc(),
                # The filters of the list
                include=["name", "status"],
                name="deliveries_by_event",
            ),
            # The recovery of failed deliveries.
            models.Index(
                fields=["workspace", "environment", "created_at"],
                condition=Q(status=D.FAILED),
                name="deliveries_failed",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.event_id}"


class Attempt(Row):
    """One request to a receiver, and its answer or error."""

    class Error(models.TextChoices):
        """The reason of an attempt without a valid answer."""

        NAME_UNKNOWN = "NAME_UNKNOWN", "The host name could not be resolved."
        TARGET_BLOCKED = "TARGET_BLOCKED", "The address may not be called."
        NOT_CONNECTED = "NOT_CONNECTED", "No connection could be made."
        NOT_TRUSTED = "NOT_TRUSTED", "The certificate was not accepted."
        TIMED_OUT = "TIMED_OUT", "The answer was not complete in time."
        BROKEN = "BROKEN", "The connection ended before the answer did."
        UNREADABLE = "UNREADABLE", "The stored event could not be read."

    delivery = models.ForeignKey(
        Delivery, models.CASCADE, related_name="attempt_set", db_index=False
    )
    number = models.PositiveIntegerField()
    url = models.CharField(max_length=2048)
    started_at = models.DateTimeField()
    duration_ms = models.PositiveIntegerField()
    status_code = models.PositiveSmallIntegerField(null=True)
    error = models.CharField(max_length=14, choices=Error, blank=True)
    # The first 1 KiB of the body, as text.
    answer = EncryptedJSONField(null=True)

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(
                fields=["delivery", "number"], name="attempts_are_numbered"
            ),
        ]
        indexes = [
            # The purge of answers.
            models.Index(
                fields=["started_at"],
                condition=Q(answer__isnull=False),
                name="attempts_with_answer",
            )
        ]

    def __str__(self) -> str:
        return f"{self.delivery_id} #{self.number}"


def deliveries_of(workspace_id: UUID, environment: str) -> QuerySet[Delivery]:
    """Return the deliveries with their events, without the payloads."""
    return (
        Delivery.objects.filter(workspace=workspace_id, environment=environment)
        .select_related("event")
        .defer("event__payload")
    )


def list_deliveries(
    workspace_id: UUID,
    environment: str,
    *,
    event: str | None = None,
    status: str | None = None,
    report_ids: Collection[UUID] | None = None,
    page: int,
    size: int,
    count_up_to: int | None = None,
) -> ResultPage[Delivery]:
    """Return a page of the deliveries, newest first, and their total number.

    `count_up_to` is the number at which counting stops.
    """
    own = deliveries_of(workspace_id, environment)
    # The index alone gives the ids, so the table is read for this page's rows only.
    # Ids grow with time.
    found = own.order_by("-event_id").values_list("pk", flat=True)
    if event:
        found = found.filter(name=event)
    if status:
        found = found.filter(status=status)
    if report_ids is not None:
        found = found.filter(event__report_id__in=report_ids)
    ids = read_page(found, page, size, count_up_to=count_up_to)
    rows = own.in_bulk(ids.rows)
    return replace(ids, rows=[rows[pk] for pk in ids.rows])
