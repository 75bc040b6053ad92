"""One request that creates 500 reports, its parts, and a COPY of the same rows.

The COPY in one transaction is the floor of a write. The parts are timed by wrapping the
service's own functions.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch
from uuid import UUID

import psycopg
from django.db import transaction

from benchmarks import orders
from benchmarks.client import Connection, request
from benchmarks.figures import Figure, bench, interleaved
from benchmarks.service import Service, create_client
from verification.api.content import parse_json_object, to_json
from verification.api.report_shapes import CreatedReport, CreatedReports
from verification.db import bulk_insert, encryption
from verification.db.ids import uuid7
from verification.reports import create as report_create
from verification.reports import request as report_orders
from workspaces.models import Client

PATH = "/api/v1/reports"
REPORT_IDS = "SELECT id FROM reports_report WHERE workspace_id = %s"
# In the order in which foreign keys allow them.
TABLES = {
    "reports_report": f"id IN ({REPORT_IDS})",
    "reports_searchentry": f"report_id IN ({REPORT_IDS})",
    "checks_checkresult": f"report_id IN ({REPORT_IDS})",
    "reports_statuschange": f"report_id IN ({REPORT_IDS})",
    "consents_consent": f"report_id IN ({REPORT_IDS})",
    "payments_payment": f"report_id IN ({REPORT_IDS})",
    "workspaces_ledgerentry": f"report_id IN ({REPORT_IDS})",
    "webhooks_event": f"report_id IN ({REPORT_IDS})",
}
SELECT_IDS = "SELECT id FROM {} WHERE {}"
UUIDS = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
# Module, function, and label of the figure. If one calls another, the time of the inner
# function counts for the inner one alone.
TIMED = [
    (report_create, "price_orders", "questions and reuse lookup"),
    (report_create, "_gather", "rows"),
    (report_create, "search_entry_rows", "search terms"),
    (bulk_insert, "_adapt", "adapting values"),
    (encryption, "seal", "encryption"),
    (bulk_insert, "_copy", "COPY"),
    (report_create, "insert", "the rest of the insert"),
]
DbConnection = psycopg.Connection[Any]


@bench(reports=5, rounds=2)
def create_batch(
    service: Service, reports: int = 500, rounds: int = 15
) -> Iterator[Figure]:
    for environment in ("sandbox", "production"):
        yield from _in(environment, service, reports, rounds)


def _in(
    environment: str, service: Service, reports: int, rounds: int
) -> Iterator[Figure]:
    client, key = create_client(environment)

    def answered() -> None:
        status, answer = connection.send(request("POST", PATH, key, bodies.pop()))
        assert status == 201, answer

    with service.web(), service.connect() as db:
        connection = Connection(service.port)
        bodies = [orders.body(reports) for _ in range(rounds + 3)]
        answered()
        written, parts = Written(db, client.workspace.pk), Parts(client, reports)
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


class Written:
    """The rows of a client's one request, to be copied under new ids."""

    def __init__(self, db: DbConnection, workspace_id: UUID) -> None:
        self._db = db
        self._ids: list[bytes] = []
        self._tables: dict[str, bytes] = {}
        for table, where in TABLES.items():
            copy = f"COPY (SELECT * FROM {table} WHERE {where}) TO STDOUT"  # noqa: S608
            with db.cursor().copy(copy, [workspace_id]) as rows:
                if text := b"".join(bytes(part) for part in rows):
                    self._tables[table] = text
            if table != "reports_searchentry":
                keys = db.execute(SELECT_IDS.format(table, where), [workspace_id])
                self._ids += [str(key).encode() for (key,) in keys]
        self.count = sum(text.count(b"\n") for text in self._tables.values())
        self._next: dict[str, bytes] = {}
        self._rows: dict[str, list[list[str | None]]] = {}
        self.renew()

    def renew(self) -> None:
        """Give all rows new ids in the same order."""
        new = {id: str(uuid7()).encode() for id in sorted(self._ids)}

        def new_id(match: re.Match[bytes]) -> bytes:
            return new.get(match[0], match[0])

        for table, text in self._tables.items():
            self._next[table] = UUIDS.sub(new_id, text)
            lines = self._next[table].decode().splitlines()
            self._rows[table] = [_fields(line) for line in lines]

    def copy_rows(self) -> None:
        """Copy rows, which the driver encodes: the cost for a program."""
        with self._db.transaction(), self._db.cursor() as cursor:
            for table, rows in self._rows.items():
                with cursor.copy(f"COPY {table} FROM STDIN") as copy:
                    for row in rows:
                        copy.write_row(row)

    def copy_bytes(self) -> None:
        """Copy encoded rows: the cost for the server alone."""
        with self._db.transaction(), self._db.cursor() as cursor:
            for table, text in self._next.items():
                with cursor.copy(f"COPY {table} FROM STDIN") as copy:
                    copy.write(text)


def _fields(line: str) -> list[str | None]:
    return [
        None if field == r"\N" else field.replace(r"\\", "\\")
        for field in line.split("\t")
    ]


class Clock:
    """Milliseconds by name, without the time of inner functions."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._within = [0.0]

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        self._within.append(0.0)
        yield
        milliseconds = (time.perf_counter() - started) * 1000
        self.spent[name] += milliseconds - self._within.pop()
        self._within[-1] += milliseconds

    def around(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self(name):
                return function(*args, **kwargs)

        return timed


class Parts:
    """Creates reports in this process and times the parts."""

    def __init__(self, client: Client, reports: int) -> None:
        self._client, self._reports = client, reports
        self.samples: dict[str, list[float]] = defaultdict(list)

    def create(self) -> None:
        clock = Clock()
        _create(self._client, orders.body(self._reports), clock)
        for name, spent in clock.spent.items():
            self.samples[name].append(spent)


def _create(client: Client, raw: bytes, clock: Clock) -> None:
    with clock("JSON"):
        body = parse_json_object(raw)
    with clock("catalogue"):
        definitions = report_orders.catalogue()
    context = report_orders.RuleContext(definitions, client.environment)
    with clock("validation"):
        placed = report_orders.read_orders(body, context)
    with ExitStack() as patches, clock("commit and the rest"):
        for module, name, label in TIMED:
            around = clock.around(getattr(module, name), label)
            patches.enter_context(patch.object(module, name, around))
        with transaction.atomic():
            made = report_create.create_reports(client, placed)
    with clock("rendering"):
        bodies = [CreatedReport.of(one) for one in made]
        answer = CreatedReports(count=len(made), reports=bodies)
        to_json(answer.model_dump(mode="json", by_alias=True))
