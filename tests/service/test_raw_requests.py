"""Requests that no ordinary client sends, over plain sockets."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.world.clients import person

STALLED = 12


@pytest.fixture(autouse=True)
def web(service):
    service.start_web()


def send(service, head: str, body: bytes = b"") -> socket.socket:
    raw = socket.create_connection(("127.0.0.1", service.port), timeout=60)
    raw.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
    return raw


def answer(raw: socket.socket) -> tuple[int, dict]:
    with raw, raw.makefile("rb") as stream:
        status = int(stream.readline().split()[1])
        length = 0
        while (line := stream.readline().strip()) and line:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return status, json.loads(stream.read(length) or b"{}")


def post(client, path: str, *headers: str) -> str:
    return "\n".join(
        [
            f"POST /api/v1{path} HTTP/1.1",
            "Host: localhost",
            f"Authorization: Bearer {client.key}",
            "Content-Type: application/json",
            *headers,
        ]
    )


@pytest.fixture
def stalled(service, client) -> Iterator[None]:
    """Connect clients that begin a body and then send nothing more."""
    with ExitStack() as stack:
        for _ in range(STALLED // 2):
            chunked = post(client, "/reports", "Transfer-Encoding: chunked")
            stack.enter_context(send(service, chunked, b"5\r\nab"))
            counted = post(client, "/reports", "Content-Length: 1000")
            stack.enter_context(send(service, counted, b"{"))
        time.sleep(0.3)
        yield


def test_stalled_clients_delay_no_other(client, stalled):
    started_at = time.monotonic()

    assert client.get("/reports").status_code == 200

    # They stall for longer.
    assert time.monotonic() - started_at < 10


def test_announced_too_large_body_is_refused_at_once(service, client):
    head = post(client, "/reports", "Content-Length: 3000000000")

    status, problem = answer(send(service, head))

    assert (status, problem["code"]) == (413, "body-too-large")


def test_chunked_body_is_read(service, client):
    head = post(client, "/reports", "Transfer-Encoding: chunked")

    status, problem = answer(send(service, head, b'8\r\n{"a": 1}\r\n0\r\n\r\n'))

    assert status == 400
    assert {e["pointer"] for e in problem["errors"]} == {"#/a", "#/reports"}


@pytest.mark.parametrize(
    ("id", "body"), [("no-size", b"zz\r\n"), ("too-long", b'3\r\n{"a\r\nxyz\r\n')]
)
def test_malformed_chunks_are_refused_and_logged(service, client, id, body):
    chunked = "Transfer-Encoding: chunked"
    head = post(client, "/reports", chunked, f"X-Request-Id: {id}")

    status, problem = answer(send(service, head, body))

    assert (status, problem["code"]) == (400, "malformed-body")
    assert f'"request_id":"{id}"' in service.log()


def test_stranger_with_a_large_body_is_answered_before_it_is_read(service, client):
    head = post(client, "/reports", "Content-Length: 2000000")

    status, problem = answer(send(service, head.replace(client.key, "made-up")))

    assert (status, problem["code"]) == (401, "invalid-api-key")


def test_bodies_of_strangers_leave_room_for_orders(service, client):
    head = (
        "POST /my-data HTTP/1.1\nHost: localhost\nContent-Length: {}\n"
        "Content-Type: application/x-www-form-urlencoded"
    )
    with ExitStack() as stack:
        for size in [9_900_001] * 26 + [65_000] * 40:
            raw = stack.enter_context(send(service, head.format(size)))
            raw.settimeout(2)
            # The server stops to read what is larger than the form.
            with suppress(OSError):
                raw.sendall(b"x" * (size - 1))
        quote = client.post("/reports/quote", {"reports": [person()] * 200})

    assert quote.status_code == 200, quote.text


def test_body_in_another_coding_is_refused(service, client):
    head = post(client, "/reports", "Transfer-Encoding: gzip, chunked")

    status, problem = answer(send(service, head, b'7\r\n{"a":1}\r\n0\r\n\r\n'))

    assert (status, problem["code"]) == (415, "unsupported-media-type")


@pytest.mark.parametrize(
    "head",
    [
        f"GET /api/v1/reports HTTP/1.1\nHost: localhost\nX-Large: {'a' * 10_000_000}",
        f"GET /api/v1/reports?search={'a' * 70_000} HTTP/1.1\nHost: localhost",
    ],
    ids=["header", "query"],
)
def test_requests_refused_by_the_server_get_an_answer(service, client, head):
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as raw:
        try:
            raw.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n")
            refused = raw.recv(64)
        except ConnectionError:
            refused = b""

    assert not refused or int(refused.split()[1]) in {414, 431}
    assert client.get("/reports").status_code == 200
