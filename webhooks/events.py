"""Record events in the transaction that causes them, and write their bodies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from verification.db.bulk_insert import Rows
from verification.db.ids import uuid7
from verification.jobs.queue import notify_on_commit
from verification.values.wire import utc_text
from webhooks.models import Event


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to record. The database refuses a second one of the same cause."""

    name: Event.Name
    cause: str
    workspace_id: UUID
    environment: str
    report_id: UUID | None
    data: dict[str, Any]


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
            "payload": event.data,
            "created_at": at,
        }
        for event in events
    ]
    return Rows(Event, rows, then=notify_on_commit)
