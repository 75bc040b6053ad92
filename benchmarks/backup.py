"""A backup of very many reports, and its restore into another database."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.db import transaction

from benchmarks.figures import Figure, bench
from benchmarks.lists import use_filled
from benchmarks.service import DATABASE, Service
from verification.backups.archive import OPENED_VALUES
from verification.checks.models import CheckResult

MINUTE = 60
# The beginning of a sealed value of the key k1, and 600 bytes that nobody can compress.
RANDOM = " || ".join(["uuid_send(gen_random_uuid())"] * 38)
FINDINGS = f"UPDATE checks_checkresult SET finding = '\\x01026b31' || {RANDOM}"  # noqa: S608

# `workspace_rows` writes no ledger: add each charge, and the credit of failed checks.
ENTRIES = """
INSERT INTO workspaces_ledgerentry (id, account_id, kind, amount, report_id, result_id,
    attempt, note, actor, created_at)
SELECT gen_random_uuid(), a.id, k.kind, k.sign * r.price, p.id, r.id, n, '', 'bench',
    p.created_at
FROM checks_checkresult r
JOIN reports_report p ON p.id = r.report_id
JOIN workspaces_account a USING (workspace_id, environment)
CROSS JOIN generate_series(1, r.attempt) AS n
JOIN (VALUES ('CHARGE', -1), ('REVERSAL', 1)) AS k(kind, sign)
    ON k.kind = 'CHARGE' OR r.status IN ('FAILED', 'CANCELLED')
WHERE r.price > 0 AND p.launched_at IS NOT NULL AND p.payment_mode = 'SELF'
"""
BALANCES = """
UPDATE workspaces_account a SET balance = e.total
FROM (SELECT account_id, sum(amount) AS total FROM workspaces_ledgerentry GROUP BY 1) e
WHERE e.account_id = a.id
"""


@bench(is_filled=True, reports=2_000)
def backup(service: Service, reports: int = 1_000_000) -> Iterator[Figure]:
    """Measure both commands; the restore includes opening values and the audit."""
    use_filled(service, reports)
    folder = service.folder / "backups"
    with copied(service, os.environ["DATABASE_URL"]):
        with service.connect() as db:
            for statement in (FINDINGS, ENTRIES, BALANCES):
                db.execute(statement)
            db.execute("VACUUM (ANALYZE)")
        _seal_newest()
        try:
            wrote, said = manage("backup", str(folder))
            made = Path(said.strip())
            size = sum(path.stat().st_size for path in made.rglob("*"))
            restored, _ = manage("restore_drill", str(made))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"  the backup has {size / 1e6:,.0f} MB")
    yield Figure(f"backup of {reports:,} reports", [wrote], "s", target=10 * MINUTE)
    yield Figure("its restore, with all checks", [restored], "s", target=20 * MINUTE)


@contextmanager
def copied(service: Service, url: str) -> Iterator[None]:
    """Use a copy of the database, because other benches measure the original."""
    original, copy = url.rpartition("/")[2], f"{DATABASE}_backup"
    service.use_own()
    with service.connect() as server:
        server.execute(f"DROP DATABASE IF EXISTS {copy} WITH (FORCE)")
        server.execute(f"CREATE DATABASE {copy} TEMPLATE {original}")
    service.use(copy, keep=True)
    try:
        yield
    finally:
        service.use_own()
        with service.connect() as server:
            server.execute(f"DROP DATABASE {copy} WITH (FORCE)")


def _seal_newest() -> None:
    """Seal the findings that the restore opens."""
    with transaction.atomic():
        for result in CheckResult.every.order_by("-pk")[:OPENED_VALUES]:
            result.finding = {"details": {"fullName": "Grace Wambui Otieno"}}
            result.save(update_fields=["finding"])


def manage(*arguments: str, **environment: str) -> tuple[float, str]:
    """Return the duration of a command in seconds, and its output."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=settings.BASE_DIR,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return time.perf_counter() - began, done.stdout
