"""The gate in front of Django, which makes an ASGI application of its WSGI one.

The gate reads a request whole before a thread of Django sees it, so a client that sends
its body drop by drop holds a connection and no thread. Before it reads, it learns how
large the body may be and whose room it takes (`bodies.py`), so strangers never take the
room of clients. It drops headers with `_` in the name, because Django would read
`X_Forwarded_For` as `X-Forwarded-For`.

It limits the number of requests that wait for a thread, and refuses the rest with 503
at once: otherwise they would wait longer than their clients do, and the threads would
work for clients that have gone. As some requests take a millisecond and others a
second, the limit follows from the durations of recent ones: it is the number that the
threads can process in MAX_DELAY_SECONDS.

Requests of subjects, payers and providers go first: while the other threads are busy,
they have threads of their own, so that a flood of API requests neither refuses nor
delays them. Requests that call an identity provider have threads of their own, always:
a provider that hangs holds these and no others.
"""

from __future__ import annotations

import asyncio
import gc
import io
import mmap
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

THREADS = 8
# For the requests that go first.
FIRST_THREADS = 2
# For the requests that call an identity provider. Two are enough for five logins a
# second, if the provider answers within a tenth of a second.
IDENTITY_THREADS = 2
# A body may take this long, and a second more for each SLOWEST_RATE bytes of it, up to
# MAX_BODY_SECONDS: time for a document of 10 MB over a line of 18 KB/s.
BODY_SECONDS = 20
SLOWEST_RATE = 1000
MAX_BODY_SECONDS = 600
MIB = 1024 * 1024
# The most bytes of a refused body that are discarded after the answer
DISCARDED_BYTES = 12 * MIB
# Requests and forms are cycles that hold the body until Python collects garbage, which
# it does after many objects, however large these are. So the gate collects it after
# bodies of this size.
GARBAGE_BYTES = 16 * MIB
# The gate refuses a new request if the waiting ones need longer than this.
MAX_DELAY_SECONDS = 0.5
# A request that has waited this long all the same is refused, too.
WAIT_SECONDS = 2
# The limit of waiting requests while all are quick.
MAX_WAITING = 256
# The weight of one request in the time that a request takes.
WEIGHT = 1 / 16
# A client that takes longer than this for a piece of an answer loses the rest.
PIECE_SECONDS = 30
# Exports take minutes and files need the disk, so both have threads of their own, and
# the others go on with requests.
STREAM_THREADS = 2
FILE_THREADS = 2
# Above these numbers of refusals at one time, a refusal does not go through Django.
MAX_REFUSALS = 32
# One refusal of an overload at a time goes through Django, and so into the log. With
# eight, the server answered a third fewer other requests.
MAX_OVERLOAD_REFUSALS = 1
# A random time between these spreads the retries of refused clients.
RETRY_AFTER_SECONDS = 2, 8
# The headers of a brief refusal, which passes no middleware.
BRIEF_HEADERS = [
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
]
# Requests of these need no database. An orchestrator kills a web server that does not
# answer the first; the second also tells proxies to send requests to other ones.
LIVENESS_PATHS = frozenset(["/livez", "/healthz"])
# Monitoring gets an answer while the service is overloaded. If the database does not
# answer, it gets one within these seconds, before a monitor gives up.
WATCHER_PATHS = {"/readyz": 3, "/metrics": 8}
MAX_WATCHERS = 16
# The key in the environ under which `RefusalMiddleware` finds the problem's code. A
# refused watcher gets an answer without the database.
REFUSAL = "verification.refusal"
# The key in the environ of a request whose body is larger than its limit. The body is
# not there, and CONTENT_LENGTH says that it is too large.
UNREAD = "verification.unread"


