"""Compare the examples and rules of `docs/client/webhooks.md` with the service."""

import copy
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from django.conf import settings
from django.utils.timezone import now

from tests.docs.guides import create_test_key, endless_sample, run_command
from tests.world.clients import Api
from tests.world.deliveries import SECRET, configure_receiver
from tests.world.service import Service, free_port
from verification.api.events import EVENTS, EXAMPLES
from verification.api.examples import read_examples
from verification.db import breaker
from webhooks import attempts, events, health
from webhooks.events import envelope
from webhooks.models import Event
from webhooks.redelivery import TESTS_PER_MINUTE
from webhooks.sender import sign

PAGE = (settings.BASE_DIR / "docs" / "client" / "webhooks.md").read_text()
LABELS = re.findall(r"^- `([a-z]+\.[a-z.]+)`: (.+)$", PAGE, re.MULTILINE)
COMMANDS = re.findall(r"^```sh\n(curl .*?)^```", PAGE, re.MULTILINE | re.DOTALL)
RECEIVER = endless_sample("docs/client/webhooks.md", "python", "serve_forever")
RENDERED = [
    "report.created",
    "report.ready",
    "report.failed",
    "check.completed",
    "check.failed",
    "webhook.test",
]
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def comparable(value: Any, ids: dict[str, str] | None = None) -> Any:
    """Replace values that differ between runs; equal ids stay equal."""
    ids = {} if ids is None else ids
    if isinstance(value, dict):
        return {
            name: "some" if name == "durationMs" else comparable(member, ids)
            for name, member in value.items()
        }
    if isinstance(value, list):
        return [comparable(item, ids) for item in value]
    if isinstance(value, str) and ID.fullmatch(value):
        return ids.setdefault(value, f"id {len(ids)}")
    if isinstance(value, str) and TIME.fullmatch(value):
        return "a time"
    return value


@pytest.fixture
def raised(api: Api) -> dict[str, Event]:
    """Return {event name: event} for the reports of the examples."""
    configure_receiver(api.workspace)
    taken = read_examples()["parts"]["create-request"]
    refused = copy.deepcopy(taken)
    refused["reports"][0]["subject"]["idNumber"] = "90000008"
    for body in (taken, refused):
        assert api.post("/reports", body).status_code == 201
    api.work()
    assert api.post("/webhooks/test").status_code == 202
    return {event.name: event for event in Event.objects.order_by("-id")}


@pytest.mark.slow
def test_example_equals_what_the_service_sends(raised: dict[str, Event]):
    for name in RENDERED:
        sent = json.loads(envelope(raised[name]))

        assert comparable(sent) == comparable(EXAMPLES[name]), name
        assert list(sent) == list(EXAMPLES[name]), name


def test_sent_event_has_the_documented_shape(raised: dict[str, Event]):
    for name in RENDERED:
        sent = json.loads(envelope(raised[name]))

        read = EVENTS[name].model_validate(sent)

        assert read.model_dump(mode="json", by_alias=True) == sent, name


def test_page_lists_all_events():
    assert Event.Name.choices == LABELS


def test_rules_of_the_page_match_the_code():
    def words(seconds: float) -> str:
        for unit, size in (("h", 3600), ("min", 60)):
            if seconds >= size:
                return f"{seconds / size:g} {unit}"
        return f"{seconds:g} s"

    assert " · ".join(words(wait) for wait in attempts.RETRY_DELAYS) in PAGE
    assert attempts.JITTER == 0.2
    assert "give or take 20 %" in PAGE
    assert len(attempts.RETRY_DELAYS) + 1 == 10
    assert settings.WEBHOOK_TIMEOUT_SECONDS == 15
    assert (health.NOTIFIES_AT, breaker.FAILURE_THRESHOLD) == (4, 10)
    assert (health.DISABLE_AFTER.days, health.MIN_FAILURES_TO_DISABLE) == (5, 10)
    assert events.RETENTION.days == 30
    assert TESTS_PER_MINUTE == 5


class Running:
    """The page's receiver, which runs in a process of its own."""

    def __init__(self) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", RECEIVER.replace("8080", str(port))],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def post(self, event: Event, secret: str) -> int | None:
        """Return the status of the receiver's answer, or None if it does not answer."""
        body, at = envelope(event), int(now().timestamp())
        headers = {
            "webhook-id": str(event.pk),
            "webhook-timestamp": str(at),
            "webhook-signature": sign([secret], str(event.pk), at, body),
        }
        deadline = time.monotonic() + 90
        while True:
            try:
                answer = requests.post(self.url, body, headers=headers, timeout=60)
            except requests.ConnectionError as e:
                starting = "refused" in str(e) and time.monotonic() < deadline
                if not starting:
                    return None
                time.sleep(0.05)
            else:
                return answer.status_code

    def stop(self) -> list[str]:
        """Return the lines that it printed."""
        if self.process.poll() is not None:
            return []
        self.process.kill()
        return self.process.communicate()[0].splitlines()


@pytest.fixture
def receiver() -> Iterator[Running]:
    running = Running()
    yield running
    running.stop()


def test_receiver_takes_signed_events_once(raised: dict[str, Event], receiver: Running):
    ready, failed = raised["report.ready"], raised["report.failed"]

    assert receiver.post(ready, SECRET) == 204
    assert receiver.post(ready, SECRET) == 204
    assert receiver.post(failed, "not-the-secret-at-all") is None
    assert receiver.post(failed, SECRET) == 204

    printed = [line.split()[0] for line in receiver.stop()]
    assert printed == ["report.ready", "report.failed"]


def test_receiver_is_as_short_as_the_page_says():
    assert len([line for line in RECEIVER.splitlines() if line.strip()]) <= 15


def test_commands_of_the_page_work(service: Service):
    configure, test, pull = COMMANDS
    key = create_test_key(service)
    service.start_web()

    configuration = run_command(configure, service, KEY=key)
    example = read_examples()["operations"]["configureWebhooks"]["request"]
    assert configuration["enabledEvents"] == example["enabledEvents"]
    sent = run_command(test, service, KEY=key)
    assert sent["event"] == "webhook.test"
    (pulled,) = run_command(pull, service, KEY=key)["content"]
    assert pulled["id"] == sent["id"]
