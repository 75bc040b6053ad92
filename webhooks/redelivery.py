"""Send deliveries again, and send test events."""

from contextlib import suppress
from datetime import datetime
from typing import Any, Literal
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.expressions import CombinedExpression

from verification.db.bulk_insert import insert
from verification.jobs.names import JobName
from verification.jobs.queue import job, notify_on_commit, schedule_job
from verification.values.clock import now
from verification.values.shapes import Shape
from webhooks.configuration import NotConfigured, get_configuration
from webhooks.events import NewEvent, event_rows
from webhooks.models import Configuration, Delivery, DeliveryStatus, Event
from workspaces import rate_limits

# For a workspace in one environment.
TESTS_PER_MINUTE = 5
# More in one transaction would exceed the time of a request.
RECOVERED_AT_ONCE = 10_000
TEST_MESSAGE = "This is a test event: your receiver works when it answers with 2xx."


class TestData(Shape):
    workspace_id: UUID
    test: Literal[True]
    message: str


class ConfigurationDisabled(Exception):
    """The configuration is disabled and receives no deliveries."""


class EventPurged(Exception):
    """The event's payload is purged, so the event cannot be sent again."""


class EventRestricted(Exception):
    """The subject of the event's report objected, so the event is not sent again."""


class TooManyTests(Exception):
    def __init__(self, rate: rate_limits.Rate) -> None:
        self.rate = rate
        super().__init__(f"more than {rate.limit} test events in a minute")


@transaction.atomic
def redeliver(workspace_id: UUID, environment: str, event_id: UUID) -> Delivery:
    """Send a delivery of any status again, on a new schedule.

    A leased delivery stays as it is. Raises NotConfigured,
    ConfigurationDisabled, EventPurged, EventRestricted, and Delivery.DoesNotExist, also
    for a delivery of another workspace.
    """
    deliveries = Delivery.objects.filter(
        workspace=workspace_id, environment=environment
    )
    configuration = check_redeliverable(workspace_id, environment, event_id)
    delivery = deliveries.select_for_update(no_key=True).get(pk=event_id)
    at = now()
    if delivery.leased_until is None or delivery.leased_until <= at:
        deliveries.filter(pk=event_id).update(**_restarted_schedule(configuration, at))
        schedule_job(JobName.SEND_DELIVERIES)
        delivery.refresh_from_db()
    return delivery


@transaction.atomic
def check_redeliverable(
    workspace_id: UUID, environment: str, event_id: UUID
) -> Configuration:
    """Return the delivery's configuration, or raise the errors of `redeliver`."""
    deliveries = Delivery.objects.filter(
        workspace=workspace_id, environment=environment
    )
    if not deliveries.filter(pk=event_id).exists():
        raise Delivery.DoesNotExist
    configuration = _get_enabled_configuration(workspace_id, environment)
    event = Event.objects.get(pk=event_id)
    if event.payload is None:
        raise EventPurged
    if event.restricted_at is not None:
        raise EventRestricted
    return configuration


def failed_deliveries(
    workspace_id: UUID, environment: str, since: datetime | CombinedExpression
) -> QuerySet[Delivery]:
    """Return the failed deliveries since then whose event can be sent again."""
    sendable = Event.objects.filter(
        pk=OuterRef("event_id"), payload__isnull=False, restricted_at=None
    )
    return Delivery.objects.filter(
        Exists(sendable),
        workspace=workspace_id,
        environment=environment,
        status=DeliveryStatus.FAILED,
        created_at__gte=since,
    )


@transaction.atomic
def recover(
    workspace_id: UUID, environment: str, since: datetime, after: UUID | None = None
) -> int:
    """Send all failed deliveries since then again. Returns their number.

    A job goes on where there are more than RECOVERED_AT_ONCE, with those `after` the
    last. Deliveries of purged and restricted events stay failed. Raises NotConfigured
    and ConfigurationDisabled.
    """
    configuration = _get_enabled_configuration(workspace_id, environment)
    failed = failed_deliveries(workspace_id, environment, since)
    if after:
        failed = failed.filter(pk__gt=after)
    # In the order of all who lock several. PostgreSQL checks the status again if
    # another recovery changed the row first.
    locked = failed.order_by("event_id").select_for_update(no_key=True)
    ids = list(locked.values_list("pk", flat=True)[:RECOVERED_AT_ONCE])
    Delivery.objects.filter(pk__in=ids).update(
        **_restarted_schedule(configuration, now())
    )
    if not ids:
        return 0
    schedule_job(JobName.SEND_DELIVERIES)
    if len(ids) < RECOVERED_AT_ONCE:
        return len(ids)
    place = (workspace_id, environment, since.isoformat())
    schedule_job(go_on_recovering, *place, ids[-1])
    # The job needs no number.
    left = 0 if after else failed.filter(pk__gt=ids[-1]).count()
    return len(ids) + left


@job
def go_on_recovering(
    workspace_id: str, environment: str, since: str, after: str
) -> None:
    """Go on with a recovery, unless the configuration was removed or disabled."""
    with suppress(NotConfigured, ConfigurationDisabled):
        start = datetime.fromisoformat(since)
        recover(UUID(workspace_id), environment, start, UUID(after))


def send_test(workspace_id: UUID, environment: str) -> Delivery:
    """Record an event `webhook.test`, which every configuration receives.

    Raises NotConfigured, ConfigurationDisabled, and TooManyTests after five a minute.
    """
    with transaction.atomic():
        _get_enabled_configuration(workspace_id, environment)
    rate = rate_limits.count(
        f"webhook-test:{workspace_id}:{environment}", TESTS_PER_MINUTE
    )
    if rate.exceeded:
        raise TooManyTests(rate)
    return _record_test(workspace_id, environment)


@transaction.atomic
def _record_test(workspace_id: UUID, environment: str) -> Delivery:
    # Checked again: the configuration may have been removed since.
    _get_enabled_configuration(workspace_id, environment)
    event = NewEvent(
        Event.Name.WEBHOOK_TEST,
        str(uuid4()),
        workspace_id,
        environment,
        None,
        TestData(workspace_id=workspace_id, test=True, message=TEST_MESSAGE),
    )
    rows = event_rows([event], now())
    insert(rows)
    notify_on_commit()
    return Delivery.objects.get(pk=rows.records[0]["id"])


def _get_enabled_configuration(workspace_id: UUID, environment: str) -> Configuration:
    configuration = get_configuration(workspace_id, environment)
    if not configuration.enabled:
        raise ConfigurationDisabled
    return configuration


def _restarted_schedule(configuration: Configuration, at: datetime) -> dict[str, Any]:
    return {
        "configuration": configuration,
        "status": DeliveryStatus.PENDING,
        "failures": 0,
        "next_attempt_at": at,
        # A late sender finds the delivery without a lease and records nothing.
        "leased_until": None,
        "delivered_at": None,
    }
