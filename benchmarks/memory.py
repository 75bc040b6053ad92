"""What web server and job cluster hold (PSS: what they share is shared out)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psutil

from benchmarks import orders
from benchmarks.client import Connection, request
from benchmarks.measuring import Figure, bench
from benchmarks.service import Service, client, family

PATH = "/api/v1/reports"
DUE = "SELECT count(*) FROM checks_checkresult WHERE next_attempt_at IS NOT NULL"


@bench(reports=5, batches=1)
def memory(service: Service, reports: int = 500, batches: int = 10) -> Iterator[Figure]:
    _, key = client()
    with service.web() as web, service.jobs() as jobs:
        parts = {"web server": web, "job cluster": jobs}
        for what, part in parts.items():
            yield _held(f"{what} at rest", part)
        connection = Connection(service.port)
        for _ in range(batches):
            body = orders.body(reports)
            status, answer = connection.send(request("POST", PATH, key, body))
            assert status == 201, answer
        _wait_until_drained(service)
        for what, part in parts.items():
            yield _held(f"{what} after {batches} batches of {reports}", part)


def _held(what: str, root: psutil.Process) -> Figure:
    processes = family(root)
    held = sum(process.memory_full_info().pss for process in processes)
    return Figure(f"{what}, {len(processes)} processes", [held / 2**20], "MiB")


def _wait_until_drained(service: Service) -> None:
    with service.connect() as db:
        while db.execute(DUE).fetchone()[0]:  # type: ignore[index]
            time.sleep(0.2)
