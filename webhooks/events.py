"""Record events in the transaction that causes them, write their bodies, purge them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import orjson
from django.db import connection

from verification.db.bulk_insert import Rows, insert
from verification.db.ids import uuid7
from verification.jobs.claims import execute_in_batches
from verification.jobs.queue import job, notify_on_commit
from verification.values.clock import now
from verification.values.local_time import utc_text
from verification.values.shapes import Shape
from webhooks.models import Event


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
    if event.payload is None:
        raise ValueError("the payload was purged")
    return orjson.dumps(
        {
            "event": event.name,
            "timestamp": utc_text(event.created_at),
            "data": event.payload,
        }
    )


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


RETENTION = timedelta(days=30)
# A delivery to a disabled configuration fails after a month.
GIVE_UP = """
UPDATE webhooks_delivery
SET status = 'FAILED', next_attempt_at = NULL, leased_until = NULL
WHERE event_id IN (
    SELECT event_id FROM webhooks_delivery
    WHERE next_attempt_at IS NOT NULL AND created_at < %(before)s
    LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
"""
ERASE_SECRETS = """
UPDATE webhooks_configuration
SET previous_secret = NULL, previous_secret_ends_at = NULL
WHERE previous_secret_ends_at < statement_timestamp()
"""
ERASE_PAYLOADS = """
UPDATE webhooks_event SET payload = NULL WHERE id IN (
    SELECT id FROM webhooks_event WHERE payload IS NOT NULL AND created_at < %(before)s
    ORDER BY created_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
"""
ERASE_ANSWERS = """
UPDATE webhooks_attempt SET answer = NULL WHERE id IN (
    SELECT id FROM webhooks_attempt WHERE answer IS NOT NULL AND started_at < %(before)s
    ORDER BY started_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
"""


@job
def purge_events() -> None:
    """Erase the content of events and answers that are older than `RETENTION`."""
    before = now() - RETENTION
    with connection.cursor() as cursor:
        cursor.execute(ERASE_SECRETS)
    for statement in (GIVE_UP, ERASE_PAYLOADS, ERASE_ANSWERS):
        execute_in_batches(statement, before=before)
