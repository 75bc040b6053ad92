"""Four times the requests that the web server can answer, over many connections."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Thread

import psutil

from benchmarks import orders
from benchmarks.client import NUMBER, Load, load, request
from benchmarks.figures import Figure, bench
from benchmarks.service import Service, create_client, used_memory

PATH = "/api/v1/reports"
# Enough to keep all threads busy, and few enough that nothing waits for long.
FEW = 32
TIMES = 4
# Goodput under overload, as a part of the peak
PART = 0.8
MAX_SERVED_MILLISECONDS = 1_500
MAX_REFUSED_MILLISECONDS = 50


@bench(seconds=0.4, connections=40)
def overload(
    service: Service, seconds: float = 20, connections: int = 512
) -> Iterator[Figure]:
    _, key = create_client()
    number = 10_000_000
    body = orders.numbered(number).replace(str(number).encode(), NUMBER)
    sent = request("POST", PATH, key, body)
    with service.web() as web:
        # The first requests load what the service needs.
        load(service.port, sent, connections=FEW, seconds=seconds / 4)
        peak = load(service.port, sent, connections=FEW, seconds=seconds / 2)
        before = _megabytes(web)
        offered = TIMES * peak.rate
        during: list[float] = []
        watcher = Thread(target=_watch, args=[web, seconds, during])
        watcher.start()
        many = load(
            service.port, sent, connections=connections, seconds=seconds, rate=offered
        )
        watcher.join()
    assert set(many.statuses) <= {"201", "503"}, many.statuses
    yield Figure("peak, requests a second", [peak.rate], "", rate=True)
    yield Figure("requests a second sent", [many.rate], "", rate=True)
    goodput = len(many.taken["201"]) / many.seconds
    yield Figure(
        "goodput", [goodput], "", rate=True, target=PART * peak.rate, floor=[peak.rate]
    )
    yield from _latencies(many)
    yield Figure("memory before", [before], "MiB")
    yield Figure("memory, highest", [max(during)], "MiB", target=1.3 * before)


def _latencies(many: Load) -> Iterator[Figure]:
    yield Figure(
        "answered, ms", many.taken["201"], at=99, target=MAX_SERVED_MILLISECONDS
    )
    if refused := many.taken.get("503"):
        yield Figure("refused, ms", refused, target=MAX_REFUSED_MILLISECONDS)
        yield Figure("refused, ms", refused, at=99)


def _watch(web: psutil.Process, seconds: float, during: list[float]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        during.append(_megabytes(web))
        time.sleep(0.5)


def _megabytes(web: psutil.Process) -> float:
    return used_memory(web) / 2**20
