"""Requests of one report from several clients, next to a view that does nothing."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import orders
from benchmarks.client import NUMBER, Load, load, request
from benchmarks.figures import Figure, bench
from benchmarks.service import Service, count_statements, create_client, free_port

PATH = "/api/v1/reports"
MOST_STATEMENTS = 6


@bench(seconds=0.2, rounds=1)
def create_single(
    service: Service, seconds: float = 5, rounds: int = 5, connections: int = 8
) -> Iterator[Figure]:
    _, key = create_client()
    yield Figure(
        "statements",
        [count_statements(PATH, key, orders.body(1))],
        "",
        target=MOST_STATEMENTS,
    )
    number = 10_000_000
    body = orders.numbered(number).replace(str(number).encode(), NUMBER)
    sent, port = request("POST", PATH, key, body), free_port()
    ours: list[Load] = []
    bare: list[Load] = []
    with service.web(), service.process("-m", "benchmarks.bare", PORT=str(port)):
        service.wait_for("/healthz", port)
        for round in range(rounds + 1):
            for to, loads in ((service.port, ours), (port, bare)):
                made = load(to, sent, connections=connections, seconds=seconds)
                assert list(made.statuses) == ["201"], made.statuses
                if round or rounds == 1:
                    loads.append(made)
    rates, bare_rates = ([made.rate for made in loads] for loads in (ours, bare))
    unit = "requests/s"
    yield Figure("answered", rates, unit, target=500, floor=bare_rates, rate=True)
    yield Figure("answered after", [1000 * connections / rate for rate in rates])
    for what, loads in (("", ours), (", bare view", bare)):
        shares = [100 * made.cpu_seconds / made.seconds for made in loads]
        yield Figure(f"the client's part of a core{what}", shares, "%")
