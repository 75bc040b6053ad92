"""The HTTPS client that carries events to receivers.

    with Sender() as sender:
        sender.send([(key, WebhookRequest(url, body, headers)), ...])
        for key, answer in sender.answers(timeout=1.0):
            ...

One event loop in a thread of its own makes all requests, but few at a time to each
receiver; the others wait, and come back unsent when they wait too long. A receiver is
not trusted: it costs at most the deadline, 16 KiB and a connection.

Signatures follow Standard Webhooks 1.0.0. The official libraries take a secret as
`whsec_` and base64. For a client's secret of any other form they take
`"whsec_" + base64(secret)`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import re
import threading
import time
import weakref
from asyncio.trsock import TransportSocket
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from queue import Empty, SimpleQueue
from socket import SHUT_RDWR
from typing import Any, Generic, TypeVar

import aiohttp
import yarl
from django.conf import settings

from verification import tracing
from verification.outbound.client import trusting
from verification.outbound.proxy import Proxy, ProxyError, open_tunnel
from verification.outbound.targets import (
    Blocked,
    GuardedResolver,
    Lookup,
    check_url,
    is_allowed_host,
)
from verification.values.clock import now
from webhooks.models import Attempt

logger = logging.getLogger(__name__)

Key = TypeVar("Key")
Error = Attempt.Error

# A request that waits longer for a place comes back unsent.
WAIT_SECONDS = 30.0
HEADERS = {
    "Content-Type": "application/json",
    "User-Agent": "verification-webhooks/1",
    "Accept": "*/*",
    # The client never unpacks an answer: a small one may unpack to a huge one.
    "Accept-Encoding": "identity",
}
READ_BYTES = 16 * 1024
# The client reuses the addresses of a name for this long.
LOOKUP_SECONDS = 10
# Concurrent look-ups of names; each of them holds a thread.
MAX_LOOKUPS = 256
CLOSING_SECONDS = 2.0

# A request fails with these on a kept connection that the receiver has closed.
STALE_CONNECTION_ERRORS = (
    aiohttp.ServerDisconnectedError,
    aiohttp.ClientOSError,
    aiohttp.ClientConnectionResetError,
)
MAX_STORED_BYTES = 1024

# The first entry that fits counts.
ERRORS: list[tuple[type[Exception], Error]] = [
    (Blocked, Error.TARGET_BLOCKED),
    (aiohttp.ClientConnectorDNSError, Error.NAME_UNKNOWN),
    (aiohttp.ClientConnectorCertificateError, Error.NOT_TRUSTED),
    (aiohttp.ClientConnectorError, Error.NOT_CONNECTED),
    (TimeoutError, Error.TIMED_OUT),
    (aiohttp.ClientError, Error.BROKEN),
    (OSError, Error.BROKEN),
]
SECRET_PREFIX = "whsec_"  # noqa: S105
KEY_BYTES = range(24, 64 + 1)


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """A request to a receiver.

    `lane` names the receiver: the sender limits the requests under way in each lane.
    `sign` returns further headers for the time at which the request is sent.
    """

    url: str
    body: bytes
    headers: dict[str, str]
    lane: Hashable = None
    sign: Callable[[datetime], dict[str, str]] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one request.

    `error` is blank or an `Attempt.Error`. A BROKEN or TIMED_OUT answer may
    have the status 2xx, but its body is incomplete. `text` is the first 1 KiB of the
    body, `retry_after` the receiver's Retry-After in seconds.
    """

    status_code: int | None
    error: str
    text: str
    duration_ms: int
    retry_after: float | None
    # Null if the request was not sent.
    started_at: datetime | None = None

    @property
    def is_acknowledgement(self) -> bool:
        """Return whether the status is 2xx and the body was complete in time."""
        return not self.error and 200 <= (self.status_code or 0) < 300


