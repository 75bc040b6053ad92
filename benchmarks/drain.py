"""How fast one cluster runs sandbox checks, everything that is written included."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from benchmarks import orders
from benchmarks.measuring import Figure, bench
from benchmarks.service import Service, client
from verification.api.content import parse_json_object
from verification.reports.create import create_reports
from verification.reports.request import catalogue, read_orders
from workspaces.models import Client

CHECKS = len(orders.CHECKS)
DUE = "SELECT count(*) FROM checks_checkresult WHERE next_attempt_at IS NOT NULL"
TARGET, UNIT = 1_000, "checks/s"


@bench(reports=10, rounds=1, waiting=60, seconds=0.2)
def drain(
    service: Service,
    reports: int = 500,
    rounds: int = 5,
    waiting: int = 100_000,
    seconds: float = 3,
) -> Iterator[Figure]:
    ordering, _ = client()
    with service.connect() as db:
        with service.jobs():
            rates = [_all_of(ordering, db, reports) for _ in range(rounds + 1)]
        what = f"{reports} reports of {CHECKS} checks"
        yield Figure(what, rates[1:] or rates, UNIT, target=TARGET, rate=True)
        most = _let_wait(ordering, db, waiting)
        with service.jobs():
            rates = [_rate(db, seconds) for _ in range(rounds)]
            still = db.execute(DUE).fetchone()[0]
        what = f"the same with {most:,} to {still:,} waiting"
        yield Figure(what, rates, UNIT, target=TARGET, rate=True)


def _let_wait(ordering: Client, db: Any, checks: int) -> int:
    """Create reports for so many checks while no cluster runs."""
    for _ in range(checks // (500 * CHECKS) + 1):
        _create(ordering, min(500, checks // CHECKS))
    return int(db.execute(DUE).fetchone()[0])


def _all_of(ordering: Client, db: Any, reports: int) -> float:
    """Checks a second, from the commit of the reports to the last check's."""
    _create(ordering, reports)
    started = time.perf_counter()
    while db.execute(DUE).fetchone()[0]:
        time.sleep(0.01)
    return reports * CHECKS / (time.perf_counter() - started)


def _rate(db: Any, seconds: float) -> float:
    """Checks a second over a while; counting them more often would slow them."""
    before, started = db.execute(DUE).fetchone()[0], time.perf_counter()
    time.sleep(seconds)
    after = db.execute(DUE).fetchone()[0]
    return (before - after) / (time.perf_counter() - started)


def _create(ordering: Client, reports: int) -> None:
    body = parse_json_object(orders.body(reports))
    create_reports(ordering, read_orders(body, ordering.environment, catalogue()))
