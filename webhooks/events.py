"""Recording events in the transaction that causes them, and writing their bodies."""

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
    """An event to be; of two with the same name and cause the second is refused."""

    name: Event.Name
    cause: str
    workspace_id: UUID
    environment: str
    report_id: UUID | None
    data: dict[str, Any]


def envelope(event: Event) -> bytes:
    """The body of each of its deliveries, the same bytes every time.

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


def event_rows(happenings: Iterable[NewEvent], at: datetime) -> Rows:
    """Their rows. The database queues deliveries as they are inserted."""
    rows = [
        {
            "id": uuid7(),
            "workspace_id": h.workspace_id,
            "environment": h.environment,
            "name": h.name.value,
            "cause": h.cause,
            "report_id": h.report_id,
            "payload": h.data,
            "created_at": at,
        }
        for h in happenings
    ]
    return Rows(Event, rows, then=notify_on_commit)
