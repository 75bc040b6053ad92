"""Fill a workspace with very many reports in a few minutes.

Two processes COPY rows into tables without indexes and foreign keys, which are created
again afterwards. The service's own functions seal the subjects and make the search
terms, so the rows are as the service writes them.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from random import Random
from typing import Any
from uuid import UUID, uuid4

import django
import psycopg

from benchmarks.names import Names

CHUNK = 20_000
NEWEST = datetime(2026, 11, 1, tzinfo=UTC)
PERIOD = timedelta(days=730)
# Reports of each status in a million.
STATUSES = {
    "READY": 890_000,
    "FAILED": 40_000,
    "PARTIAL": 25_000,
    "CANCELLED": 20_000,
    "PENDING_CONSENT": 20_000,
    "RUNNING": 4_900,
    "PENDING_PAYMENT": 100,
}
ENDED = {"READY", "FAILED", "PARTIAL", "CANCELLED"}
COMPANIES = 0.08

REPORTS = """
COPY reports_report (id, workspace_id, environment, status, subject_id, subject_type,
    country, subject_name, search_name, subject, checks_requested, purpose,
    payment_mode, reuse, reference, risk_score, risk_level, failure_code,
    failure_message, created_by, created_at, updated_at, launched_at,
    completed_at) FROM STDIN
"""
ENTRIES = """
COPY reports_searchentry (report_id, terms) FROM STDIN
"""
RESULTS = """
INSERT INTO checks_checkresult (id, report_id, definition_id, name, position, status,
    price, attempt, tries, claims, fence, turn_at, started_at, completed_at,
    duration_ms, question, risk_level, failure_code, failure_message,
    failure_retryable, created_at)
SELECT overlay(r.id::text PLACING lpad(d.position::text, 4, '0') FROM 20 FOR 4)::uuid,
    r.id, d.id, d.name, d.position, 'COMPLETED', 10, 1, 1, 0, 1,
    r.created_at, r.created_at, COALESCE(r.completed_at, r.created_at), 300,
    sha256((r.id::text || d.name)::bytea), 'LOW', '', '', false, r.created_at
FROM reports_report r JOIN checks_checkdefinition d ON d.name = ANY (r.checks_requested)
"""
FILLED = ("reports_report", "reports_searchentry", "checks_checkresult")
INDEXES = """
SELECT indexname, indexdef FROM pg_indexes WHERE tablename = ANY (%s)
    AND indexname NOT IN (SELECT conname FROM pg_constraint WHERE contype IN ('p', 'u'))
"""
FOREIGN_KEYS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE contype = 'f' AND conrelid = ANY (%s::regclass[])
"""

Db = psycopg.Connection[Any]


def fill(db: Db, workspace_id: UUID, reports: int) -> None:
    with without_indexes(db):
        numbers = range(0, reports, CHUNK)
        tasks = [(workspace_id, n, min(CHUNK, reports - n), reports) for n in numbers]
        # New processes, because a fork would share the connection.
        with multiprocessing.get_context("spawn").Pool(2, _set_up) as pool:
            pool.starmap(_chunk, tasks)
        db.execute(RESULTS)
    db.execute("VACUUM (ANALYZE)")


def _set_up() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    django.setup()


class without_indexes:
    """Drop the indexes and foreign keys, and create them again at the end."""

    def __init__(self, db: Db) -> None:
        self._db = db
        db.execute("SET maintenance_work_mem = '1GB'")
        self._indexes = db.execute(INDEXES, [list(FILLED)]).fetchall()
        self._keys = db.execute(FOREIGN_KEYS, [list(FILLED)]).fetchall()

    def __enter__(self) -> None:
        for table, name, _ in self._keys:
            self._db.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        for name, _ in self._indexes:
            self._db.execute(f"DROP INDEX {name}")

    def __exit__(self, *_: object) -> None:
        for _, definition in self._indexes:
            self._db.execute(definition)
        for table, name, definition in self._keys:
            self._db.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}")


def _chunk(workspace_id: UUID, first: int, count: int, of: int) -> None:
    rows = list(_rows(workspace_id, first, count, of))
    with psycopg.connect(os.environ["DATABASE_URL"]) as db:
        for sql, which in ((REPORTS, 0), (ENTRIES, 1)):
            with db.cursor().copy(sql) as copy:
                copy.write("".join("\t".join(row[which]) + "\n" for row in rows))


def _rows(
    workspace_id: UUID, first: int, count: int, of: int
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the row of each report and of its search entry, as COPY reads them."""
    from verification.db.encryption import seal
    from verification.reports.models import Subject
    from verification.reports.queries import Terms

    terms, names, chance = Terms(workspace_id, "sandbox"), Names(first), Random(first)
    weights = list(accumulate(STATUSES.values()))
    for number in range(first, first + count):
        subject = Subject.of(_members(number, names, chance))
        id = UUID(int=number << 64 | uuid4().int >> 64)
        at = NEWEST - PERIOD * (1 - number / of)
        status = chance.choices(list(STATUSES), cum_weights=weights)[0]
        members = _json(subject.members)
        sealed = seal(members, column="reports_report.subject", row=id)
        reference = f"loan-{number}"
        indexed = ",".join(map(str, terms.of(id, subject, reference)))
        report = _report(id, workspace_id, status, subject, sealed, reference, at)
        yield report, [str(id), f"{{{indexed}}}"]


def _report(
    id: UUID,
    workspace_id: UUID,
    status: str,
    subject: Any,
    sealed: bytes,
    reference: str,
    at: datetime,
) -> list[str]:
    moment, ended = at.isoformat(), (at + timedelta(seconds=2)).isoformat()
    score = ("12", "LOW") if status in ENDED else (r"\N", "UNKNOWN")
    failure = ("CHECKS_FAILED", "Failed.") if status == "FAILED" else ("", "")
    company = subject.type == "COMPANY"
    checks = "{BUSINESS_VERIFICATION}" if company else "{IDENTITY,KRA_PIN,CRB_SCORE}"
    return [
        *(str(id), str(workspace_id), "sandbox", status, str(uuid4()), subject.type),
        *("KE", subject.name, subject.search_name, rf"\\x{sealed.hex()}", checks),
        *(
            "Loan application",
            "SELF",
            "t",
            reference,
            *score,
            *failure,
            "key vrf_test_0123…4567",
        ),
        *(moment, moment, moment, ended if status in ENDED else r"\N"),
    ]


def _members(number: int, names: Names, chance: Random) -> dict[str, str]:
    if chance.random() < COMPANIES:
        return {
            "subjectType": "COMPANY",
            "fullName": names.company(),
            "registrationNumber": f"PVT-{number:08}",
            "country": "KE",
        }
    name = names.person()
    return {
        "subjectType": "INDIVIDUAL",
        "fullName": name,
        "idNumber": f"{10_000_000 + number}",
        "email": f"{name.replace(' ', '.').lower()}.{number}@example.com",
        "country": "KE",
    }


def _json(members: dict[str, str]) -> bytes:
    import orjson

    return orjson.dumps(members)
