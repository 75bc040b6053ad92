"""A TCP relay in front of the database, whose network can be cut."""

import socket
import threading
from contextlib import suppress
from typing import Self


class Relay:
    """Forwards connections to PostgreSQL's socket in a folder.

    While it is cut, packets vanish in both directions, and no connection ends.
    """

    def __init__(self, folder: str) -> None:
        self._target = f"{folder}/.s.PGSQL.5432"
        self._is_open = threading.Event()
        self._is_open.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self.port = self._listener.getsockname()[1]
        # The number of connections so far.
        self.connections = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.mend()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def cut(self) -> None:
        self._is_open.clear()

    def mend(self) -> None:
        self._is_open.set()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
                self.connections += 1
                self._sockets += [client, server]
                for ends in ((client, server), (server, client)):
                    threading.Thread(
                        target=self._forward, args=ends, daemon=True
                    ).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._is_open.wait()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