@dataclass(slots=True)
class RequestProgress:
    started: float = field(default_factory=time.monotonic)
    started_at: datetime = field(default_factory=now)
    transport: asyncio.Transport | None = None
    socket: TransportSocket | None = None
    reused: bool = False
    status_code: int | None = None
    retry_after: float | None = None
    body: bytearray = field(default_factory=bytearray)

    def abort_closing(self) -> None:
        """Abort the connection if it is closing.

        A regular close waits up to 30 s for the receiver. `abort` does not end a TLS
        transport that was closed twice, so its socket is shut down as well.
        """
        if self.transport and self.socket and self.transport.is_closing():
            self.transport.abort()
            with suppress(OSError):
                self.socket.shutdown(SHUT_RDWR)

    def answer(self, error: str) -> Answer:
        refused = self.status_code is not None and self.status_code // 100 != 2
        text = self.body[:MAX_STORED_BYTES].decode("utf-8", "replace")
        return Answer(
            status_code=self.status_code,
            # A refusal counts even if its body is incomplete.
            error="" if refused else error,
            text=text.replace("\0", "\N{REPLACEMENT CHARACTER}"),
            duration_ms=round((time.monotonic() - self.started) * 1000),
            retry_after=self.retry_after,
            started_at=self.started_at,
        )


_progress: ContextVar[RequestProgress] = ContextVar("_progress")


class NotSent(Exception):
    """The request got no place in time, or was recalled."""


