"""Calls of slow live sources by one cluster, also beside a source that is dead."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from benchmarks import orders, registers
from benchmarks.figures import Figure, bench
from benchmarks.service import Service, create_client, free_port, used_memory
from workspaces.models import Client

DUE = """
SELECT count(*) FROM checks_checkresult
WHERE next_attempt_at IS NOT NULL AND name = ANY(%s)
"""
CALLS = "SELECT count(*) FROM sources_call WHERE source = 'metropol' AND \"end\" <> %s"
RESTING = (
    "SELECT 1 FROM sources_source WHERE name = 'metropol' AND resting_until IS NOT NULL"
)
FORGET = "DELETE FROM sources_call; DELETE FROM sources_source"
BOTH = ["IDENTITY", "CRB_SCORE"]


@bench(reports=20, rounds=1)
def sources(service: Service, reports: int = 800, rounds: int = 3) -> Iterator[Figure]:
    service.close()
    client, _ = create_client("production")
    with _registers(service) as port, service.connect() as db:
        with _cluster_with_sources(service, port) as jobs:
            _run_checks(client, db, reports // 10 + 1, BOTH)
            rates, held = [], []
            for _ in range(rounds):
                rates.append(_run_checks(client, db, reports, BOTH))
                held.append(used_memory(jobs) / 10**6)
            yield Figure(
                "calls of two sources", rates, "calls/s", target=400, rate=True
            )
            yield Figure("job cluster meanwhile", held, "MB", target=250)
            alone = [
                _run_checks(client, db, reports, ["IDENTITY"]) for _ in range(rounds)
            ]
        for place in ("down", "hang"):
            yield from _beside(service, port, place, alone, reports, rounds)


def _beside(
    service: Service,
    port: int,
    place: str,
    alone: list[float],
    reports: int,
    rounds: int,
) -> Iterator[Figure]:
    """Measure the calls of one source while the other is down or hangs."""
    client, _ = create_client("production")
    rates, calls = [], []
    for _ in range(rounds):
        with service.connect() as db, _cluster_with_sources(service, port, place):
            db.execute(FORGET)
            _run_checks(client, db, 20, ["IDENTITY"])
            rates.append(_run_checks(client, db, reports, BOTH, until=["IDENTITY"]))
            if place == "down":
                calls.append(_calls_until_breaker_opens(db))
        service.park()
    what = f"calls of one source beside one that is {place}"
    yield Figure(what, rates, "calls/s", floor=alone, ratio=1.1, rate=True)
    if calls:
        yield Figure("calls until the breaker opened", calls, "", target=20)


def _calls_until_breaker_opens(db: Any) -> float:
    while not db.execute(RESTING).fetchone():
        time.sleep(0.05)
    return float(db.execute(CALLS, ["NOT_ASKED"]).fetchone()[0])


@contextmanager
def _registers(service: Service) -> Iterator[int]:
    port = free_port()
    with service.process("-m", "benchmarks.registers", str(port)):
        service.wait_for("/healthz", port)
        yield port


@contextmanager
def _cluster_with_sources(
    service: Service, port: int, place: str = ""
) -> Iterator[psutil.Process]:
    """Run a job cluster with both sources; `place` makes Metropol be down or hang."""
    url = f"http://127.0.0.1:{port}"
    sources = {
        "SOURCE_DEV_HOSTS": f"127.0.0.1:{port}",
        "SMILE_ID_PARTNER_ID": registers.PARTNER,
        "SMILE_ID_API_KEY": registers.KEY,
        "SMILE_ID_URL": url,
        "METROPOL_PUBLIC_KEY": "public",
        "METROPOL_PRIVATE_KEY": registers.KEY,
        "METROPOL_URL": f"{url}/{place}/v2_1" if place else f"{url}/v2_1",
    }
    os.environ |= sources
    try:
        with service.jobs() as jobs:
            yield jobs
    finally:
        service.close()
        for name in sources:
            del os.environ[name]


def _run_checks(
    client: Client,
    db: Any,
    reports: int,
    checks: list[str],
    until: list[str] | None = None,
) -> float:
    """Create reports. Returns checks a second until none of `until` is due."""
    until = until or checks
    for first in range(0, reports, 500):
        orders.create(client, min(500, reports - first), checks)
    started = time.perf_counter()
    while db.execute(DUE, [until]).fetchone()[0]:
        time.sleep(0.02)
    return reports * len(until) / (time.perf_counter() - started)
