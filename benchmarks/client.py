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
from collections import defaultdict
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
    # The milliseconds of each answer, by its status.
    taken: dict[str, list[float]]

    @property
    def rate(self) -> float:
        return sum(self.statuses.values()) / self.seconds


def load(
    port: int,
    sent: bytes,
    *,
    connections: int,
    seconds: float,
    rate: float | None = None,
) -> Load:
    """Repeat a request through several connections, from a new process.

    All of them together send `rate` requests a second, or each its next one when it has
    the answer.
    """
    task = {
        "port": port,
        "request": base64.b64encode(sent).decode(),
        "connections": connections,
        "seconds": seconds,
        "pause": connections / rate if rate else 0,
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
    taken: defaultdict[int, list[float]] = defaultdict(list)
    pause, began = task["pause"], time.monotonic()
    until = began + task["seconds"]

    def send_until_end(first: int) -> None:
        connection = Connection(task["port"])
        due = began + pause * first / task["connections"]
        while max(due, time.monotonic()) < until:
            time.sleep(max(0, due - time.monotonic()))
            # A connection that is late leaves out the requests that it has missed.
            due = max(due, time.monotonic() - pause) + pause
            number = b"%08d" % next(numbers)
            sent_at = time.monotonic()
            status, _ = connection.send(sent.replace(NUMBER, number))
            taken[status].append((time.monotonic() - sent_at) * 1000)

    threads = [
        Thread(target=send_until_end, args=[n]) for n in range(task["connections"])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "statuses": {status: len(times) for status, times in taken.items()},
        "taken": taken,
        "seconds": time.monotonic() - began,
        "cpu_seconds": used.ru_utime + used.ru_stime,
    }


if __name__ == "__main__":
    print(json.dumps(_send_many(json.load(sys.stdin))))
