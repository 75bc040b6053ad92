"""Configurations and deliveries as tests want them; nothing is sent."""

from datetime import datetime, timedelta
from typing import Any

from django.utils.timezone import now

from tests.world.clients import Api, person
from webhooks.configuration import configure
from webhooks.models import Configuration, Delivery, Event
from workspaces.models import Workspace

URL = "https://hooks.acacia.test/verification"
SECRET = "correct-horse-battery-staple"
ALL = [name for name in Event.Name.values if name != "webhook.test"]


def configured(
    workspace: Workspace, url: str = URL, environment: str = "sandbox", **changes: Any
) -> Configuration:
    fields = {"enabled": True, "events": ALL, "secret": SECRET, **changes}
    return configure(workspace.pk, environment, url=url, **fields)[0]


def recorded(api: Api, **fields: Any) -> Delivery:
    """A delivery of the event of a new draft; the configuration must be there."""
    made = api.create(person(), draft=True)
    delivery = Delivery.objects.get(event__report_id=made["id"])
    return put(delivery, **fields) if fields else delivery


def put(delivery: Delivery, **fields: Any) -> Delivery:
    Delivery.objects.filter(pk=delivery.pk).update(**fields)
    delivery.refresh_from_db()
    return delivery


def ended(status: str, **more: Any) -> dict[str, Any]:
    """Fields of a delivery that ended so, after ten attempts."""
    return {
        "status": status,
        "failures": 10,
        "attempts": 10,
        "next_attempt_at": None,
        "delivered_at": now() if status == "DELIVERED" else None,
        **more,
    }


def waiting(at: datetime | None = None, **more: Any) -> dict[str, Any]:
    later = at or now() + timedelta(hours=1)
    return {"status": "RETRYING", "failures": 3, "next_attempt_at": later, **more}
