"""The server behind all fake sources and payment providers, with faults and events.

    paystack.faults.status = 503          # the status of every answer of the API
    paystack.faults.half = True           # the API acts, but its answer breaks off
    paystack.deliver(url)                 # sends events, signed like real ones
    body, headers = paystack.signed(paystack.events[0])

With a `webhook_url`, the fake delivers each event as soon as it happens, before it
sends the payer back.
"""

import json
import selectors
import socket
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import requests

HTML = "<!doctype html><html><title>502 Bad Gateway</title></html>"


# A failed test sets no event.
HELD_SECONDS = 30


@dataclass
class Faults:
    """Faults of API calls by `method` whose path contains `path`; pages keep working.

    An empty `method` or `path` stands for all.
    """

    method: str = ""
    path: str = ""
    # The API answers with this and does not act.
    status: int | None = None
    html: bool = False
    # The API acts, and then the answer takes this many seconds, or breaks off.
    slow: float = 0
    # The API acts, and then the answer waits for this event.
    held: threading.Event | None = None
    half: bool = False
    # The fake never delivers events that happen while this is set.
    events_lost: bool = False
    # Changes to the way in which `deliver` sends the other events.
    events_twice: bool = False
    events_backwards: bool = False
    wrong_signature: bool = False

    def concern(self, request: "Request") -> bool:
        return self.method in ("", request.method) and self.path in request.path


@dataclass
class Request:
    method: str
    path: str
    # Keys are lower case.
    headers: dict[str, str]
    query: dict[str, str]
    body: bytes
    form: dict[str, str] = field(default_factory=dict)


@dataclass
class Answer:
    status: int
    # JSON, or a text that is HTML.
    body: Any = ""
    headers: dict[str, str] = field(default_factory=dict)


class FakeServer(ABC):
    """A fake API; the subclass makes its answers."""

    api_prefixes: ClassVar[tuple[str, ...]]
    # Where it listens, from `with` on.
    address = "127.0.0.1"

    def __init__(self) -> None:
        self.faults = Faults()
        self.webhook_url = ""
        # All events in order, and the events that `deliver` will send.
        self.events: list[dict[str, Any]] = []
        self.outbox: list[dict[str, Any]] = []
        # Requests to the API.
        self.requests: list[Request] = []
        # The API handles one call at a time and sends events afterwards: the service
        # may call the API before it answers to an event.
        self._lock = threading.Lock()
        self._calling = threading.local()

    def __enter__(self) -> Any:
        handler = type("Handler", (_Handler,), {"fake": self})
        self._server = _Server((self.address, 0), handler)
        self.host = f"{self.address}:{self._server.server_port}"
        self.url = f"http://{self.host}"
        self._end, self._ended = socket.socketpair()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._end.close()
        self._thread.join()
        self._ended.close()
        self._server.server_close()

    def _serve(self) -> None:
        """Serve until the end, which `serve_forever` would see milliseconds later."""
        with selectors.DefaultSelector() as events:
            events.register(self._server, selectors.EVENT_READ)
            events.register(self._ended, selectors.EVENT_READ)
            while [key.fileobj for key, _ in events.select()] == [self._server]:
                self._server.process_request(*self._server.get_request())

    @abstractmethod
    def api(self, request: Request) -> Answer: ...

    def page(self, request: Request) -> Answer:
        """Answer a request outside the API; most fakes have no pages."""
        return Answer(404, HTML)

    def sign(self, body: bytes, secret: str | None = None) -> dict[str, str]:
        """Return the headers that sign an event; some fakes sign inside the body."""
        return {}

    # Events.

    def signed(
        self, event: dict[str, Any], secret: str | None = None
    ) -> tuple[bytes, dict[str, str]]:
        """Return the body and the headers of an event."""
        body = json.dumps(event, separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json", **self.sign(body, secret)}
        return body, headers

    def send_event(
        self,
        url: str,
        event: dict[str, Any] | None = None,
        *,
        secret: str | None = None,
    ) -> int:
        """Send an event, or the latest one. Returns the status of the answer."""
        wrong = "of somebody else" if self.faults.wrong_signature else None
        body, headers = self.signed(event or self.events[-1], secret or wrong)
        # Ignore the environment's proxies.
        with requests.Session() as session:
            session.trust_env = False
            answer = session.post(url, data=body, headers=headers, timeout=30)
        return answer.status_code

    def deliver(self, url: str) -> list[int]:
        """Send all events of the outbox, changed by `faults`."""
        events, self.outbox = self.outbox, []
        if self.faults.events_backwards:
            events = events[::-1]
        if self.faults.events_twice:
            events = [event for event in events for _ in range(2)]
        return [self.send_event(url, event) for event in events]

    def happened(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        if not self.faults.events_lost:
            self.outbox.append(event)
        if self.webhook_url and not getattr(self._calling, "now", False):
            self.deliver(self.webhook_url)

    # The server.

    def answer(self, request: Request) -> Answer:
        if not request.path.startswith(self.api_prefixes):
            return self.page(request)
        self.requests.append(request)
        faulty = self.faults.concern(request)
        if faulty and self.faults.status:
            # Real providers also repeat the request in errors.
            error = {"message": f"Out of order: {request.body.decode()}"}
            return Answer(self.faults.status, {**error, "error": error})
        if faulty and self.faults.html:
            return Answer(200, HTML)
        with self._lock:
            self._calling.now = True
            answer = self.api(request)
        self._calling.now = False
        if self.webhook_url:
            self.deliver(self.webhook_url)
        if faulty and self.faults.slow:
            time.sleep(self.faults.slow)
        if faulty and self.faults.held:
            self.faults.held.wait(HELD_SECONDS)
        return answer

    def is_cut(self, request: Request) -> bool:
        is_api = request.path.startswith(self.api_prefixes)
        return is_api and self.faults.half and self.faults.concern(request)


class _Server(ThreadingHTTPServer):
    # Tests may open hundreds of connections at once.
    request_queue_size = 1024


class _Handler(BaseHTTPRequestHandler):
    fake: FakeServer

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:
            # The caller died during the request: ignore the half of it.
            return
        request = Request(
            self.command,
            parts.path,
            {name.lower(): value for name, value in self.headers.items()},
            dict(parse_qsl(parts.query)),
            body,
        )
        if "urlencoded" in request.headers.get("content-type", ""):
            request.form = dict(parse_qsl(body.decode(), keep_blank_values=True))
        answer = self.fake.answer(request)
        is_text = isinstance(answer.body, str)
        sent = (answer.body if is_text else json.dumps(answer.body)).encode()
        self.send_response(answer.status)
        kind = "text/html; charset=utf-8" if is_text else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(sent)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(BrokenPipeError, ConnectionResetError):
            cut = self.fake.is_cut(request)
            self.wfile.write(sent[: len(sent) // 2] if cut else sent)

    do_POST = do_GET

    def log_message(self, *arguments: Any) -> None:
        pass
