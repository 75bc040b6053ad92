"""Recording events, in the transaction that causes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from verification.ids import uuid7
from verification.tables import Rows
from webhooks.models import Event


@dataclass(frozen=True, slots=True)
class Happening:
    """An event to be; of two with the same name and cause the second is refused."""

    name: Event.Name
    cause: str
    workspace_id: UUID
    environment: str
    report_id: UUID | None
    data: dict[str, Any]


def event_rows(happenings: Iterable[Happening], at: datetime) -> Rows:
    columns = [
        "id",
        "workspace_id",
        "environment",
        "name",
        "cause",
        "report_id",
        "payload",
        "created_at",
    ]
    return Rows(
        Event,
        columns,
        [
            (
                uuid7(),
                h.workspace_id,
                h.environment,
                h.name.value,
                h.cause,
                h.report_id,
                h.data,
                at,
            )
            for h in happenings
        ],
    )
