"""`vrf listen` pulls events, signs them again, and posts them to this machine."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

import httpx

from . import Client, ConnectionFailed, Event, Problem
from ._requests import Request
from ._stored import Place
from .webhooks import sign

# Events hold personal data: they do not leave the machine.
HOSTS = {"localhost", "127.0.0.1", "::1"}
TRIES = 5
SECONDS = 15.0
PAUSE_SECONDS = 5.0


def listen(client: Client, url: str, names: Sequence[str]) -> None:
    """Post each event until the user interrupts. The next call goes on from there."""
    url = local_url(url)
    place = Place(client.settings)
    if place.cursor is None:
        place.move(newest_cursor(client))
    _say(f"Forwarding to {url}; the signing secret is {place.secret}")
    with httpx.Client(timeout=SECONDS, trust_env=False) as receiver:
        while True:
            try:
                for event in client.events.follow(
                    cursor=place.cursor, types=names, store=place.move
                ):
                    _forward(receiver, url, event, place.secret)
            except ConnectionFailed as error:
                _say(f"{error}; trying again")
                time.sleep(PAUSE_SECONDS)
            except Problem as problem:
                if problem.code == "cursor-expired":
                    _say(
                        "Events after the last one are deleted; going on with new ones."
                    )
                    place.move(newest_cursor(client))
                elif problem.status == 429 or problem.status >= 500:
                    _say(f"{problem}; trying again")
                    time.sleep(max(PAUSE_SECONDS, problem.retry_after or 0.0))
                else:
                    raise


def local_url(text: str) -> str:
    """Return the URL of a receiver on this machine; `text` may lack the scheme."""
    try:
        url = httpx.URL(text if "://" in text else f"http://{text}")
    except httpx.InvalidURL as error:
        raise ValueError(f"{text}: {error}") from error
    if url.scheme not in {"http", "https"} or url.host not in HOSTS:
        raise ValueError("events are forwarded to http on localhost only")
    return str(url)


def newest_cursor(client: Client) -> str:
    """Return the cursor after which new events come.

    The time comes from the service, as this machine's clock may be wrong. A proxy's
    clock may be up to a minute ahead.
    """
    now = client.send(Request("GET", "/api/v1/me", _sent_at))
    since = now - timedelta(minutes=1)
    page = client.events.list(since=since, size=200)
    while page.has_more:
        page = client.events.list(cursor=page.next_cursor, since=since, size=200)
    return page.next_cursor


def _sent_at(response: httpx.Response) -> datetime:
    return parsedate_to_datetime(response.headers["Date"])


def _forward(receiver: httpx.Client, url: str, event: Event, secret: str) -> None:
    payload = {"event": event.name, "timestamp": event.timestamp, "data": event.data}
    body = json.dumps(payload).encode()
    for attempt in range(1, TRIES + 1):
        sent = str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            "webhook-id": event.id,
            "webhook-timestamp": sent,
            "webhook-signature": sign(event.id, sent, body, secret),
        }
        try:
            response = receiver.post(url, content=body, headers=headers)
            outcome = str(response.status_code)
        except httpx.RequestError as error:
            outcome = type(error).__name__
        _say(f"{event.name} {event.id}: {outcome}")
        if outcome.startswith("2"):
            return
        if attempt < TRIES:
            time.sleep(2 ** (attempt - 1))
    _say(f"{event.name} {event.id}: given up after {TRIES} attempts")


def _say(text: str) -> None:
    # Without a buffer, so that a file gets each line at once, too.
    print(text, flush=True)
