"""Fill workspaces with very many reports.

Two processes COPY rows into tables without indexes and foreign keys, which are created
again afterwards. The service's own functions seal the subjects and make the search
terms, so the rows are as the service writes them.

Thin reports have one check, and four of five belong to the first workspace. Only the
newest are made so: PostgreSQL copies them to the older ones, with other ids, times and
identifiers. Nobody can open the sealed values of a copy, and its identifiers find
nothing; names find it.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import accumulate
from random import Random
from typing import Any
from uuid import UUID, uuid4

import django
import psycopg

from benchmarks.names import Names

CHUNK = 20_000
# Thin reports that are not copies
MADE = 500_000
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
COPY reports_searchentry (report_id, terms, further_ids) FROM STDIN
"""
# Copies of the newest reports, so many reports and so much time before them
COPIED_REPORTS = """
INSERT INTO reports_report (id, workspace_id, environment, status, subject_id,
    subject_type, country, subject_name, search_name, subject, checks_requested,
    purpose, payment_mode, reuse, reference, risk_score, risk_level, failure_code,
    failure_message, created_by, created_at, updated_at, launched_at, completed_at)
SELECT bench_copy(id, %(before)s), workspace_id, environment, status,
    md5(id::text || %(before)s)::uuid, subject_type, country, subject_name, search_name,
    subject, checks_requested, purpose, payment_mode, reuse,
    'loan-' || (substr(reference, 6)::int - %(before)s), risk_score, risk_level,
    failure_code, failure_message, created_by, created_at - %(time)s,
    updated_at - %(time)s, launched_at - %(time)s, completed_at - %(time)s
FROM reports_report WHERE id >= %(first)s ORDER BY id
"""
# The last terms are those of identifiers: of a number, the id, and the reference, and
# of a person the e-mail address.
COPIED_ENTRIES = """
INSERT INTO reports_searchentry (report_id, terms, further_ids)
SELECT bench_copy(e.report_id, %(before)s), e.terms[:cardinality(e.terms) - n.unique]
    || ARRAY(SELECT hashint8extended(number * 4 + i, %(before)s)
        FROM generate_series(1, n.unique) i), '{}'
FROM reports_report r JOIN reports_searchentry e ON e.report_id = r.id
CROSS JOIN LATERAL (
    SELECT CASE r.subject_type WHEN 'INDIVIDUAL' THEN 4 ELSE 3 END AS unique,
        substr(r.reference, 6)::bigint AS number
) n
WHERE r.id >= %(first)s ORDER BY r.id
"""
COPY_ID = """
CREATE FUNCTION bench_copy(id uuid, before bigint) RETURNS uuid LANGUAGE sql IMMUTABLE
RETURN (lpad(to_hex(('x' || left(translate(id::text, '-', ''), 16))::bit(64)::bigint
    - before), 16, '0') || left(md5(id::text || before), 16))::uuid
"""
# The beginning of a sealed value of the key k1, and bytes that nobody can compress
SEALED = (
    r"'\x01026b31' || sha512(r.id::text::bytea) || sha512(r.id::text::bytea || '2')"
)
RESULTS = """
INSERT INTO checks_checkresult (id, report_id, definition_id, name, position, status,
    price, attempt, tries, claims, fence, turn_at, started_at, completed_at,
    duration_ms, question, risk_level, finding, failure_code, failure_message,
    failure_retryable, created_at)
SELECT overlay(r.id::text PLACING lpad(d.position::text, 4, '0') FROM 20 FOR 4)::uuid,
    r.id, d.id, d.name, d.position, 'COMPLETED', 10, 1, 1, 0, 1,
    r.created_at, r.created_at, COALESCE(r.completed_at, r.created_at), 300,
    sha256((r.id::text || d.name)::bytea), 'LOW', {finding}, '', '', false, r.created_at
FROM reports_report r JOIN checks_checkdefinition d ON d.name = ANY (r.checks_requested)
WHERE r.id >= %(first)s AND r.id < %(last)s
"""
CONSENTS = """
INSERT INTO consents_consent (id, report_id, mode, status, generation, attestation)
SELECT id, id, 'CUSTOMER_ATTESTED', 'ATTESTED', 1, {attestation} FROM reports_report r
WHERE id >= %(first)s AND id < %(last)s
"""
CHARGES = """
INSERT INTO workspaces_ledgerentry (id, account_id, kind, amount, report_id, result_id,
    attempt, note, actor, created_at)
SELECT r.id, a.id, 'CHARGE', -r.price, p.id, r.id, 1, '', 'bench', p.created_at
FROM reports_report p
JOIN checks_checkresult r ON p.id = r.report_id
JOIN workspaces_account a USING (workspace_id, environment)
WHERE p.id >= %(first)s AND p.id < %(last)s AND r.price > 0
    AND p.launched_at IS NOT NULL AND p.payment_mode = 'SELF'
"""
BALANCES = """
UPDATE workspaces_account a SET balance = e.total
FROM (SELECT account_id, sum(amount) AS total FROM workspaces_ledgerentry GROUP BY 1) e
WHERE e.account_id = a.id
"""
FILLED = (
    "reports_report",
    "reports_searchentry",
    "checks_checkresult",
    "consents_consent",
    "workspaces_ledgerentry",
)
INDEXES = """
SELECT indexname, indexdef FROM pg_indexes WHERE tablename = ANY (%s)
    AND indexname NOT IN (SELECT conname FROM pg_constraint WHERE contype IN ('p', 'u'))
"""
FOREIGN_KEYS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE contype = 'f' AND conrelid = ANY (%s::regclass[])
"""

Db = psycopg.Connection[Any]


def fill(db: Db, workspaces: Sequence[UUID], reports: int, *, thin: bool) -> None:
    """Fill the workspaces; report `n` belongs to the one at `n` modulo their number."""
    made = min(MADE, reports) if thin else reports
    with without_indexes(db, *FILLED):
        numbers = range(reports - made, reports, CHUNK)
        tasks = [
            (workspaces, n, min(CHUNK, reports - n), reports, thin) for n in numbers
        ]
        # New processes, because a fork would share the connection.
        spawn = multiprocessing.get_context("spawn")
        with spawn.Pool(min(2, len(tasks)), _set_up) as pool:
            pool.starmap(_chunk, tasks)
        _add(RESULTS, reports - made, reports, finding="NULL")
        if thin:
            db.execute("ANALYZE reports_report, reports_searchentry")
            db.execute(COPY_ID)
            _add(CHARGES, reports - made, reports)
            with ThreadPoolExecutor(2) as pool:
                before = range(made, reports, made)
                list(pool.map(lambda n: _copy(reports, made, n), before))
            db.execute("DROP FUNCTION bench_copy")
            db.execute(BALANCES)
    db.execute("VACUUM (ANALYZE)")


def _copy(reports: int, made: int, before: int) -> None:
    """Copy the newest reports to numbers that are so many lower."""
    values = {
        "first": _first_id(max(reports - made, before)),
        "before": before,
        "time": PERIOD * (before / reports),
    }
    with psycopg.connect(os.environ["DATABASE_URL"]) as db:
        db.execute(COPIED_REPORTS, values)
        db.execute(COPIED_ENTRIES, values)
    first, last = reports - made - before, reports - before
    _add(RESULTS, first, last, finding=f"{SEALED} || {SEALED}")
    _add(CONSENTS, first, last, attestation=SEALED)
    _add(CHARGES, first, last)


def _add(statement: str, first: int, last: int, **expressions: str) -> None:
    """Add other rows to the reports with these numbers."""
    ids = {"first": _first_id(first), "last": _first_id(last)}
    with psycopg.connect(os.environ["DATABASE_URL"]) as db:
        db.execute(statement.format(**expressions), ids)


def _first_id(number: int) -> UUID:
    return UUID(int=max(number, 0) << 64)


def _set_up() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    django.setup()


class without_indexes:
    """Drop the indexes and foreign keys, and create them again at the end."""

    def __init__(self, db: Db, *tables: str) -> None:
        self._db = db
        db.execute("SET maintenance_work_mem = '2GB'")
        db.execute("SET work_mem = '512MB'")
        self._indexes = db.execute(INDEXES, [list(tables)]).fetchall()
        self._keys = db.execute(FOREIGN_KEYS, [list(tables)]).fetchall()

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


def _chunk(
    workspaces: Sequence[UUID], first: int, count: int, of: int, thin: bool
) -> None:
    rows = list(_rows(workspaces, first, count, of, thin))
    with psycopg.connect(os.environ["DATABASE_URL"]) as db:
        for sql, which in ((REPORTS, 0), (ENTRIES, 1)):
            with db.cursor().copy(sql) as copy:
                copy.write("".join("\t".join(row[which]) + "\n" for row in rows))


def _rows(
    workspaces: Sequence[UUID], first: int, count: int, of: int, thin: bool
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the row of each report and of its search entry, as COPY reads them."""
    from verification.db.encryption import seal
    from verification.reports.models import Subject
    from verification.reports.queries import Terms

    terms_of = cache(lambda workspace_id: Terms(workspace_id, "sandbox"))
    names, chance = Names(first), Random(first)
    weights = list(accumulate(STATUSES.values()))
    for number in range(first, first + count):
        workspace_id = workspaces[number % len(workspaces)]
        subject = Subject.of(_members(number, names, chance))
        id = UUID(int=number << 64 | uuid4().int >> 64)
        at = NEWEST - PERIOD * (1 - number / of)
        status = chance.choices(list(STATUSES), cum_weights=weights)[0]
        members = _json(subject.members)
        sealed = seal(members, column="reports_report.subject", row=id, compressed=True)
        reference = f"loan-{number}"
        indexed = ",".join(map(str, terms_of(workspace_id).of(id, subject, reference)))
        report = _report(id, workspace_id, status, subject, sealed, reference, at, thin)
        yield report, [str(id), f"{{{indexed}}}", "{}"]


def _report(
    id: UUID,
    workspace_id: UUID,
    status: str,
    subject: Any,
    sealed: bytes,
    reference: str,
    at: datetime,
    thin: bool,
) -> list[str]:
    moment, ended = at.isoformat(), (at + timedelta(seconds=2)).isoformat()
    score = ("12", "LOW") if status in ENDED else (r"\N", "UNKNOWN")
    failure = ("CHECKS_FAILED", "Failed.") if status == "FAILED" else ("", "")
    company = subject.type == "COMPANY"
    of_person = "{IDENTITY}" if thin else "{IDENTITY,KRA_PIN,CRB_SCORE}"
    checks = "{BUSINESS_VERIFICATION}" if company else of_person
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
