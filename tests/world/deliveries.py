"""Configurations, events and deliveries in any state; nothing is sent."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from django.db.models import F
from django.utils.timezone import now

from tests.world.clients import Api, person
from verification.backoffice import audit
from verification.db.bulk_insert import insert
from verification.values.shapes import Shape
from webhooks.configuration import configure, remove
from webhooks.events import NewEvent, event_rows
from webhooks.models import Attempt, Configuration, Delivery, Event
from workspaces.models import Workspace

URL = "https://hooks.acacia.test/verification"
SECRET = "correct-horse-battery-staple"
ALL_EVENTS = [name for name in Event.Name.values if name != "webhook.test"]


def configure_receiver(
    workspace: Workspace, url: str = URL, environment: str = "sandbox", **changes: Any
) -> Configuration:
    given = {"enabled": True, "events": ALL_EVENTS, "secret": SECRET}
    fields = {**given, "actor": audit.SERVICE, **changes}
    return configure(workspace.pk, environment, url=url, **fields)


def remove_receiver(workspace: Workspace) -> None:
    remove(workspace.pk, "sandbox", audit.SERVICE)


def record_delivery(api: Api, **fields: Any) -> Delivery:
    """Create a draft; return the delivery of its event. Needs a configuration."""
    made = api.create(person(), draft=True)
    delivery = Delivery.objects.get(event__report_id=made["id"])
    return update_delivery(delivery, **fields) if fields else delivery


def update_delivery(delivery: Delivery, **fields: Any) -> Delivery:
    Delivery.objects.filter(pk=delivery.pk).update(**fields)
    delivery.refresh_from_db()
    return delivery


def ended_fields(status: str, **more: Any) -> dict[str, Any]:
    """Return the fields of a delivery that ended after ten attempts."""
    return {
        "status": status,
        "failures": 10,
        "attempts": 10,
        "next_attempt_at": None,
        "delivered_at": now() if status == "DELIVERED" else None,
        **more,
    }


def retrying_fields(at: datetime | None = None, **more: Any) -> dict[str, Any]:
    later = at or now() + timedelta(hours=1)
    return {"status": "RETRYING", "failures": 3, "next_attempt_at": later, **more}


READY = Event.Name.REPORT_READY


class Numbered(Shape):
    n: int


def record_events(
    workspace: Workspace, events: int = 1, name: Event.Name = READY
) -> list[Any]:
    """Record events; return their ids."""
    rows = event_rows(
        [
            NewEvent(name, str(uuid4()), workspace.pk, "sandbox", None, Numbered(n=n))
            for n in range(events)
        ],
        now(),
    )
    insert(rows)
    return [row["id"] for row in rows.records]


def get_delivery(**fields: Any) -> Delivery:
    return Delivery.objects.get(**fields)


def delivery_statuses() -> dict[str, int]:
    """Return the number of deliveries of each status."""
    return Counter(Delivery.objects.values_list("status", flat=True))


def attempt_results() -> list[tuple[int, int | None, str]]:
    """Return (number, HTTP status, error) of every attempt, oldest first."""
    found = Attempt.objects.order_by("started_at", "number", "id")
    return list(found.values_list("number", "status_code", "error"))


def age_failures(**ages: Any) -> None:
    """Move times of a failing receiver into the past."""
    for name, by in ages.items():
        Configuration.objects.update(**{name: F(name) - by})


CONFIG = {"url": URL, "enabledEvents": ["report.ready"], "secret": SECRET}


def put_configuration(api: Api, **changes: Any) -> dict[str, Any]:
    body = {k: v for k, v in {**CONFIG, **changes}.items() if v is not ...}
    answer = api.post("/webhooks/config", body)
    assert answer.status_code == 200, answer.content
    return answer.json()


def list_delivery_ids(api: Api, **query: Any) -> list[str]:
    answer = api.get("/webhooks/deliveries", **query)
    assert answer.status_code == 200, answer.content
    return [delivery["id"] for delivery in answer.json()["content"]]
