"""A cheap HTTP client that runs in its own process.

It uses raw sockets and ready-made requests, because an HTTP library would take a
processor from the measured service.
"""

from __future__ import annotations

import base64
import json
import resource
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from itertools import count
from threading import Thread
from typing import Any

# A placeholder in a request; each request gets another number of the same length.
NUMBER = b"@NUMBER@"


class Connection:
    """A persistent connection; `send` returns status and body."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: bytes) -> tuple[int, bytes]:
        self._socket.sendall(request)
        received = b""
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self._more()
        head = received[:end].lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        parts, missing = [received[end + 4 :]], end + 4 + length - len(received)
        while missing > 0:
            parts.append(self._more())
            missing -= len(parts[-1])
        return int(head[9:12]), b"".join(parts)

    def _more(self) -> bytes:
        received = self._socket.recv(262_144)
        if not received:
            raise ConnectionError("the server closed the connection")
        return received


def request(method: str, path: str, key: str, body: bytes = b"") -> bytes:
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass(frozen=True, slots=True)
class Load:
    """The answers that several connections got in some time."""

    statuses: dict[str, int]
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        return sum(self.statuses.values()) / self.seconds


def load(port: int, sent: bytes, *, connections: int, seconds: float) -> Load:
    """Repeat a request through several connections, from a new process."""
    task = {
        "port": port,
        "request": base64.b64encode(sent).decode(),
        "connections": connections,
        "seconds": seconds,
        # The numbers differ from those of earlier loads of this run.
        "first": int(time.time() * 1000) % 50_000_000 + 10_000_000,
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.client"],
        input=json.dumps(task),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Load(**json.loads(done.stdout))


def _send_many(task: dict[str, Any]) -> dict[str, Any]:
    sent, numbers = base64.b64decode(task["request"]), count(task["first"])
    statuses: Counter[int] = Counter()
    until = time.monotonic() + task["seconds"]

    def send_until_end() -> None:
        connection = Connection(task["port"])
        while time.monotonic() < until:
            number = b"%08d" % next(numbers)
            statuses[connection.send(sent.replace(NUMBER, number))[0]] += 1

    threads = [Thread(target=send_until_end) for _ in range(task["connections"])]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "statuses": statuses,
        "seconds": time.monotonic() - started,
        "cpu_seconds": used.ru_utime + used.ru_stime,
    }


if __name__ == "__main__":
    print(json.dumps(_send_many(json.load(sys.stdin))))