class SharedFlag:
    """A switch that every process forked later sees."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1)

    def set(self) -> None:
        self._memory[0] = 1

    def is_set(self) -> bool:
        return self._memory[0] == 1


# Set when the web server is about to stop; `/healthz` of all its processes says so.
stopping = SharedFlag()
# Set when the web server started with keys that the database refuses.
keys_refused = SharedFlag()

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Environ = dict[str, Any]


T = TypeVar("T")


class _RequestRefused(Exception):
    """`args[0]` is the code of the problem."""


class Room(StrEnum):
    """The clients who share a limit for their unfinished bodies."""

    KEYS = "keys"
    # Keys, links and sessions that everybody gets who signs up.
    SANDBOX = "sandbox"
    # Members of live workspaces, staff, and subjects of production on their pages.
    PEOPLE = "people"
    PROVIDERS = "providers"
    STRANGERS = "strangers"


# Bytes of the bodies that a process holds at one time: of all in a room, and of one.
ROOM_BYTES = {
    Room.KEYS: (48 * MIB, 24 * MIB),
    Room.SANDBOX: (24 * MIB, 12 * MIB),
    Room.PEOPLE: (48 * MIB, 24 * MIB),
    Room.PROVIDERS: (16 * MIB, 4 * MIB),
    Room.STRANGERS: (16 * MIB, 2 * MIB),
}


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """The size that a body may have, and the client who holds it in a room."""

    size: int
    room: Room
    holder: str = ""


@dataclass(slots=True)
class Response:
    status: int = 500
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    # The pieces of an answer that is sent while it is made.
    pieces: Any = None


class Gateway:
    """Runs a WSGI application as an ASGI one."""

    def __init__(
        self,
        wsgi: Callable[..., Iterable[bytes]],
        *,
        limit_body: Callable[[Environ], BodyLimit | Callable[[], BodyLimit]],
        refuse_briefly: Callable[[Environ], Response] | None = None,
        goes_first: Callable[[str], bool] = lambda path: False,
        calls_identity_provider: Callable[[str], bool] = lambda path: False,
        threads: int = THREADS,
        body_seconds: float = BODY_SECONDS,
        max_waiting: int = MAX_WAITING,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self.wsgi = wsgi
        self.limit_body = limit_body
        self.refuse_briefly = refuse_briefly or refuse_in_text
        self.goes_first = goes_first
        self.calls_identity_provider = calls_identity_provider
        self.body_seconds = body_seconds
        # The bytes of unfinished bodies, by room and by holder.
        self.held: dict[Room, Counter[str]] = {room: Counter() for room in Room}
        # The bytes of the bodies since the garbage was collected.
        self.garbage = 0
        self.refusals = 0
        self.threads = _Threads("django", threads, max_waiting, wait_seconds)
        self.first_threads = _Threads("first", FIRST_THREADS, max_waiting, wait_seconds)
        self.identity_threads = _Threads(
            "identity", IDENTITY_THREADS, max_waiting, wait_seconds
        )
        # One each, as a long scrape of the figures must not delay the other.
        self.watcher_threads = {
            path: _Threads("watcher", 1, MAX_WATCHERS, wait_seconds)
            for path in WATCHER_PATHS
        }
        self.stream_threads = ThreadPoolExecutor(STREAM_THREADS, "stream")
        self.file_threads = ThreadPoolExecutor(FILE_THREADS, "file")
        # This thread serves requests that need no database, while the others may wait
        # for it.
        self.reserve_thread = _Threads("reserve", 1)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        environ = build_environ(scope)
        body = _Body(self, receive)
        try:
            await body.read_for(environ)
            answer = await self._serve(environ)
        except _RequestRefused as refusal:
            answer = await self._refuse(environ, refusal.args[0])
        finally:
            body.release()
            self.garbage += body.size
            if self.garbage >= GARBAGE_BYTES:
                self.garbage = 0
                gc.collect()
        if answer.pieces is not None:
            await self._stream(answer, receive, send)
        else:
            await send(_response_start(answer))
            await send({"type": "http.response.body", "body": answer.body})
            if body.has_rest:
                await body.discard_rest()

    async def _serve(self, environ: Environ) -> Response:
        """Answer, or raise _RequestRefused; a monitor is answered within seconds."""
        path = environ["PATH_INFO"]
        if path not in WATCHER_PATHS:
            threads = self.threads_for(path)
            return await threads.run(lambda: self._answer(environ))
        work = self.watcher_threads[path].run(lambda: self._answer(environ))
        try:
            # The thread waits on for the database. Later requests wait for it in their
            # turn, so that a database that hangs gets no more queries.
            return await asyncio.wait_for(asyncio.shield(work), WATCHER_PATHS[path])
        except TimeoutError:
            raise _RequestRefused("overloaded") from None

    def threads_for(self, path: str) -> _Threads:
        """Return the threads that work on requests to this path."""
        if path in LIVENESS_PATHS:
            return self.reserve_thread
        if self.calls_identity_provider(path):
            return self.identity_threads
        if self.goes_first(path) and self.threads.are_busy:
            return self.first_threads
        return self.threads

    async def _refuse(self, environ: Environ, code: str) -> Response:
        most = MAX_OVERLOAD_REFUSALS if code == "overloaded" else MAX_REFUSALS
        if self.refusals >= most:
            return self.refuse_briefly(environ)
        self.refusals += 1
        try:
            refusal = {**environ, REFUSAL: code, "wsgi.input": io.BytesIO()}
            return await self.reserve_thread.run(lambda: self._answer(refusal))
        except _RequestRefused:
            # The thread for refusals is busy as well.
            return self.refuse_briefly(environ)
        finally:
            self.refusals -= 1

    async def _stream(self, answer: Response, receive: Receive, send: Send) -> None:
        """Send an answer piece by piece.

        A thread makes each piece and is free while the client reads it, so slow clients
        hold none. Each piece may be made by another thread.
        """
        loop = asyncio.get_running_loop()
        is_long = getattr(answer.pieces, "is_long", False)
        threads = self.stream_threads if is_long else self.file_threads
        pieces = iter(answer.pieces)
        gone = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await send(_response_start(answer))
            while not gone.done():
                piece = await loop.run_in_executor(threads, next, pieces, None)
                message = {"type": "http.response.body", "body": piece or b""}
                async with asyncio.timeout(PIECE_SECONDS):
                    await send({**message, "more_body": piece is not None})
                if piece is None:
                    break
        finally:
            gone.cancel()
            if close := getattr(answer.pieces, "close", None):
                await loop.run_in_executor(threads, close)

    def _answer(self, environ: Environ) -> Response:
        answer = Response()

        def start_response(
            status: str, headers: list[tuple[str, str]], exc_info: Any = None
        ) -> None:
            answer.status = int(status.split(" ", 1)[0])
            answer.headers = [
                (name.lower().encode("latin-1"), value.encode("latin-1"))
                for name, value in headers
            ]

        pieces = self.wsgi(environ, start_response)
        if getattr(pieces, "streaming", False):
            answer.pieces = pieces
            return answer
        try:
            answer.body = b"".join(pieces)
        finally:
            if close := getattr(pieces, "close", None):
                close()
        return answer


class _Threads:
    """Some threads, and the requests that wait until one of them is free."""

    def __init__(
        self,
        name: str,
        number: int,
        max_waiting: float = inf,
        wait_seconds: float | None = None,
    ) -> None:
        self._number = number
        self._pool = ThreadPoolExecutor(number, name)
        self._max_waiting = max_waiting
        self._wait_seconds = wait_seconds
        # Requests that wait or are worked on.
        self._present = 0
        # The oldest first; some may have begun.
        self._waiting: deque[Future[Any]] = deque()
        # The moving average of the time that a thread works on a request.
        self._seconds = 0.0

    async def run(self, work: Callable[[], T]) -> T:
        """Run the work in a thread, or raise _RequestRefused."""
        self.require_room()
        job = self._pool.submit(self._measure, work)
        self._waiting.append(job)
        self._present += 1
        waited = asyncio.wrap_future(job)
        try:
            await asyncio.wait([waited], timeout=self._wait_seconds)
            # A request that a thread has begun cannot be cancelled.
            if not waited.done() and job.cancel():
                raise _RequestRefused("overloaded")
            return await waited
        finally:
            self._present -= 1
            # An answer may be large.
            self._forget_begun()

    @property
    def are_busy(self) -> bool:
        """True if a new request would have to wait."""
        return self._present >= self._number

    def require_room(self) -> None:
        """Raise _RequestRefused if too many requests wait."""
        if not self._has_room():
            raise _RequestRefused("overloaded")

    def _measure(self, work: Callable[[], T]) -> T:
        began = time.monotonic()
        try:
            return work()
        finally:
            # Threads that write at the same time lose one of many measurements.
            self._seconds += (time.monotonic() - began - self._seconds) * WEIGHT

    def _has_room(self) -> bool:
        self._forget_begun()
        waiting = len(self._waiting)
        delay = waiting * self._seconds / self._number
        # While requests are slow, still one may wait for each thread.
        is_soon = delay < MAX_DELAY_SECONDS or waiting < self._number
        return is_soon and waiting < self._max_waiting

    def _forget_begun(self) -> None:
        while self._waiting and (self._waiting[0].running() or self._waiting[0].done()):
            self._waiting.popleft()


class _Body:
    """The body of one request while it is read and worked on."""

    def __init__(self, gateway: Gateway, receive: Receive) -> None:
        self.gateway = gateway
        self.receive = receive
        self.size = 0
        self.limit = BodyLimit(0, Room.STRANGERS)
        # True while the client sends the body
        self.has_rest = False

    async def read_for(self, environ: Environ) -> None:
        """Put the body into the environ, or raise _RequestRefused."""
        length = environ.get("CONTENT_LENGTH", "")
        coding = environ.pop("HTTP_TRANSFER_ENCODING", None)
        if coding is None and length in {"", "0"}:
            return
        if coding is not None and coding.strip().lower() != "chunked":
            raise _RequestRefused("unsupported-media-type")
        if not (length.isdigit() if coding is None else length == ""):
            raise _RequestRefused("malformed-body")
        self.has_rest = True
        # Refuse before work is done for it.
        threads = self.gateway.threads_for(environ["PATH_INFO"])
        threads.require_room()
        limit = self.gateway.limit_body(environ)
        if not isinstance(limit, BodyLimit):
            limit = await threads.run(limit)
        self.limit = limit
        # Django refuses a body by its length, so one that is too large is not read.
        if coding is None and int(length) > self.limit.size:
            environ[UNREAD] = True
            return
        pieces = await self._pieces()
        environ["CONTENT_LENGTH"] = str(self.size)
        if self.size > self.limit.size:
            environ[UNREAD] = True
        else:
            environ["wsgi.input"] = io.BytesIO(b"".join(pieces))

    async def _pieces(self) -> list[bytes]:
        pieces: list[bytes] = []
        begun = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self.gateway.body_seconds) as limit:
                while True:
                    message = await self.receive()
                    if message["type"] == "http.disconnect":
                        # The client has gone, or its chunks are malformed.
                        self.has_rest = False
                        raise _RequestRefused("malformed-body")
                    self.has_rest = message.get("more_body", False)
                    pieces.append(message.get("body", b""))
                    self._count(len(pieces[-1]))
                    if not self.has_rest or self.size > self.limit.size:
                        return pieces
                    seconds = self.gateway.body_seconds + self.size / SLOWEST_RATE
                    limit.reschedule(begun + min(seconds, MAX_BODY_SECONDS))
        except TimeoutError:
            self.has_rest = False
            raise _RequestRefused("request-timeout") from None

    async def discard_rest(self) -> None:
        """Read on after the answer, because a proxy loses it if it cannot send."""
        size = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(self.gateway.body_seconds):
                while self.has_rest and size < DISCARDED_BYTES:
                    message = await self.receive()
                    self.has_rest = message.get("more_body", False)
                    size += len(message.get("body", b""))

    def _count(self, size: int) -> None:
        self.size += size
        held = self.gateway.held[self.limit.room]
        held[self.limit.holder] += size
        room, share = ROOM_BYTES[self.limit.room]
        if held.total() > room or held[self.limit.holder] > share:
            raise _RequestRefused("overloaded")

    def release(self) -> None:
        # Only positive counts stay.
        self.gateway.held[self.limit.room] -= Counter({self.limit.holder: self.size})


def retry_after() -> str:
    """Return the seconds after which a refused client may come again."""
    return str(random.randint(*RETRY_AFTER_SECONDS))  # noqa: S311


def brief_refusal(body: bytes, content_type: str, **headers: str) -> Response:
    """Return a 503 that does not go through Django."""
    named = {
        "content-type": content_type,
        "content-length": str(len(body)),
        "retry-after": retry_after(),
        **headers,
    }
    encoded = [(name.encode(), value.encode()) for name, value in named.items()]
    return Response(503, encoded + BRIEF_HEADERS, body)


def refuse_in_text(environ: Environ) -> Response:
    text = b"Too many requests at once. Please try again in a few seconds.\n"
    return brief_refusal(text, "text/plain; charset=utf-8")


def build_environ(scope: Any) -> Environ:
    """Return the environ of WSGI, without the body."""
    environ: Environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        # WSGI has bytes here; the scope's decoded path has lost bytes that are not
        # UTF-8.
        "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": scope["server"][0],
        "SERVER_PORT": str(scope["server"][1]),
        "REMOTE_ADDR": scope["client"][0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for raw, value in scope["headers"]:
        if b"_" in raw:
            continue
        name = raw.decode("latin-1").upper().replace("-", "_")
        if name not in {"CONTENT_TYPE", "CONTENT_LENGTH"}:
            name = f"HTTP_{name}"
        text = value.decode("latin-1")
        if name in environ:
            text = f"{environ[name]}{'; ' if name == 'HTTP_COOKIE' else ','}{text}"
        environ[name] = text
    return environ


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _response_start(answer: Response) -> Message:
    return {
        "type": "http.response.start",
        "status": answer.status,
        "headers": answer.headers,
    }