class Lane:
    def __init__(self, at_once: int) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._waiting: set[asyncio.Task[None] | None] = set()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold one of the places, after a wait of up to 30 s. Raises NotSent."""
        if self._free.locked():
            await self._wait()
        else:
            await self._free.acquire()
        try:
            yield
        finally:
            self._free.release()

    def recall(self) -> None:
        """Return the waiting requests unsent. Requests under way go on."""
        for task in self._waiting:
            if task:
                task.cancel()

    async def _wait(self) -> None:
        task = asyncio.current_task()
        self._waiting.add(task)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._free.acquire()
        except (TimeoutError, asyncio.CancelledError) as e:
            raise NotSent from e
        finally:
            self._waiting.discard(task)


class Sender(Generic[Key]):
    """Send requests while it is open. Any thread may call `send` and `answers`.

    Every request gets one answer. At the end the sender cancels the requests under
    way, and their answers are BROKEN. At most `at_once` requests of a lane are under
    way; the deadline of a waiting request has not begun. A waiting request comes back
    unsent, with None, after 30 s, when a request of its lane is not acknowledged, and
    when it is recalled. `lookup` replaces the loop's getaddrinfo.
    """

    def __init__(self, lookup: Lookup | None = None, at_once: int = 10) -> None:
        self._lanes: dict[Hashable, Lane] = defaultdict(lambda: Lane(at_once))
        self._seconds: float = settings.WEBHOOK_TIMEOUT_SECONDS
        files = settings.WEBHOOK_CA_FILE, settings.OUTBOUND_CA_FILE
        self._trust = trusting(*filter(None, files))
        self._opened = opened = settings.WEBHOOK_DEV_HOSTS
        self._resolver = GuardedResolver(opened, lookup)
        self._target: Callable[[str], yarl.URL] = lru_cache(1024)(
            partial(check_url, opened=opened)
        )
        self._answers: SimpleQueue[tuple[Key, Answer | None]] = SimpleQueue()
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Sender[Key]:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_log)
        self._lookups = ThreadPoolExecutor(MAX_LOOKUPS, thread_name_prefix="lookup")
        self._loop.set_default_executor(self._lookups)
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="post", daemon=True
        )
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()
        return self

    def __exit__(self, *exc: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        # A look-up cannot be interrupted, so the sender does not wait for it.
        self._lookups.shutdown(wait=False, cancel_futures=True)
        self._loop.close()

    def send(self, requests: Iterable[tuple[Key, WebhookRequest]]) -> None:
        """Start the requests, and return immediately."""
        self._loop.call_soon_threadsafe(self._start, list(requests))

    def recall(self) -> None:
        """Make `answers` return all waiting requests unsent."""
        self._loop.call_soon_threadsafe(self._recall)

    def _recall(self) -> None:
        for lane in self._lanes.values():
            lane.recall()

    def answers(self, timeout: float) -> list[tuple[Key, Answer | None]]:
        """Return the ready answers; wait `timeout` seconds for the first of them."""
        ready: list[tuple[Key, Answer | None]] = []
        try:
            ready.append(self._answers.get(timeout=timeout))
            while True:
                ready.append(self._answers.get_nowait())
        except Empty:
            return ready

    async def _open(self) -> None:
        self._kept = self._session(force_close=False)
        # Every request uses a new connection.
        self._fresh = self._session(force_close=True)

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSING_SECONDS)
        sessions = self._kept, self._fresh
        connectors = [session.connector for session in sessions]
        for session in sessions:
            await session.close()
        # The loop closes a socket some rounds after its shutdown.
        for _ in range(10):
            await asyncio.sleep(0)
        end = self._loop.time() + CLOSING_SECONDS
        while any(map(_has_open, connectors)) and self._loop.time() < end:
            await asyncio.sleep(0.01)

    def _session(self, *, force_close: bool) -> aiohttp.ClientSession:
        connector = _Connector(
            settings.OUTBOUND_PROXY,
            self._opened,
            limit=0,
            ssl=self._trust,
            resolver=self._resolver,
            ttl_dns_cache=LOOKUP_SECONDS,
            force_close=force_close,
        )
        return aiohttp.ClientSession(
            connector=connector,
            headers=HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            read_bufsize=READ_BYTES,
            # `_attempt` limits the whole exchange; a second timer has no use.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        )

    def _start(self, requests: list[tuple[Key, WebhookRequest]]) -> None:
        for key, request in requests:
            task = self._loop.create_task(self._deliver(key, request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _deliver(self, key: Key, request: WebhookRequest) -> None:
        answer: Answer | None = None
        lane = self._lanes[request.lane]
        try:
            async with lane.place():
                answer = await self._attempt(request)
                if not answer.is_acknowledgement:
                    # The waiting requests of this lane would probably fail as well.
                    lane.recall()
        except NotSent:
            pass
        finally:
            self._answers.put((key, answer))

    async def _attempt(self, request: WebhookRequest) -> Answer:
        # Without the address, which is the client's.
        with tracing.span("webhook", kind="CLIENT") as span:
            answer = await self._exchange_in_time(request)
            span.set({"http.response.status_code": answer.status_code})
            if answer.error:
                span.fail(answer.error)
        return answer

    async def _exchange_in_time(self, request: WebhookRequest) -> Answer:
        progress = RequestProgress()
        _progress.set(progress)
        try:
            async with asyncio.timeout(self._seconds):
                await self._request(request, progress)
        except asyncio.CancelledError:
            return progress.answer(Error.BROKEN)
        except Exception as e:
            return progress.answer(classify_error(e))
        return progress.answer("")

    async def _request(
        self, request: WebhookRequest, progress: RequestProgress
    ) -> None:
        url = self._target(request.url)
        try:
            await _exchange(self._kept, url, request, progress)
        except STALE_CONNECTION_ERRORS:
            # aiohttp sends no POST again by itself.
            if not progress.reused or progress.status_code:
                raise
            await _exchange(self._fresh, url, request, progress)


class _Connector(aiohttp.TCPConnector):
    """Note in the request's progress which connection it got, and if it is reused.

    With a proxy, a connection is a tunnel to one of the addresses that the resolver has
    checked. `opened` hosts are reached without it.
    """

    def __init__(
        self, proxy: Proxy | None, opened: Collection[str], **options: Any
    ) -> None:
        super().__init__(**options)
        self._tunnel_proxy, self._opened = proxy, opened
        # Used connection -> its socket, or None if the connection ended early.
        self.sockets: weakref.WeakKeyDictionary[
            asyncio.BaseTransport, TransportSocket | None
        ] = weakref.WeakKeyDictionary()

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Any],
        timeout: aiohttp.ClientTimeout,
    ) -> Any:
        connection = await super().connect(req, traces, timeout)
        progress = _progress.get()
        if transport := connection.transport:
            progress.transport, progress.reused = transport, transport in self.sockets
            if not progress.reused:
                self.sockets[transport] = None
                # Python 3.11 knows no socket of a TLS connection that was aborted.
                with suppress(AttributeError):
                    self.sockets[transport] = transport.get_extra_info("socket")
            progress.socket = self.sockets[transport]
        return connection

    # aiohttp has no public name for connecting by a socket that is open already. Its
    # own requests for a tunnel name the address and, in Host, the receiver's name, by
    # which a proxy could go elsewhere.
    async def _wrap_create_connection(
        self, *arguments: Any, addr_infos: Any, req: Any, **options: Any
    ) -> Any:
        proxy, url = self._tunnel_proxy, req.url
        if proxy is None or is_allowed_host(url.host, url.port, self._opened):
            return await super()._wrap_create_connection(
                *arguments, addr_infos=addr_infos, req=req, **options
            )
        *_, address = addr_infos[0]
        try:
            sock = await open_tunnel(proxy, *address[:2])
        except ProxyError as e:
            logger.warning("OUTBOUND_PROXY: %s", e)
            # Then aiohttp tries the next address.
            raise aiohttp.ClientConnectorError(req.connection_key, e) from e
        return await self._wrap_existing_connection(
            *arguments, req=req, sock=sock, **options
        )


def _has_open(connector: aiohttp.BaseConnector | None) -> bool:
    sockets = connector.sockets.values() if isinstance(connector, _Connector) else ()
    return any(one is not None and one.fileno() != -1 for one in sockets)


async def _exchange(
    session: aiohttp.ClientSession,
    url: yarl.URL,
    request: WebhookRequest,
    progress: RequestProgress,
) -> None:
    """Send the request and write its answer into `progress`."""
    headers = request.headers
    if request.sign:
        headers = headers | request.sign(progress.started_at)
    try:
        async with session.post(
            url,
            data=request.body,
            headers=headers,
            allow_redirects=False,
        ) as response:
            progress.status_code = response.status
            progress.retry_after = parse_retry_after(
                response.headers.get("Retry-After", "")
            )
            body = progress.body
            # The client ignores the rest of the body and closes the connection.
            while chunk := await response.content.read(READ_BYTES - len(body)):
                body += chunk
    finally:
        progress.abort_closing()


def _log(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error outside requests, for example of a connection that closes."""
    e = context.get("exception")
    logger.warning("post: %s", type(e).__name__ if e else context["message"])


