"""The operator's HTTP proxy, through which calls leave the network by CONNECT.

The proxy sees the host or address of a call and no more: TLS is between the service and
the other system. Calls to hosts that the operator names in settings are tunnelled by
name, because such proxies permit names. Receivers of webhooks are named by clients, so
their tunnel leads to an address that `targets` has checked, whatever the proxy would
resolve.
"""

from __future__ import annotations

import asyncio
import re
import socket
from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from aiohappyeyeballs import start_connection

MAX_HEAD_BYTES = 16 * 1024
# A silent address leaves time for the proxy's next one.
CONNECT_SECONDS = 3
STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3})")
WRONG_URL = "must be http://host:port or http://user:password@host:port"


class ProxyError(ConnectionError):
    """The proxy did not open a tunnel; the text names no host and no secret."""


@dataclass(frozen=True, slots=True)
class Proxy:
    host: str
    port: int
    # The value of Proxy-Authorization, or "".
    authorization: str = field(default="", repr=False)

    @classmethod
    def parse(cls, url: str) -> Proxy:
        """Read a proxy's URL. Raises ValueError, whose text holds no part of it."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError(WRONG_URL) from None
        rest = parts.path.strip("/") or parts.query or parts.fragment
        if parts.scheme != "http" or not host or not port or rest:
            raise ValueError(WRONG_URL)
        authorization = ""
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            authorization = f"Basic {b64encode(pair.encode()).decode()}"
        return cls(host, port, authorization)

    def request_for(self, host: str, port: int) -> bytes:
        """Return the request that opens a tunnel to this host or address."""
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if self.authorization:
            lines.append(f"Proxy-Authorization: {self.authorization}")
        return "\r\n".join([*lines, "", ""]).encode("ascii")


class Answer:
    """The head of the proxy's answer, fed piece by piece as it arrives."""

    def __init__(self) -> None:
        self._head = b""

    def is_complete(self, piece: bytes) -> bool:
        """Add a piece; return whether the tunnel is open. Raises ProxyError."""
        self._head += piece
        if not piece or len(self._head) > MAX_HEAD_BYTES:
            raise ProxyError("The proxy did not answer the request for a tunnel.")
        head, found, rest = self._head.partition(b"\r\n\r\n")
        if not found:
            return False
        status = STATUS_LINE.match(head)
        if status is None or rest:
            raise ProxyError("The proxy did not answer as a proxy does.")
        if not status[1].startswith(b"2"):
            raise ProxyError(f"The proxy answered with status {int(status[1])}.")
        return True


async def open_tunnel(proxy: Proxy, host: str, port: int) -> socket.socket:
    """Return a socket whose other end is that host or address. Raises ProxyError."""
    loop = asyncio.get_running_loop()
    sock, answer = await _connect_to(proxy), Answer()
    try:
        await loop.sock_sendall(sock, proxy.request_for(host, port))
        while not answer.is_complete(await loop.sock_recv(sock, MAX_HEAD_BYTES)):
            pass
    except BaseException as e:
        sock.close()
        if isinstance(e, OSError) and not isinstance(e, ProxyError):
            raise ProxyError("The proxy broke off.") from e
        raise
    return sock


async def _connect_to(proxy: Proxy) -> socket.socket:
    """Return a socket that is connected to the first address that answers."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM)
        async with asyncio.timeout(CONNECT_SECONDS * len(found)):
            return await start_connection(found, happy_eyeballs_delay=CONNECT_SECONDS)
    except OSError as e:
        raise ProxyError("The proxy could not be reached.") from e
