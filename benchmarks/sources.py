"""Live sources that take 200 ms: how fast one cluster asks them, and what a dead one
costs the others."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from benchmarks import orders, registers
from benchmarks.measuring import Figure, bench
from benchmarks.service import Service, client, family, free_port
from verification.api.content import parse_json_object
from verification.reports.create import create_reports
from verification.reports.request import catalogue, read_orders
from workspaces.models import Client

DUE = """
SELECT count(*) FROM checks_checkresult
WHERE next_attempt_at IS NOT NULL AND name = ANY(%s)
"""
ASKED = "SELECT count(*) FROM sources_call WHERE source = 'metropol' AND \"end\" <> %s"
RESTS = (
    "SELECT 1 FROM sources_source WHERE name = 'metropol' AND resting_until IS NOT NULL"
)
FORGET = "DELETE FROM sources_call; DELETE FROM sources_source"
BOTH = ["IDENTITY", "CRB_SCORE"]


@bench(reports=20, rounds=1)
def sources(service: Service, reports: int = 800, rounds: int = 3) -> Iterator[Figure]:
    service.close()
    ordering, _ = client("production")
    with _registers(service) as port, service.connect() as db:
        with _asking(service, port) as jobs:
            _all_of(ordering, db, reports // 10 + 1, BOTH)
            rates, held = [], []
            for _ in range(rounds):
                rates.append(_all_of(ordering, db, reports, BOTH))
                held.append(_held(jobs))
            yield Figure(
                "calls of two sources", rates, "calls/s", target=400, rate=True
            )
            yield Figure("job cluster meanwhile", held, "MB", target=250)
            alone = [
                _all_of(ordering, db, reports, ["IDENTITY"]) for _ in range(rounds)
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
    """Calls of the other source, while one is dead in this way."""
    ordering, _ = client("production")
    rates, asked = [], []
    for _ in range(rounds):
        with service.connect() as db, _asking(service, port, place):
            db.execute(FORGET)
            _all_of(ordering, db, 20, ["IDENTITY"])
            rates.append(_all_of(ordering, db, reports, BOTH, until=["IDENTITY"]))
            if place == "down":
                asked.append(_until_rest(db))
        service.park()
    what = f"calls of one source beside one that is {place}"
    yield Figure(what, rates, "calls/s", floor=alone, ratio=1.1, rate=True)
    if asked:
        yield Figure("calls until the breaker opened", asked, "", target=20)


def _until_rest(db: Any) -> float:
    while not db.execute(RESTS).fetchone():
        time.sleep(0.05)
    return float(db.execute(ASKED, ["NOT_ASKED"]).fetchone()[0])


@contextmanager
def _registers(service: Service) -> Iterator[int]:
    port = free_port()
    with service.process("-m", "benchmarks.registers", str(port)):
        service.wait_for("/healthz", port)
        yield port


@contextmanager
def _asking(service: Service, port: int, place: str = "") -> Iterator[psutil.Process]:
    """A job cluster that has contracts with both; Metropol is dead in this way."""
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


def _all_of(
    ordering: Client,
    db: Any,
    reports: int,
    checks: list[str],
    until: list[str] | None = None,
) -> float:
    """Checks a second, from the commit of the reports until none of these is due."""
    until = until or checks
    for first in range(0, reports, 500):
        items = [
            {**orders.order(), "checksRequested": checks}
            for _ in range(min(500, reports - first))
        ]
        body = parse_json_object(orders.bodies(items))
        create_reports(ordering, read_orders(body, ordering.environment, catalogue()))
    started = time.perf_counter()
    while db.execute(DUE, [until]).fetchone()[0]:
        time.sleep(0.02)
    return reports * len(until) / (time.perf_counter() - started)


def _held(root: psutil.Process) -> float:
    held = sum(process.memory_full_info().pss for process in family(root))
    return float(held) / 10**6
