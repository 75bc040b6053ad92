"""One request that creates 500 reports, next to a COPY of the rows that it wrote."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import orders
from benchmarks.client import Connection, request
from benchmarks.copied import Written
from benchmarks.measuring import Figure, bench, interleaved
from benchmarks.parts import Parts
from benchmarks.service import Service, client


@bench(reports=5, rounds=2)
def create_batch(
    service: Service, reports: int = 500, rounds: int = 15
) -> Iterator[Figure]:
    for environment in ("sandbox", "production"):
        yield from _in(environment, service, reports, rounds)


def _in(
    environment: str, service: Service, reports: int, rounds: int
) -> Iterator[Figure]:
    ordering, key = client(environment)

    def answered() -> None:
        status, answer = connection.send(request("POST", PATH, key, bodies.pop()))
        assert status == 201, answer

    with service.web(), service.connect() as db:
        connection = Connection(service.port)
        bodies = [orders.body(reports) for _ in range(rounds + 3)]
        answered()
        written, parts = Written(db, ordering.workspace.pk), Parts(ordering, reports)
        taken, inside, copied, server = interleaved(
            rounds,
            *(answered, parts.create, written.copy_rows, written.copy_bytes),
            before=written.renew,
            warm=2,
        )
    what = f"{environment}, {reports} reports answered"
    yield Figure(what, taken, target=400, floor=copied, ratio=4)
    yield Figure(f"  COPY of its {written.count:,} rows as bytes", server)
    yield Figure("  in this process, without HTTP", inside)
    for part, samples in parts.samples.items():
        yield Figure(f"    {part}", samples[2:])


PATH = "/api/v1/reports"
