"""The memory of web server and job cluster (PSS: shared pages count in parts)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psutil

from benchmarks import orders
from benchmarks.client import Connection, request
from benchmarks.figures import Figure, bench
from benchmarks.service import Service, create_client, family, used_memory

PATH = "/api/v1/reports"
DUE = "SELECT count(*) FROM checks_checkresult WHERE next_attempt_at IS NOT NULL"


@bench(reports=5, batches=1)
def memory(service: Service, reports: int = 500, batches: int = 10) -> Iterator[Figure]:
    _, key = create_client()
    with service.web() as web, service.jobs() as jobs:
        parts = {"web server": web, "job cluster": jobs}
        for what, part in parts.items():
            yield _used(f"{what} at rest", part)
        connection = Connection(service.port)
        for _ in range(batches):
            body = orders.body(reports)
            status, answer = connection.send(request("POST", PATH, key, body))
            assert status == 201, answer
        with service.connect() as db:
            while db.execute(DUE).fetchone()[0]:  # type: ignore[index]
                time.sleep(0.2)
        for what, part in parts.items():
            yield _used(f"{what} after {batches} batches of {reports}", part)


def _used(what: str, root: psutil.Process) -> Figure:
    what = f"{what}, {len(family(root))} processes"
    return Figure(what, [used_memory(root) / 2**20], "MiB")
