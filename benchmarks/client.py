"""A client that costs little, in a process of its own: `many` from `__main__`.

Raw sockets and requests made beforehand, because an HTTP library would take a core
from the service that is measured.
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

# Stands in a request where each one needs a number of its own; as long as the number.
NUMBER = b"@NUMBER@"


class Connection:
    """One connection that is kept; `send` returns status and body."""

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
    """What several connections got done in a while."""

    statuses: dict[str, int]
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        return sum(self.statuses.values()) / self.seconds


def load(port: int, sent: bytes, *, connections: int, seconds: float) -> Load:
    """Send this over and over through so many connections, from another process."""
    task = {
        "port": port,
        "request": base64.b64encode(sent).decode(),
        "connections": connections,
        "seconds": seconds,
        # Numbers that no earlier load of this run has sent.
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


def _many(task: dict[str, Any]) -> dict[str, Any]:
    sent, numbers = base64.b64decode(task["request"]), count(task["first"])
    statuses: Counter[int] = Counter()
    until = time.monotonic() + task["seconds"]

    def one() -> None:
        connection = Connection(task["port"])
        while time.monotonic() < until:
            number = b"%08d" % next(numbers)
            statuses[connection.send(sent.replace(NUMBER, number))[0]] += 1

    threads = [Thread(target=one) for _ in range(task["connections"])]
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
    print(json.dumps(_many(json.load(sys.stdin))))
