"""What tests of deliveries do and look at."""

from typing import Any
from uuid import uuid4

from django.db.models import F
from django.utils.timezone import now

from verification.db.bulk_insert import insert
from webhooks.events import NewEvent, event_rows
from webhooks.models import Attempt, Configuration, Delivery, Event
from workspaces.models import Workspace

READY = Event.Name.REPORT_READY


def happen(
    workspace: Workspace, events: int = 1, name: Event.Name = READY
) -> list[Any]:
    """Record events; their ids."""
    rows = event_rows(
        [
            NewEvent(name, str(uuid4()), workspace.pk, "sandbox", None, {"n": n})
            for n in range(events)
        ],
        now(),
    )
    insert(rows)
    return [row["id"] for row in rows.records]


def let_time_pass() -> None:
    """Whatever waits for its time, its receiver's rest or a lease is due now."""
    waiting = Delivery.objects.filter(next_attempt_at__isnull=False)
    waiting.update(next_attempt_at=now())
    waiting.filter(leased_until__isnull=False).update(leased_until=now())
    Configuration.objects.filter(resting_until__isnull=False).update(
        resting_until=now()
    )


def only_delivery(**fields: Any) -> Delivery:
    return Delivery.objects.get(**fields)


def statuses() -> dict[str, int]:
    """status -> how many deliveries have it"""
    found: dict[str, int] = {}
    for status in Delivery.objects.values_list("status", flat=True):
        found[status] = found.get(status, 0) + 1
    return found


def attempts() -> list[tuple[int, int | None, str]]:
    """(number, HTTP status, error) of every attempt, oldest first."""
    found = Attempt.objects.order_by("started_at", "number", "id")
    return list(found.values_list("number", "status_code", "error"))


def age(**ages: Any) -> None:
    """Move what is known of a failing receiver so far into the past."""
    for name, by in ages.items():
        Configuration.objects.update(**{name: F(name) - by})
