"""The HTTP client for all synchronous calls to other systems.

    answer = create_session(opened).post(url, json=..., timeout=5)

Its differences from a plain `requests.Session`:

- Each connection resolves the name once, checks every address, and goes to a checked
  one. Certificates must fit the name.
- It speaks only https, except to the `opened` hosts of a development setting.
- It ignores the environment's proxies and .netrc, drops cookies, and returns answers
  with status 3xx instead of following redirects.
- The timeout covers the whole call, from the first packet to the last byte, and is at
  most `seconds`. The system's resolver has its own timeout.
- An unpacked answer of more than `limit` bytes is an error, with `stream` as well.

A call raises `targets.Blocked` or the errors of `requests`. It never retries.
"""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Collection
from contextvars import ContextVar
from http.cookiejar import DefaultCookiePolicy
from typing import Any, ClassVar
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    NameResolutionError,
    NewConnectionError,
)

from verification.outbound import targets

SECONDS = 20.0
MAX_BODY_BYTES = 2 * 1024 * 1024
CHUNK = 65536
# Open connections to one host: as many as threads that call it at once.
POOL_SIZE = 128

# The end of the current call, on the clock of time.monotonic().
_deadline: ContextVar[float] = ContextVar("_end")


class TooLarge(requests.RequestException):
    """The answer exceeds the limit of bytes."""


def create_session(
    opened: Collection[str] = (),
    *,
    seconds: float = SECONDS,
    limit: int = MAX_BODY_BYTES,
) -> requests.Session:
    """Make a session for one other system; threads may share it."""
    session = _Session()
    session.trust_env = False
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    adapter = _Adapter(frozenset(opened), seconds, limit)
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    return session


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> None:
        return None


class _Adapter(HTTPAdapter):
    def __init__(self, opened: frozenset[str], seconds: float, limit: int) -> None:
        self._opened, self._seconds, self._limit = opened, seconds, limit
        super().__init__(pool_maxsize=POOL_SIZE)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {
            "http": _pool(HTTPConnectionPool, HTTPConnection, self._opened),
            "https": _pool(HTTPSConnectionPool, HTTPSConnection, self._opened),
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
            response = super().send(
                request, stream=True, timeout=seconds, verify=verify, cert=cert
            )
            response._content = self._body(response)
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

    def _body(self, response: requests.Response) -> bytes:
        body = bytearray()
        try:
            for chunk in response.iter_content(CHUNK):
                body += chunk
                if len(body) > self._limit:
                    raise TooLarge("The answer is too large.")
        except BaseException:
            # Close now instead of when the garbage is collected.
            response.close()
            raise
        return bytes(body)


class _GuardedConnection:
    """Limit a connection of urllib3 to allowed addresses and to the call's deadline."""

    opened: ClassVar[frozenset[str]]
    sock: Any
    _dns_host: str
    port: int

    def _new_conn(self: Any) -> socket.socket:
        failure: OSError | None = None
        for family, kind, protocol, _, address in self._addresses():
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

    def _addresses(self: Any) -> list[Any]:
        host, port = self._dns_host, self.port
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except socket.gaierror as e:
            raise NameResolutionError(host, self, e) from e
        if not targets.is_allowed_host(host, port, self.opened):
            for *_, address in found:
                targets.check_address(str(address[0]))
        return found

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]
        self.sock = _DeadlineSocket(self.sock)


def _pool(pool: type, connection: type, opened: frozenset[str]) -> type:
    guarded = type("Guarded", (_GuardedConnection, connection), {"opened": opened})
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
