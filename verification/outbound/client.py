"""The one HTTP client for calls whose answer is waited for.

    answer = session(opened).post(url, json=..., timeout=5)

What differs from a plain `requests.Session`:

- A name is looked up once for each connection, every address it has is vetted, and the
  connection goes to a vetted one. Certificates are checked against the name.
- Only https is spoken, save to the `opened` hosts of a development setting.
- The environment's proxies and .netrc are not used, cookies not kept, redirects not
  followed: an answer of 3xx is an answer.
- The timeout is for the whole call from the first packet to the last byte, however
  slowly they drip, and is never more than `seconds`. (Looking a name up takes what the
  system's resolver takes.)
- An answer of more than `limit` bytes, unpacked, is an error; `stream` changes nothing.

Raises `targets.Blocked` and what `requests` raises. Never retries.
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
# Connections that are kept open to one host: as many as threads ask it at once.
POOL_SIZE = 128

# By time.monotonic(), when the call that is under way has to be over.
_deadline: ContextVar[float] = ContextVar("_end")


class TooLarge(requests.RequestException):
    """The answer is longer than any that is expected."""


def create_session(
    opened: Collection[str] = (),
    *,
    seconds: float = SECONDS,
    limit: int = MAX_BODY_BYTES,
) -> requests.Session:
    """A session of its own for one other service; threads may share it."""
    made = _Session()
    made.trust_env = False
    made.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    adapter = _Adapter(frozenset(opened), seconds, limit)
    made.mount("https://", adapter)
    made.mount("http://", adapter)
    return made


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
            # At once, and not when the garbage is collected.
            response.close()
            raise
        return bytes(body)


class _GuardedConnection:
    """Makes a connection of urllib3 go to vetted addresses, and keep to the end."""

    opened: ClassVar[frozenset[str]]
    sock: Any
    _dns_host: str
    port: int

    def _new_conn(self: Any) -> socket.socket:
        failure: OSError | None = None
        for family, kind, protocol, _, address in self._addresses():
            made = socket.socket(family, kind, protocol)
            try:
                made.settimeout(_remaining_seconds())
                made.connect(address)
                # The TLS handshake comes next.
                made.settimeout(_remaining_seconds())
                return made
            except OSError as e:
                made.close()
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
    """A socket whose every wait ends when the call has to.

    A timeout of a socket begins anew with each packet.
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
        # Keeps the socket open for reading after the connection has let go of it.
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
    left = _deadline.get() - time.monotonic()
    if left <= 0:
        raise TimeoutError("The call takes too long.")
    return left
