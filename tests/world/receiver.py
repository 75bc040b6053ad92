"""A TLS receiver on loopback, with a script for each path.

def test_something(receiver, settings):
    receiver.scripts["/busy"] = Script(status=503, headers={"Retry-After": "7"})
    ...  # send something to receiver.url("/busy")
    assert receiver.received[0].headers["webhook-id"] == ...

While the fixture lasts, the service trusts its authority and allows its host.
"""

import asyncio
import datetime as dt
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.world.waiting import until

# Only `lookup_here` resolves this name.
HOST = "hooks.acacia.test"
# The first byte of a client that begins TLS.
TLS_HANDSHAKE = b"\x16"


@dataclass
class Received:
    path: str
    # Names in lower case.
    headers: dict[str, str]
    body: bytes
    # Connections are numbered in the order they were made.
    connection: int
    at: float


@dataclass
class Script:
    """The answer to a request."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"ok"
    # Seconds between single bytes of head and body, after the first `at_once`.
    drip: float | None = None
    at_once: int = 0
    # Never answers.
    hangs: bool = False
    # Closes after this many bytes of head and body.
    cut_after: int | None = None
    # Closes after the answer without announcing it.
    closes: bool = False
    # Sent instead of all the above.
    raw: bytes | None = None

    def answer(self) -> bytes:
        if self.raw is not None:
            return self.raw
        headers = {"Content-Length": str(len(self.body)), **self.headers}
        lines = [f"HTTP/1.1 {self.status} Status"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


class Authority:
    """Issues certificates; `file` is its own certificate."""

    def __init__(self, file: Path) -> None:
        self._ca = trustme.CA()
        self.file = file
        self._ca.cert_pem.write_to_path(str(file))

    def context(self, *names: str, **options: Any) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ca.issue_cert(*names, **options).configure_cert(context)
        return context

    def demand_certificates(self, context: ssl.SSLContext) -> None:
        """Let a server refuse clients without a certificate of this authority."""
        self._ca.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED

    def write_client_certificate(self, file: Path) -> Path:
        """Write a certificate of a client with its key."""
        issued = self._ca.issue_cert("verification.operator.test")
        issued.private_key_and_cert_chain_pem.write_to_path(str(file))
        return file

    def expired_context(self, *names: str) -> ssl.SSLContext:
        yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
        return self.context(
            *names, not_before=yesterday - dt.timedelta(days=9), not_after=yesterday
        )


class Receiver:
    """Runs in a thread of its own while it is open, on any free port."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self.scripts: dict[str, Script | Callable[[Received], Script]] = {}
        self.received: list[Received] = []
        self.connections = 0
        # Bytes of answers that were handed to the network.
        self.written = 0
        self._open: set[_Connection] = set()

    def __enter__(self) -> "Receiver":
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(self._listen())
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *exc: object) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def url(self, path: str = "/", host: str = HOST) -> str:
        return f"https://{host}:{self.port}{path}"

    def wait_for(self, requests: int) -> list[Received]:
        until(lambda: len(self.received) >= requests)
        return self.received

    def drop_connections(self) -> None:
        """Close all connections, as a receiver does after an idle time."""
        self._call(self._drop())

    def _call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _listen(self) -> asyncio.Server:
        return await self._loop.create_server(
            lambda: _Connection(self), "127.0.0.1", 0, ssl=self._context, backlog=1000
        )

    async def _drop(self) -> None:
        dropped = set(self._open)
        for connection in dropped:
            connection.end()
        while self._open & dropped:
            await asyncio.sleep(0.001)

    async def _stop(self) -> None:
        self._server.close()
        await self._drop()
        # The last client may be about to be accepted, or in its handshake, of which
        # asyncio has no public list. An open socket would fail a later test.
        accepting = asyncio.all_tasks() - {asyncio.current_task()}
        while not all(task.done() for task in accepting) or self._open_transports():
            for transport in self._open_transports():
                transport.abort()
            await asyncio.sleep(0.001)

    def _open_transports(self) -> list[Any]:
        transports = list(self._loop._transports.values())
        return [one for one in transports if one._sock is not None]

    def script(self, received: Received) -> Script:
        script = self.scripts.get(received.path, Script())
        return script(received) if callable(script) else script


class _Connection(asyncio.Protocol):
    """One connection: requests are read by their Content-Length, and answered."""

    transport: asyncio.Transport

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._buffer = b""
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._receiver.connections += 1
        self._number = self._receiver.connections
        self._receiver._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._receiver._open.discard(self)
        if self._task:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def end(self) -> None:
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if data.startswith(TLS_HANDSHAKE):
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            self.transport.close()
            return
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        request, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.split(": ", 1) for line in lines)
        headers = {name.lower(): value for name, value in pairs}
        length = int(headers.get("content-length", 0))
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        path = request.split(" ")[1]
        body = rest[:length]
        received = Received(path, headers, body, self._number, time.monotonic())
        self._receiver.received.append(received)
        self._answer(self._receiver.script(received))

    def _answer(self, script: Script) -> None:
        if script.hangs:
            return
        whole = script.answer()
        if script.drip is not None or len(whole) > 1_000_000:
            self._write(whole[: script.at_once])
            self._task = asyncio.get_running_loop().create_task(
                self._slowly(whole[script.at_once :], script.drip)
            )
            return
        self._write(whole[: script.cut_after])
        if script.cut_after is not None or script.closes:
            self.transport.close()

    async def _slowly(self, whole: bytes, pause: float | None) -> None:
        step = 65536 if pause is None else 1
        for start in range(0, len(whole), step):
            await self._writable.wait()
            self._write(whole[start : start + step])
            await asyncio.sleep(pause or 0)

    def _write(self, data: bytes) -> None:
        self._receiver.written += len(data)
        self.transport.write(data)


async def lookup_here(host: str, port: int, **options: Any) -> list[tuple[Any, ...]]:
    """Resolve every name to this machine, in the form of `loop.getaddrinfo`."""
    return await asyncio.get_running_loop().getaddrinfo("127.0.0.1", port, **options)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority") / "ca.pem")


@pytest.fixture
def receiver(authority: Authority, settings: Any) -> Iterator[Receiver]:
    settings.WEBHOOK_CA_FILE = str(authority.file)
    settings.WEBHOOK_DEV_HOSTS = frozenset({HOST, "localhost"})
    with Receiver(authority.context(HOST, "localhost")) as receiver:
        yield receiver
