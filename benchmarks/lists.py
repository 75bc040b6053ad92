"""Lists, filters and searches over very many reports of one workspace."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarks.client import Connection, request
from benchmarks.figures import Figure, bench, timed
from benchmarks.names import RARE
from benchmarks.service import DATABASE, Service, create_client
from benchmarks.workspace_rows import fill
from verification.api.report_shapes import ReportQuery
from verification.reports.queries import list_reports

PATH = "/api/v1/reports"
NEWEST = """
SELECT id FROM reports_report WHERE workspace_id = %s ORDER BY created_at DESC LIMIT 100
"""
OWN = "SELECT count(*) FROM reports_report WHERE workspace_id = %s"
# So many before the end is a report that is no copy, of the first workspace.
NUMBER = 777

# Query -> its limit in milliseconds, and its parameters.
QUERIES: dict[str, tuple[float, dict[str, Any]]] = {
    "page 0": (60, {}),
    "page 20,000": (150, {"page": 20_000}),
    "the last page": (150, {}),
    "status READY (89 %)": (100, {"status": "READY"}),
    "status FAILED (4 %)": (100, {"status": "FAILED"}),
    "status RUNNING (0.5 %)": (100, {"status": "RUNNING"}),
    "status PENDING_PAYMENT (0.01 %)": (100, {"status": "PENDING_PAYMENT"}),
    "status DRAFT (none)": (100, {"status": "DRAFT"}),
    "companies (8 %)": (100, {"subjectType": "COMPANY"}),
    "persons (92 %)": (100, {"subjectType": "INDIVIDUAL"}),
    "one day": (100, {"from": "2026-03-03", "to": "2026-03-03"}),
    "a year": (100, {"from": "2025-06-01", "to": "2026-05-31"}),
    "a day long ago": (100, {"from": "2024-12-24", "to": "2024-12-24"}),
    "until a day": (100, {"to": "2025-12-31"}),
    "READY in a year": (100, {"status": "READY", "from": "2025-11-01"}),
    "FAILED companies in a year": (
        100,
        {"status": "FAILED", "subjectType": "COMPANY", "from": "2025-11-01"},
    ),
    "FAILED on a day": (
        100,
        {"status": "FAILED", "from": "2026-03-03", "to": "2026-03-03"},
    ),
    "a rare name": (150, {"search": RARE[2:9]}),
    "a whole name": (150, {"search": "Grace Wambui Otieno"}),
    "a first and a last name": (150, {"search": "Wanjiku Kamau"}),
    "part of a common name": (150, {"search": "wanj"}),
    "a common name": (150, {"search": "Mwangi"}),
    "three letters": (150, {"search": "ang"}),
    "two letters": (150, {"search": "ka"}),
    "two letters that are rare": (150, {"search": "qu"}),
    "one letter": (150, {"search": "a"}),
    "no match": (150, {"search": "xqzwv"}),
    "two letters, no match": (150, {"search": "xq"}),
    "common letters, no match": (150, {"search": "wanjimwangi"}),
    "a common name, page 500": (150, {"search": "Mwangi", "page": 500}),
    "a common name, FAILED": (150, {"search": "Mwangi", "status": "FAILED"}),
    "a common name in a year": (150, {"search": "Mwangi", "from": "2025-11-01"}),
    "two letters, FAILED": (150, {"search": "ka", "status": "FAILED"}),
    "an ID number": (150, {}),
    "a reference": (150, {}),
}


@bench(is_filled=True, reports=2_000, rounds=1)
def lists(
    service: Service, reports: int = 1_000_000, rounds: int = 20
) -> Iterator[Figure]:
    use_filled(service, reports)
    with service.connect() as db:
        workspace_id, key = db.execute("SELECT * FROM filled").fetchone()  # type: ignore[misc]
        ids = [id for (id,) in db.execute(NEWEST, [workspace_id]).fetchall()]
        (own,) = db.execute(OWN, [workspace_id]).fetchone()  # type: ignore[misc]
    QUERIES["the last page"][1]["page"] = (own - 1) // 20
    QUERIES["an ID number"][1]["search"] = f"{10_000_000 + reports - NUMBER}"
    QUERIES["a reference"][1]["search"] = f"loan-{reports - NUMBER}"
    with service.web():
        figures = list(_measure(service.port, key, rounds, ids))
    slow = {figure.what for figure in figures if figure.verdict == "NO"}
    explain(service.folder / "explained", workspace_id, slow)
    yield from figures


def use_filled(service: Service, reports: int) -> None:
    """Use the database with this number of reports; fill it if it does not exist."""
    database = f"{DATABASE}_lists_{reports}{'_thin' if service.thin else ''}"
    is_filled = service.has(database, "filled")
    service.use(database, keep=is_filled)
    if not is_filled:
        _fill(service, reports)


def _fill(service: Service, reports: int) -> None:
    client, key = create_client()
    workspaces = [client.workspace.pk]
    if service.thin:
        others = [create_client()[0].workspace.pk for _ in range(5)]
        workspaces = workspaces * 32 + others[:1] * 4 + others[1:]
    with service.connect() as db:
        filled = timed(lambda: fill(db, workspaces, reports, thin=service.thin)) / 1000
        # The table comes last, because it marks the database as complete.
        db.execute("CREATE TABLE filled (workspace_id uuid, key text)")
        db.execute("INSERT INTO filled VALUES (%s, %s)", [client.workspace.pk, key])
    print(f"  filled with {reports:,} reports in {filled:,.0f} s")


def _measure(port: int, key: str, rounds: int, ids: list[UUID]) -> Iterator[Figure]:
    requests = {
        what: (target, [request("GET", f"{PATH}?{urlencode(query)}", key)])
        for what, (target, query) in QUERIES.items()
    }
    by_id = [request("GET", f"{PATH}?search={id}", key) for id in ids]
    requests["a report's id"] = (150, by_id)
    requests["get"] = (15, [request("GET", f"{PATH}/{id}", key) for id in ids])
    samples: dict[str, list[float]] = {what: [] for what in requests}
    totals: dict[str, Any] = {}
    http = Connection(port)
    for round in range(-1, rounds):
        for what, (_, sent) in requests.items():
            started = time.perf_counter()
            status, body = http.send(sent[round % len(sent)])
            samples[what].append((time.perf_counter() - started) * 1000)
            assert status == 200, body
            totals[what] = json.loads(body).get("totalElements", 1)
    for what, (target, _) in requests.items():
        yield Figure(f"{what}: {totals[what]:,}", samples[what][1:], target=target)


def explain(folder: Path, workspace_id: UUID, slow: set[str]) -> None:
    """Write the plan of each slow query to a file."""
    folder.mkdir(exist_ok=True)
    for what in {name.rpartition(":")[0] for name in slow} & QUERIES.keys():
        query = dict(QUERIES[what][1])
        page = query.pop("page", 0)
        filters = ReportQuery.model_validate(query).filters()
        with CaptureQueriesContext(connection) as captured:
            list_reports(
                workspace_id, "sandbox", filters, page=page, size=20, counts_all=True
            )
        plans = []
        for statement in captured.captured_queries:
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS) {statement['sql']}")
                plan = "\n".join(line for (line,) in cursor.fetchall())
            plans.append(f"{statement['sql']}\n\n{plan}\n")
        name = re.sub(r"\W+", "-", what).strip("-")
        (folder / f"{name}.txt").write_text("\n".join(plans))
    print(f"  plans of slow queries are in {folder}")
