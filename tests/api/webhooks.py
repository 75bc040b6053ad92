"""Requests of a client that configures webhooks and lists deliveries."""

from typing import Any

from tests.webhooks.deliveries import SECRET, URL
from tests.world.clients import Api

CONFIG = {"url": URL, "enabledEvents": ["report.ready"], "secret": SECRET}


def configure(api: Api, **changes: Any) -> dict[str, Any]:
    body = {k: v for k, v in {**CONFIG, **changes}.items() if v is not ...}
    answer = api.post("/webhooks/config", body)
    assert answer.status_code == 200, answer.content
    return answer.json()


def listed(api: Api, **query: Any) -> list[str]:
    answer = api.get("/webhooks/deliveries", **query)
    assert answer.status_code == 200, answer.content
    return [delivery["id"] for delivery in answer.json()["content"]]
