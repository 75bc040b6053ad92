"""One report a request, from several clients, next to a view that does nothing."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import connection
from django.test import Client as HttpClient
from django.test.utils import CaptureQueriesContext

from benchmarks import orders
from benchmarks.client import NUMBER, Load, load, request
from benchmarks.measuring import Figure, bench
from benchmarks.service import Service, client, free_port

PATH = "/api/v1/reports"
MOST_STATEMENTS = 14


@bench(seconds=0.2, rounds=1)
def create_single(
    service: Service, seconds: float = 5, rounds: int = 5, connections: int = 8
) -> Iterator[Figure]:
    _, key = client()
    yield Figure("statements", [_statements(key)], "", target=MOST_STATEMENTS)
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


def _statements(key: str) -> float:
    """What one request sends to the database, BEGIN and COMMIT included."""
    http = HttpClient(headers={"Authorization": f"Bearer {key}", "Host": "localhost"})
    for _ in range(2):  # the first notes when the key was used, once a minute
        with CaptureQueriesContext(connection) as captured:
            answer = http.post(PATH, orders.body(1), content_type="application/json")
        assert answer.status_code == 201, answer.content
    return len(captured)
