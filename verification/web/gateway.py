"""The gate in front of Django, which makes an ASGI application of its WSGI one.

The gate reads a request whole before a thread of Django sees it, so a client that sends
its body drop by drop holds a connection and no thread. It answers 503 if no thread is
free within WAIT_SECONDS. It drops headers with `_` in the name, because Django would
read `X_Forwarded_For` as `X-Forwarded-For`.
"""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes

from django.conf import settings

THREADS = 8
# A body may take this long, and a second more for each SLOWEST_RATE bytes of it.
BODY_SECONDS = 20
SLOWEST_RATE = 1000
# The limit for all request bodies in this process at one time.
MAX_BODIES_BYTES = 128 * 1024 * 1024
WAIT_SECONDS = 2
# A client that stops reading an answer in pieces gives its thread back after this.
PIECE_SECONDS = 30
# Above this number of refusals at one time, a refusal has no page.
MAX_REFUSALS = 32
RETRY_AFTER = "5"
# The headers of a refusal without a page, which passes no middleware.
BARE_HEADERS = [
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"retry-after", RETRY_AFTER.encode()),
]
LIVENESS_PATH = "/healthz"
# The key in the environ under which `RefusalMiddleware` finds the problem's code.
REFUSAL = "verification.refusal"

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Environ = dict[str, Any]


class _RequestRefused(Exception):
    """`args[0]` is the code of the problem."""


class _ClientDisconnected(Exception):
    """The client closed the connection."""


@dataclass(slots=True)
class Response:
    status: int = 500
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    # The response has been sent in pieces.
    is_sent: bool = False


class Gateway:
    """Runs a WSGI application as an ASGI one."""

    def __init__(
        self,
        wsgi: Callable[..., Iterable[bytes]],
        *,
        threads: int = THREADS,
        body_seconds: float = BODY_SECONDS,
        bodies_bytes: int = MAX_BODIES_BYTES,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self.wsgi = wsgi
        self.body_seconds = body_seconds
        self.bodies_bytes = bodies_bytes
        self.wait_seconds = wait_seconds
        self.bodies_size = 0
        self.refusals = 0
        self.threads = ThreadPoolExecutor(threads, "django")
        # This thread serves requests that need no database, while the others may wait
        # for it.
        self.reserve_thread = ThreadPoolExecutor(1, "reserve")

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        environ = build_environ(scope)
        body = _Body(self, receive)
        try:
            try:
                await body.read_for(environ)
                answer = await self._serve(environ, send)
            except _RequestRefused as refusal:
                answer = await self._refuse(environ, refusal.args[0], send)
        except _ClientDisconnected:
            return
        finally:
            body.release()
        if not answer.is_sent:
            await send(_response_start(answer))
            await send({"type": "http.response.body", "body": answer.body})

    async def _serve(self, environ: Environ, send: Send) -> Response:
        if environ["PATH_INFO"] == LIVENESS_PATH:
            return await self._run(self.reserve_thread, environ, send, None)
        return await self._run(self.threads, environ, send, self.wait_seconds)

    async def _refuse(self, environ: Environ, code: str, send: Send) -> Response:
        if self.refusals >= MAX_REFUSALS:
            return Response(
                503, BARE_HEADERS, b"Too busy. Try again in a few seconds.\n"
            )
        self.refusals += 1
        try:
            refusal = {**environ, REFUSAL: code, "wsgi.input": io.BytesIO()}
            return await self._run(self.reserve_thread, refusal, send, None)
        finally:
            self.refusals -= 1

    async def _run(
        self,
        threads: ThreadPoolExecutor,
        environ: Environ,
        send: Send,
        wait_seconds: float | None,
    ) -> Response:
        loop = asyncio.get_running_loop()
        work = threads.submit(self._answer, environ, send, loop)
        waited = asyncio.wrap_future(work)
        await asyncio.wait([waited], timeout=wait_seconds)
        # A request that a thread has begun cannot be cancelled.
        if not waited.done() and work.cancel():
            raise _RequestRefused("unavailable")
        return await waited

    def _answer(
        self, environ: Environ, send: Send, loop: asyncio.AbstractEventLoop
    ) -> Response:
        answer = Response()

        def start_response(
            status: str, headers: list[tuple[str, str]], exc_info: Any = None
        ) -> None:
            answer.status = int(status.split(" ", 1)[0])
            answer.headers = [
                (name.lower().encode("latin-1"), value.encode("latin-1"))
                for name, value in headers
            ]

        def send_now(message: Message) -> None:
            asyncio.run_coroutine_threadsafe(_send_message(send, message), loop).result(
                PIECE_SECONDS
            )

        pieces = self.wsgi(environ, start_response)
        try:
            if getattr(pieces, "streaming", False):
                answer.is_sent = True
                send_now(_response_start(answer))
                for piece in pieces:
                    send_now(
                        {"type": "http.response.body", "body": piece, "more_body": True}
                    )
                send_now({"type": "http.response.body", "body": b""})
            else:
                answer.body = b"".join(pieces)
        finally:
            if close := getattr(pieces, "close", None):
                close()
        return answer


class _Body:
    """The body of one request while it is read and worked on."""

    def __init__(self, gateway: Gateway, receive: Receive) -> None:
        self.gateway = gateway
        self.receive = receive
        self.size = 0

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
        # Django refuses a body whose stated length is too large, so it is not read.
        if coding is None and int(length) > settings.MAX_UPLOAD_BYTES:
            return
        pieces = await self._pieces()
        environ["CONTENT_LENGTH"] = str(self.size)
        environ["wsgi.input"] = io.BytesIO(b"".join(pieces))

    async def _pieces(self) -> list[bytes]:
        pieces: list[bytes] = []
        begun = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self.gateway.body_seconds) as limit:
                while True:
                    message = await self.receive()
                    if message["type"] == "http.disconnect":
                        raise _ClientDisconnected
                    pieces.append(message.get("body", b""))
                    self._count(len(pieces[-1]))
                    # Django needs no more to see that the body is too large.
                    is_last = not message.get("more_body", False)
                    if is_last or self.size > settings.MAX_UPLOAD_BYTES:
                        return pieces
                    more = self.size / SLOWEST_RATE
                    limit.reschedule(begun + self.gateway.body_seconds + more)
        except TimeoutError:
            raise _RequestRefused("request-timeout") from None

    def _count(self, size: int) -> None:
        self.size += size
        self.gateway.bodies_size += size
        if self.gateway.bodies_size > self.gateway.bodies_bytes:
            raise _RequestRefused("unavailable")

    def release(self) -> None:
        self.gateway.bodies_size -= self.size


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


def _response_start(answer: Response) -> Message:
    return {
        "type": "http.response.start",
        "status": answer.status,
        "headers": answer.headers,
    }


async def _send_message(send: Send, message: Message) -> None:
    await send(message)
