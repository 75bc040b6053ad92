"""Bytes, commits and write-ahead log of single orders, and what is left of them later.

Times do not matter, so the figures are the same on a busy machine. Sizes are those of
tables without dead rows (VACUUM FULL), with their indexes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.db import connections
from django.utils.module_loading import import_string

from benchmarks import orders
from benchmarks.client import Connection, request
from benchmarks.figures import Figure, bench
from benchmarks.service import Service, create_client
from verification.privacy.processing_record import PURGES
from verification.privacy.retention import erase_expired_reports

PATH = "/api/v1/reports"
FIRST = 20
READY_SECONDS = 120
UNFINISHED = """
SELECT count(*) FROM reports_report WHERE status <> 'READY' AND workspace_id = %s
"""
SIZES = """
SELECT relname, pg_total_relation_size(oid), pg_relation_size(oid) > 0 FROM pg_class
WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace
"""
WRITES = """
SELECT pg_current_wal_lsn() - '0/0', xact_commit FROM pg_stat_database
WHERE datname = current_database()
"""
TIMES = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = current_schema() AND data_type = 'timestamp with time zone'
    AND is_generated = 'NEVER' AND table_name LIKE ANY (ARRAY['reports_%', 'checks_%',
        'consents_%', 'webhooks_%', 'workspaces_apirequest', 'workspaces_ledgerentry'])
"""
EXPIRE = "UPDATE workspaces_workspace SET sandbox_retention_days = 1 WHERE id = %s"


@bench(reports=20)
def growth(service: Service, reports: int = 2_000) -> Iterator[Figure]:
    client, key = create_client()
    workspace = client.workspace.pk
    with service.connect() as db:
        with service.web(), service.jobs():
            _order(service, db, workspace, key, FIRST)
            empty, before = _sizes(db), _writes(db)
            _order(service, db, workspace, key, reports)
            after = _writes(db)
        # A cluster would erase meanwhile.
        service.close()
        connections.close_all()
        fresh = _sizes(db)
        _age(db, days=31)
        _purge(db)
        month = _sizes(db)
        db.execute(EXPIRE, [workspace])
        _age(db, days=370)
        erase_expired_reports()
        erased = _sizes(db)
    wal, commits = (
        (late - early) / reports for early, late in zip(before, after, strict=True)
    )
    yield Figure("write-ahead log of an order", [float(wal) / 1000], "KB")
    yield Figure("commits of an order", [float(commits)], "")
    for what, sizes in [
        ("a new report", fresh),
        ("after a month", month),
        ("after its erasure", erased),
    ]:
        yield Figure(what, [_print(what, sizes - empty, reports)], "KB")


def _order(service: Service, db: Any, workspace: UUID, key: str, number: int) -> None:
    """Order reports one by one, and wait until all are READY."""
    http = Connection(service.port)
    for _ in range(number):
        status, body = http.send(request("POST", PATH, key, orders.body(1)))
        assert status == 201, body
    deadline = time.monotonic() + READY_SECONDS
    while db.execute(UNFINISHED, [workspace]).fetchone()[0]:
        if time.monotonic() > deadline:
            raise TimeoutError("reports are unfinished")
        time.sleep(0.5)


def _sizes(db: Any) -> Counter[str]:
    # Autovacuum may write PostgreSQL's own tables, which is why they are left out.
    # VACUUM FULL would take as long for each empty table.
    rows = db.execute(SIZES).fetchall()
    tables = ", ".join(name for name, _, has_rows in rows if has_rows)
    db.execute(f"VACUUM FULL {tables}")
    return Counter({name: size for name, size, _ in db.execute(SIZES).fetchall()})


def _writes(db: Any) -> tuple[Any, Any]:
    db.execute("CHECKPOINT")
    # Processes report their commits when they are idle.
    time.sleep(2)
    wal, commits = db.execute(WRITES).fetchone()
    return wal, commits


def _age(db: Any, days: int) -> None:
    """Move the times of all rows of reports into the past."""
    db.execute("SET session_replication_role = replica")
    for table, column in db.execute(TIMES).fetchall():
        db.execute(f"UPDATE {table} SET {column} = {column} - interval '{days} days'")  # noqa: S608
    db.execute("SET session_replication_role = origin")


def _purge(db: Any) -> None:
    # Their ids have the time, which cannot be moved.
    db.execute("TRUNCATE workspaces_apirequest")
    for path in PURGES:
        if not path.startswith("verification.privacy.retention"):
            import_string(path)()


def _print(what: str, grown: Counter[str], reports: int) -> float:
    """Print the tables that grew, and return the kilobytes of a report."""
    total = sum(grown.values()) / reports / 1000
    print(f"  {what}: {total:.2f} KB")
    for table, size in grown.most_common(12):
        if size > 0:
            print(f"    {table:32} {size / reports:8,.0f} bytes")
    return total