def classify_error(e: Exception) -> Error:
    for kind, error in ERRORS:
        if isinstance(e, kind):
            return error
    # The message may hold what the receiver sent.
    logger.error("a delivery raised %s", type(e).__name__)
    return Error.BROKEN


def parse_retry_after(retry_after: str) -> float | None:
    """Return a Retry-After header, seconds or a date, as seconds from now."""
    if re.fullmatch(r"[0-9]{1,9}", retry_after):
        return float(retry_after)
    try:
        date = parsedate_to_datetime(retry_after)
        # A date without a zone is UTC (RFC 5322, "-0000").
        at = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return max(0.0, at - time.time())


def signing_key(secret: str) -> bytes:
    """Decode the base64 after `whsec_`, or return the bytes of any other secret.

    Raises ValueError for `whsec_` without strict base64 of 24 to 64 bytes, because the
    libraries would decode such a secret in different ways.
    """
    if not secret.startswith(SECRET_PREFIX):
        return secret.encode()
    encoded = secret.removeprefix(SECRET_PREFIX)
    try:
        key = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    # Encoded again, because decoding ignores trailing bits and padding.
    if len(key) not in KEY_BYTES or base64.b64encode(key).decode() != encoded:
        raise ValueError("after whsec_ there must be base64 of 24 to 64 bytes")
    return key


def sign(secrets: Iterable[str], id: str, timestamp: int, body: bytes) -> str:
    """Return the `webhook-signature` header: one signature for each secret, in order.

    `id` is the id of the event, `timestamp` the time of the attempt in Unix seconds.
    """
    content = b"%s.%d.%s" % (id.encode(), timestamp, body)
    digests = (hmac.digest(signing_key(s), content, "sha256") for s in secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)
