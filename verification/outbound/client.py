"""The HTTP client for all synchronous calls to other systems.

    answer = create_session(opened).post(url, json=..., timeout=5)

Its differences from a plain `requests.Session`:

- Each connection resolves the name once, checks every address, and goes to a checked
  one. Certificates must fit the name.
- It speaks only https, except to the `opened` hosts of a development setting.
- It ignores the environment's proxies and .netrc, drops cookies, and returns answers
  with status 3xx instead of following redirects.
- With OUTBOUND_PROXY it goes through that proxy, which resolves the names, to all but
  the `opened` hosts. It trusts the certificates of OUTBOUND_CA_FILE, too.
- The timeout covers the whole call, from the first packet to the last byte, and is at
  most `seconds`. The system's resolver has its own timeout.
- An unpacked answer of more than `limit` bytes is an error, with `stream` as well.

A call raises `targets.Blocked` or the errors of `requests`. It never retries.
"""

import io
import logging
import socket
import ssl
import time
from collections.abc import Collection, Iterator
from contextvars import ContextVar
from functools import cache
from http.cookiejar import DefaultCookiePolicy
from typing import Any, ClassVar, cast
from urllib.parse import urlsplit

import requests
from django.conf import settings
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    SSLError,
)

from verification import tracing
from verification.outbound import targets
from verification.outbound.proxy import MAX_HEAD_BYTES, Answer, Proxy, ProxyError

logger = logging.getLogger(__name__)

SECONDS = 20.0
# No call may take longer, because a job cluster that stops waits for its calls.
LONGEST_SECONDS = 30.0
MAX_BODY_BYTES = 2 * 1024 * 1024
# Open connections to one host: as many as threads that call it at once.
POOL_SIZE = 128

# The end of the current call, on the clock of time.monotonic().
_deadline: ContextVar[float] = ContextVar("_end")


class NoTunnel(NewConnectionError):
    """The proxy opened no tunnel, so the other system got no request."""


class HandshakeFailed(ssl.SSLError):
    """No TLS connection was made, so the other system got no request."""


class TooLarge(requests.RequestException):
    """The answer exceeds the limit of bytes."""


def was_sent(e: BaseException) -> bool:
    """Return whether the request may have arrived: False if no connection was made."""
    inner = inner_error(e)
    if isinstance(inner, SSLError):
        # An answer can break off in a TLS error, too.
        return not isinstance(inner.args[0], HandshakeFailed)
    unmade = ConnectTimeoutError | NewConnectionError | socket.gaierror
    return not isinstance(inner, unmade) and not isinstance(e, unmade)


def inner_error(e: BaseException) -> object:
    """Return urllib3's own error, which `requests` wraps."""
    cause = e.args[0] if e.args else None
    return getattr(cause, "reason", cause)


def create_session(
    opened: Collection[str] = (),
    *,
    seconds: float = SECONDS,
    limit: int = MAX_BODY_BYTES,
) -> requests.Session:
    """Make a session for one other system; threads may share it."""
    if seconds > LONGEST_SECONDS:
        raise ValueError(f"A call may take {LONGEST_SECONDS:.0f} seconds at most.")
    session = _Session()
    session.trust_env = False
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    adapter = _Adapter(frozenset(opened), seconds, limit, settings.OUTBOUND_PROXY)
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    return session


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> None:
        return None


