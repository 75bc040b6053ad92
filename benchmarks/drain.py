"""The checks a second of one cluster in the sandbox, and of two, with their rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from benchmarks import orders
from benchmarks.figures import Figure, bench
from benchmarks.service import Service, create_client
from workspaces.models import Client

CHECKS = len(orders.CHECKS)
DUE = "SELECT count(*) FROM checks_checkresult WHERE next_attempt_at IS NOT NULL"
TARGET, UNIT = 1_000, "checks/s"
# A second host shares the processors here, so it can gain nothing; nor may it cost.
MOST_COST = 1.1


@bench(reports=10, turns=1, rounds=1, waiting=60, seconds=0.2)
def drain(
    service: Service,
    reports: int = 500,
    turns: int = 2,
    rounds: int = 5,
    waiting: int = 100_000,
    seconds: float = 3,
) -> Iterator[Figure]:
    client, _ = create_client()
    with service.connect() as db:
        alone: list[float] = []
        both: list[float] = []
        # In turn, as the machine's speed changes.
        for _ in range(turns):
            with service.jobs():
                alone += _rates(client, db, reports, rounds)
            with service.jobs(), service.second_host():
                both += _rates(client, db, reports, rounds)
        what = f"{reports} reports of {CHECKS} checks"
        yield Figure(what, alone, UNIT, target=TARGET, rate=True)
        what = "the same beside a second host"
        yield Figure(what, both, UNIT, floor=alone, ratio=MOST_COST, rate=True)
        most = _fill_queue(client, db, waiting)
        with service.jobs():
            rates = [_rate(db, seconds) for _ in range(rounds)]
            end = db.execute(DUE).fetchone()[0]
        what = f"the same with {most:,} to {end:,} waiting"
        yield Figure(what, rates, UNIT, target=TARGET, rate=True)


def _fill_queue(client: Client, db: Any, checks: int) -> int:
    """Create reports with this number of checks while no cluster runs."""
    for _ in range(checks // (500 * CHECKS) + 1):
        orders.create(client, min(500, checks // CHECKS))
    return int(db.execute(DUE).fetchone()[0])


def _rates(client: Client, db: Any, reports: int, rounds: int) -> list[float]:
    """Return checks a second of some rounds, after one that warms the cluster up."""
    return [_run_checks(client, db, reports) for _ in range(rounds + 1)][1:]


def _run_checks(client: Client, db: Any, reports: int) -> float:
    """Create reports. Returns checks a second until the last check has ended."""
    orders.create(client, reports)
    started = time.perf_counter()
    while db.execute(DUE).fetchone()[0]:
        time.sleep(0.01)
    return reports * CHECKS / (time.perf_counter() - started)


def _rate(db: Any, seconds: float) -> float:
    """Return checks a second; counting more often would slow them."""
    before, started = db.execute(DUE).fetchone()[0], time.perf_counter()
    time.sleep(seconds)
    after = db.execute(DUE).fetchone()[0]
    return (before - after) / (time.perf_counter() - started)
