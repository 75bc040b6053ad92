"""Record events in the transaction that causes them, write their bodies, purge them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from verification.db.bulk_insert import Rows, insert
from verification.db.ids import uuid7
from verification.jobs.claims import delete_in_batches, update_in_batches
from verification.jobs.queue import job, notify_on_commit
from verification.values.clock import now
from verification.values.local_time import utc_text
from verification.values.masking import UNMASKED_KEYS, mask
from verification.values.shapes import Shape
from webhooks.models import Attempt, Configuration, Delivery, DeliveryStatus, Event

RETENTION = timedelta(days=30)
# Members of an event that reveal nothing about its subject: all others are masked.
UNMASKED = UNMASKED_KEYS | {
    "event",
    "timestamp",
    "id",
    "workspaceId",
    "reportId",
    "status",
    "createdAt",
    "selfVerification",
    "paymentMode",
    "consentStatus",
    "checksRequested",
    "package",
    "reference",
    "checkId",
    "checkName",
    "checkType",
    "checkResultId",
    "checkDefinitionId",
    "resultId",
    "definitionId",
    "displayName",
    "description",
    "category",
    "executedAt",
    "durationMs",
    "reused",
    "riskScore",
    "riskLevel",
    "monitoringId",
    "kind",
    "read",
    "actioned",
}


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to record. The database refuses a second one of the same cause."""

    name: Event.Name
    cause: str
    workspace_id: UUID
    environment: str
    report_id: UUID | None
    data: Shape


def envelope(event: Event) -> bytes:
    """Return the body of the event's deliveries: the same bytes every time.

    Raises ValueError when the payload was purged.
    """
    return orjson.dumps(envelope_members(event))


def envelope_members(event: Event) -> dict[str, Any]:
    """Return what clients read of an event. Raises ValueError as `envelope`."""
    if event.payload is None:
        raise ValueError("the payload was purged")
    return {
        "event": event.name,
        "timestamp": utc_text(event.created_at),
        "data": event.payload,
    }


def masked_members(event: Event) -> dict[str, Any]:
    """Return what clients read of an event, with the details of people masked.

    Raises ValueError as `envelope`.
    """
    masked: dict[str, Any] = mask(envelope_members(event), unmasked=UNMASKED)
    return masked


def event_rows(events: Iterable[NewEvent], at: datetime) -> Rows:
    """Return the rows of the events. A trigger creates the deliveries."""
    rows = [
        {
            "id": uuid7(),
            "workspace_id": event.workspace_id,
            "environment": event.environment,
            "name": event.name.value,
            "cause": event.cause,
            "report_id": event.report_id,
            "payload": event.data.model_dump(mode="json", by_alias=True),
            "created_at": at,
        }
        for event in events
    ]
    return Rows(Event, rows)


def record_events(events: Iterable[NewEvent], at: datetime) -> None:
    """Record events in the caller's transaction, and wake the clusters after it."""
    insert(event_rows(events, at))
    notify_on_commit()


@job
def purge_events() -> None:
    """Erase the content of events and answers that are older than `RETENTION`.

    An event that no receiver was to get is deleted, because nobody can read it any
    more. Deliveries stay: they say who received a report.
    """
    before = now() - RETENTION
    replaced = Configuration.objects.filter(previous_secret_ends_at__lt=Now())
    replaced.update(
        previous_secret=None, previous_secret_ends_at=None, older_secrets=None
    )
    # A delivery to a disabled configuration fails after a month.
    waiting = Delivery.objects.filter(
        next_attempt_at__isnull=False, created_at__lt=before
    )
    failed = DeliveryStatus.FAILED
    update_in_batches(waiting, status=failed, next_attempt_at=None, leased_until=None)
    events = Event.objects.filter(payload__isnull=False, created_at__lt=before)
    events = events.order_by("created_at")
    delivered = Exists(Delivery.objects.filter(pk=OuterRef("pk")))
    delete_in_batches(events.exclude(delivered))
    update_in_batches(events, payload=None)
    attempts = Attempt.objects.filter(answer__isnull=False, started_at__lt=before)
    update_in_batches(attempts.order_by("started_at"), answer=None)
