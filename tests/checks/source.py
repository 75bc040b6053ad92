"""A live source of checks for tests: a provider that calls a server over a socket.

def test_something(live_api, source):
    source.play = lambda asked: (503, {"code": "ACME_DOWN"})
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
import requests

from verification.checks.catalogue import CATALOGUE
from verification.providers import registry
from verification.providers.base import (
    AnswerPending,
    Finding,
    Inquiry,
    Refused,
    Unavailable,
)

Answer = tuple[int, dict[str, Any]]
CLEAR: Answer = (200, {"score": 5})
DOWN: Answer = (503, {})


class Acme:
    """A provider like those of real sources."""

    name: ClassVar[str] = "acme"
    waits_on_network: ClassVar[bool] = True
    repeats_are_free: ClassVar[bool] = True
    countries: ClassVar[frozenset[str]] = frozenset()
    not_told: ClassVar[dict[str, tuple[str, ...]]] = {}

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, inquiry: Inquiry) -> Finding:
        asked = {
            "check": inquiry.check,
            "reference": inquiry.reference,
            "idNumber": inquiry.subject["idNumber"],
        }
        answer = requests.post(self._url, json=asked, timeout=10)
        body = answer.json()
        match answer.status_code:
            case 202:
                raise AnswerPending(datetime.fromisoformat(body["askAt"]))
            case 422:
                raise Refused("ACME_REFUSED", "Acme refused the request.")
            case 503:
                raise Unavailable("ACME_DOWN", "Acme is down.", cause="HTTP_503")
            case 500:
                raise ValueError(f"what is {asked}?")
        return Finding("Found.", body["score"], body.get("details", {}), self.name)


class Source:
    """The server behind Acme. `play` makes the answers; `asked` lists the requests."""

    url: str

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.play: Callable[[dict[str, Any]], Answer] = lambda asked: CLEAR

    def answers(self, *answers: Answer) -> None:
        """Give these answers in turn, and then always the last one."""
        left = list(answers)
        self.play = lambda asked: left.pop(0) if len(left) > 1 else left[0]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def route_all_checks(*names: str) -> dict[str, dict[str, list[str]]]:
    """Return a route with these sources for every check and country."""
    return {entry.name: {"*": list(names)} for entry in CATALOGUE}


@contextmanager
def run_source() -> Iterator[Source]:
    """Run a source on its own socket."""
    source = Source()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            source.asked.append(asked)
            status, body = source.play(asked)
            data = json.dumps(body).encode()
            # The client may not have waited for the answer.
            with suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=[0.005], daemon=True).start()
    source.url = f"http://127.0.0.1:{server.server_port}/"
    try:
        yield source
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def source() -> Iterator[Source]:
    """The live source of every check, in place of the configured ones."""
    with run_source() as source:
        path = f"{Acme.__module__}.{Acme.__name__}"
        sources = {Acme.name: (path, {"url": source.url})}
        registry.configure(sources, route_all_checks(Acme.name))
        yield source
        registry.configure({}, {})
