"""Sending letters, and where they went."""

import socket
import sys
import time

import pytest

from tests.world.receiver import lookup_here
from webhooks.sender import Sender, WebhookRequest

HEADERS = {"webhook-id": "evt_1"}


@pytest.fixture
def post(receiver):
    with Sender(lookup_here) as post:
        yield post


@pytest.fixture
def hurried(receiver, settings):
    settings.WEBHOOK_TIMEOUT_SECONDS = 0.5
    with Sender(lookup_here) as post:
        yield post


def answers(post, *urls, body=b"{}", seconds=10):
    """The answers to letters to these, in their order."""
    post.send(
        (number, WebhookRequest(url, body, HEADERS, lane=number))
        for number, url in enumerate(urls)
    )
    found = {}
    end = time.monotonic() + seconds
    while len(found) < len(urls):
        assert time.monotonic() < end, "not answered in time"
        found |= post.answers(0.2)
    assert post.answers(0) == []
    return [found[number] for number in range(len(urls))]


def answer(post, url, **options):
    [only] = answers(post, url, **options)
    return only


def at(*addresses):
    """A lookup that answers with the next of these each time; and how often it did."""
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


# Where sockets were connected to while it is a list. A hook stays for ever.
_connects = None


def _note_connect(event, args):
    if event == "socket.connect" and _connects is not None:
        host, port, *_ = args[1]
        _connects.append((host, port))
        if host != "127.0.0.1":
            raise ConnectionRefusedError("tests stay on this machine")


sys.addaudithook(_note_connect)


@pytest.fixture
def connects():
    """The addresses that were connected to; those elsewhere refuse."""
    global _connects
    _connects = []
    yield _connects
    _connects = None