class _Adapter(HTTPAdapter):
    def __init__(
        self, opened: frozenset[str], seconds: float, limit: int, proxy: Proxy | None
    ) -> None:
        self._opened, self._seconds, self._limit = opened, seconds, limit
        self._proxy = proxy
        super().__init__(pool_maxsize=POOL_SIZE)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        if settings.OUTBOUND_CA_FILE:
            # `requests` adds its own certificates to this context.
            kwargs["ssl_context"] = trusting(settings.OUTBOUND_CA_FILE)
        super().init_poolmanager(*args, **kwargs)
        guards = {"opened": self._opened, "tunnel_proxy": self._proxy}
        self.poolmanager.pool_classes_by_scheme = {
            "http": _pool(HTTPConnectionPool, HTTPConnection, guards),
            "https": _pool(HTTPSConnectionPool, HTTPSConnection, guards),
        }

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        self._check_scheme(request.url or "")
        seconds = self._seconds
        if isinstance(timeout, int | float):
            seconds = min(seconds, timeout)
        token = _deadline.set(time.monotonic() + seconds)
        try:
            with _span(request) as span:
                response = super().send(
                    request, stream=True, timeout=seconds, verify=verify, cert=cert
                )
                self._read(response)
                span.set({"http.response.status_code": response.status_code})
            return response
        finally:
            _deadline.reset(token)

    def _check_scheme(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme == "https":
            return
        host, port = parts.hostname or "", parts.port or 80
        if not targets.is_allowed_host(host, port, self._opened):
            raise targets.Blocked("Only https is spoken.")

    def _read(self, response: requests.Response) -> None:
        """Let the response read its body, which it keeps, up to the limit."""
        raw = response.raw
        response.raw = _Limited(raw, self._limit)
        try:
            _ = response.content
        except BaseException:
            response.raw = raw
            # Close now instead of when the garbage is collected.
            response.close()
            raise
        response.raw = raw


class _Limited:
    """The unpacked body of an answer, as `requests` reads it."""

    def __init__(self, raw: Any, limit: int) -> None:
        self._raw, self._limit = raw, limit

    def stream(self, amt: int, decode_content: bool) -> Iterator[bytes]:
        size = 0
        for chunk in self._raw.stream(amt, decode_content=decode_content):
            size += len(chunk)
            if size > self._limit:
                raise TooLarge("The answer is too large.")
            yield chunk


class _GuardedConnection:
    """Limit a connection of urllib3 to allowed addresses and to the call's deadline."""

    opened: ClassVar[frozenset[str]]
    # The name `proxy` is urllib3's own.
    tunnel_proxy: ClassVar[Proxy | None]
    sock: Any
    _dns_host: str
    port: int

    # urllib3 has no public name for making the socket, and no other place where the
    # name is resolved once, checked, and connected to.
    def _new_conn(self: Any) -> socket.socket:
        host, port = self._dns_host, self.port
        is_opened = targets.is_allowed_host(host, port, self.opened)
        if self.tunnel_proxy is None or is_opened:
            return self._connect_to(self._addresses(is_opened))
        # The proxy resolves the name; an address in its place is checked here.
        targets.check_host(host)
        return self._open_tunnel(self.tunnel_proxy, host, port)

    def _open_tunnel(self: Any, proxy: Proxy, host: str, port: int) -> socket.socket:
        try:
            sock = self._connect_to(_look_up(self, proxy.host, proxy.port))
        except HTTPError as e:
            logger.warning("OUTBOUND_PROXY could not be reached")
            raise NoTunnel(self, "The proxy could not be reached.") from e
        try:
            sock.sendall(proxy.request_for(host, port))
            answer = Answer()
            while not answer.is_complete(sock.recv(MAX_HEAD_BYTES)):
                sock.settimeout(_remaining_seconds())
        except OSError as e:
            sock.close()
            why = e if isinstance(e, ProxyError) else "The proxy broke off."
            logger.warning("OUTBOUND_PROXY: %s", why)
            raise NoTunnel(self, str(why)) from e
        sock.settimeout(_remaining_seconds())
        return cast(socket.socket, sock)

    def _connect_to(self: Any, addresses: list[Any]) -> socket.socket:
        failure: OSError | None = None
        for family, kind, protocol, _, address in addresses:
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(_remaining_seconds())
                sock.connect(address)
                # For the TLS handshake, which comes next.
                sock.settimeout(_remaining_seconds())
                return sock
            except OSError as e:
                sock.close()
                failure = e
        if isinstance(failure, TimeoutError):
            raise ConnectTimeoutError(self, "The connection timed out.")
        raise NewConnectionError(self, "The connection was not made.") from failure

    def _addresses(self: Any, is_opened: bool) -> list[Any]:
        found = _look_up(self, self._dns_host, self.port)
        if not is_opened:
            for *_, address in found:
                targets.check_address(str(address[0]))
        return found

    def connect(self) -> None:
        try:
            super().connect()  # type: ignore[misc]
        except ssl.SSLError as e:
            raise HandshakeFailed(*e.args) from e
        self.sock = _DeadlineSocket(self.sock)


def _span(request: requests.PreparedRequest) -> tracing.Span:
    # The host alone: paths and queries may hold names and numbers.
    host = urlsplit(request.url or "").hostname
    given = {"http.request.method": request.method, "server.address": host}
    return tracing.span(f"{request.method} {host}", given, kind="CLIENT")


def _look_up(connection: Any, host: str, port: int) -> list[Any]:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as e:
        raise NameResolutionError(host, connection, e) from e


@cache
def trusting(*files: str) -> ssl.SSLContext:
    """Return a context that trusts these files' certificates and the system's.

    Cached, because reading the certificates takes longer than a request.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    for file in files:
        context.load_verify_locations(cafile=file)
    return context


def _pool(pool: type, connection: type, guards: dict[str, Any]) -> type:
    guarded = type("Guarded", (_GuardedConnection, connection), guards)
    return type("GuardedPool", (pool,), {"ConnectionCls": guarded})


class _DeadlineSocket:
    """A socket that waits at most until the call's deadline.

    A plain socket restarts its timeout with each packet.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(_remaining_seconds())
        self._sock.sendall(data)

    def makefile(self, *args: Any, **kwargs: Any) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._sock))


class _Reader(io.RawIOBase):
    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        # Keeps the socket readable after the connection has closed its own reference.
        self._file = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_remaining_seconds())
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


def _remaining_seconds() -> float:
    seconds = _deadline.get() - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("The call takes too long.")
    return seconds
