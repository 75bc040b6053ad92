"""Sending again what was sent before, and sending something to try the receiver."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils.timezone import now

from verification.db.bulk_insert import insert
from verification.jobs.queue import schedule_job
from webhooks.configuration import SEND_DUE, get_configuration
from webhooks.events import NewEvent, event_rows
from webhooks.models import Configuration, Delivery, DeliveryStatus, Event
from workspaces import rate_limits

# For a workspace in one environment.
TESTS_PER_MINUTE = 5
TEST_MESSAGE = "This is a test event: your receiver works when it answers with 2xx."


class ConfigurationDisabled(Exception):
    """Nothing is sent to a configuration that is not enabled."""


class EventPurged(Exception):
    """What the event said is kept no longer, so it cannot be sent again."""


class TooManyTests(Exception):
    def __init__(self, rate: rate_limits.Rate) -> None:
        self.rate = rate
        super().__init__(f"more than {rate.limit} test events in a minute")


@transaction.atomic
def redeliver(workspace_id: UUID, environment: str, event_id: UUID) -> Delivery:
    """Send one again, whatever became of it, on a schedule that begins anew.

    One that is being sent at this moment is left alone. Delivery.DoesNotExist for one
    of somebody else; NotConfigured, ConfigurationDisabled and EventPurged.
    """
    theirs = Delivery.objects.filter(workspace=workspace_id, environment=environment)
    configuration = check_redeliverable(workspace_id, environment, event_id)
    delivery = theirs.select_for_update(no_key=True).get(pk=event_id)
    at = now()
    if delivery.leased_until is None or delivery.leased_until <= at:
        theirs.filter(pk=event_id).update(**_restarted_schedule(configuration, at))
        schedule_job(SEND_DUE)
        delivery.refresh_from_db()
    return delivery


@transaction.atomic
def check_redeliverable(
    workspace_id: UUID, environment: str, event_id: UUID
) -> Configuration:
    """Return the configuration that it would go to, or raise what `redeliver` does."""
    theirs = Delivery.objects.filter(workspace=workspace_id, environment=environment)
    if not theirs.filter(pk=event_id).exists():
        raise Delivery.DoesNotExist
    configuration = _get_enabled_configuration(workspace_id, environment)
    if Event.objects.filter(pk=event_id, payload=None).exists():
        raise EventPurged
    return configuration


@transaction.atomic
def recover(workspace_id: UUID, environment: str, since: datetime) -> int:
    """Send all again that was recorded since then and has failed; how many these are.

    Those whose payload is kept no longer stay as they are. NotConfigured and
    ConfigurationDisabled.
    """
    configuration = _get_enabled_configuration(workspace_id, environment)
    kept = Event.objects.filter(pk=OuterRef("event_id"), payload__isnull=False)
    # The status is looked at again where another recovery was faster.
    count = Delivery.objects.filter(
        Exists(kept),
        workspace=workspace_id,
        environment=environment,
        status=DeliveryStatus.FAILED,
        created_at__gte=since,
    ).update(**_restarted_schedule(configuration, now()))
    if count:
        schedule_job(SEND_DUE)
    return count


def send_test(workspace_id: UUID, environment: str) -> Delivery:
    """Record an event `webhook.test`, which is delivered whatever is enabled.

    NotConfigured, ConfigurationDisabled, and TooManyTests after five in a minute.
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
    # Anew: it may have been removed meanwhile.
    _get_enabled_configuration(workspace_id, environment)
    rows = event_rows([_test_event(workspace_id, environment)], now())
    insert(rows)
    return Delivery.objects.get(pk=rows.records[0]["id"])


def _test_event(workspace_id: UUID, environment: str) -> NewEvent:
    return NewEvent(
        Event.Name.WEBHOOK_TEST,
        str(uuid4()),
        workspace_id,
        environment,
        None,
        {"workspaceId": str(workspace_id), "test": True, "message": TEST_MESSAGE},
    )


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
        # A sender that is late finds it without a lease, and records nothing.
        "leased_until": None,
        "delivered_at": None,
    }
