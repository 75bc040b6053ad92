"""Clients that send their bodies byte by byte, and an identity provider that hangs."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import requests

from tests.fakes.identity_provider import make_provider

SLOW = 48
HEAD = (
    "POST /c/{token}/confirm HTTP/1.1\r\nHost: localhost\r\n"
    "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 5000\r\n\r\nda"
)


@pytest.fixture
def slow(service, client):
    """Open 48 connections that have sent two bytes of a form of 5,000."""
    service.start_web()
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_connection(("127.0.0.1", service.port)))
            for _ in range(SLOW)
        ]
        for one in sockets:
            one.sendall(HEAD.format(token="x" * 40).encode())
        time.sleep(0.5)
        yield sockets


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/", "/api/v1/reports"])
def test_slow_clients_delay_no_other(service, client, slow, path):
    begun_at = time.monotonic()
    headers = {"Authorization": f"Bearer {client.key}"}

    for _ in range(5):
        answer = requests.get(f"{service.url}{path}", headers=headers, timeout=60)
        assert answer.status_code in {200, 503 if path == "/readyz" else 200}

    assert time.monotonic() - begun_at < 15


@pytest.mark.slow
def test_slow_clients_get_a_page_at_the_deadline(service, slow):
    statuses = set()
    for one in slow:
        one.settimeout(60)
        answer = one.recv(65536).decode()
        status, headers = answer.split("\r\n", 1)
        statuses.add(code := status.split()[1])
        assert "content-security-policy" in headers.lower()
        # A busy machine refuses some of them at once, and in brief.
        assert code == "503" or "x-request-id" in headers.lower()
    assert statuses in ({"408"}, {"408", "503"})


@pytest.mark.slow
def test_identity_provider_that_hangs_delays_no_other(service, client):
    headers = {"Authorization": f"Bearer {client.key}"}
    definitions = f"{service.url}/api/v1/checks/definitions"
    # It takes connections and answers none.
    with socket.create_server(("127.0.0.1", 0), backlog=64) as provider:
        setting = make_provider(
            issuer=f"http://localhost:{provider.getsockname()[1]}", private=True
        ).model_dump(mode="json", exclude={"secret"})
        variables = {
            "IDENTITY_PROVIDERS": json.dumps([setting]),
            "IDENTITY_SECRET_BANK": "secret",
        }
        with (
            service.changed(jobs=False, **variables),
            ThreadPoolExecutor(20) as strangers,
        ):
            begun = [
                strangers.submit(
                    requests.post,
                    f"{service.url}/accounts/login/bank/logout/",
                    {"logout_token": "x"},
                    timeout=60,
                )
                for _ in range(20)
            ]
            provider.settimeout(30)
            provider.accept()[0].close()
            answers = [
                requests.get(definitions, headers=headers, timeout=60) for _ in range(5)
            ]
            assert {one.result().status_code for one in begun} == {503}
    assert [answer.status_code for answer in answers] == [200] * 5
