"""Senders, their answers, and the addresses that they connect to."""

import socket
import sys
import time
from functools import cache

import pytest

from tests.world.receiver import lookup_here
from webhooks import sender
from webhooks.sender import RequestProgress, Sender, WebhookRequest

HEADERS = {"webhook-id": "evt_1"}


@pytest.fixture
def post(receiver):
    with Sender(lookup_here) as post:
        yield post


@pytest.fixture
def under_way(monkeypatch):
    """Collect the progress of each request."""
    begun = []

    def begin():
        begun.append(RequestProgress())
        return begun[-1]

    monkeypatch.setattr(sender, "RequestProgress", begin)
    return begun


def move_clock(post, seconds):
    """Move the clock of a sender's loop, by which its deadlines end."""

    def move():
        before = post._loop.time
        post._loop.time = lambda: before() + seconds

    post._loop.call_soon_threadsafe(move)


def send(post, *urls, body=b"{}"):
    """Send a request to each URL, which is numbered by its place."""
    post.send(
        (number, WebhookRequest(url, body, HEADERS, lane=number))
        for number, url in enumerate(urls)
    )


def collect(post, requests):
    """Return the answers to so many requests in the order of their numbers."""
    found = {}
    end = time.monotonic() + 60
    while len(found) < requests:
        assert time.monotonic() < end, "not answered in time"
        found |= post.answers(0.2)
    assert post.answers(0) == []
    return [found[number] for number in range(requests)]


def answers(post, *urls, **options):
    """Send a request to each URL; return the answers in the order of the URLs."""
    send(post, *urls, **options)
    return collect(post, len(urls))


def answer(post, url, **options):
    [only] = answers(post, url, **options)
    return only


def at(*addresses):
    """Return a lookup that gives the next addresses each time, and its calls."""
    rest = list(addresses)
    asked = []

    async def lookup(host, port, **options):
        asked.append(host)
        found = rest.pop(0) if len(rest) > 1 else rest[0]
        return [
            (socket.AF_INET6 if ":" in one else socket.AF_INET, 1, 6, "", (one, port))
            for one in found
        ]

    return lookup, asked


# The addresses of connected sockets, or None if no test collects them.
_connects = None


def _note_connect(event, args):
    if event == "socket.connect" and _connects is not None:
        host, port, *_ = args[1]
        _connects.append((host, port))
        if host != "127.0.0.1":
            raise ConnectionRefusedError("tests stay on this machine")


# An audit hook cannot be removed, and slows all that the process does later.
@cache
def install_hook():
    sys.addaudithook(_note_connect)


@pytest.fixture
def connects():
    """Collect the addresses of connections; refuse addresses of other machines."""
    global _connects
    install_hook()
    _connects = []
    yield _connects
    _connects = None
