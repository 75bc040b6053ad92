"""The HTTP proxy of the operator's network, which opens tunnels by CONNECT.

    with Proxy(routes={"hooks.test:443": ("127.0.0.1", port)}) as proxy:
        settings.OUTBOUND_PROXY = proxy.setting()

It knows its own way to each target, as a proxy with its own resolver does, and refuses
all others.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any

from verification.outbound import proxy as outbound


class Proxy:
    def __init__(
        self, routes: dict[str, tuple[str, int]], authorization: str = ""
    ) -> None:
        self.routes, self.authorization = routes, authorization
        # What clients asked for, refused or not.
        self.asked: list[str] = []
        # Answers in place of a tunnel.
        self.says: bytes | None = None
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Proxy:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        for one in (self._server, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def setting(self, credentials: str = "") -> outbound.Proxy:
        return outbound.Proxy.parse(self.url(credentials))

    def url(self, credentials: str = "") -> str:
        return f"http://{credentials}127.0.0.1:{self.port}"

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                self._sockets.append(client)
                self._start(self._open, client)

    def _open(self, client: socket.socket) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            if not (piece := client.recv(4096)):
                return
            head += piece
        first, *lines = head.decode().split("\r\n")
        method, target, _ = first.split(" ")
        self.asked.append(target)
        if self.says is not None:
            client.sendall(self.says)
            client.close()
            return
        if self.authorization and (
            f"Proxy-Authorization: {self.authorization}" not in lines
        ):
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            client.close()
            return
        if method != "CONNECT" or target not in self.routes:
            client.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
            client.close()
            return
        server = socket.create_connection(self.routes[target])
        self._sockets.append(server)
        client.sendall(b"HTTP/1.1 200 Connection established\r\nVia: acacia\r\n\r\n")
        self._start(self._copy, server, client)
        self._copy(client, server)

    def _start(self, function: Any, *arguments: Any) -> None:
        def run() -> None:
            with suppress(OSError):
                function(*arguments)

        threading.Thread(target=run, daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
