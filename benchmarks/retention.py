"""Reports erased a second when their retention ends, and the erasure of one person."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from benchmarks.client import Connection
from benchmarks.figures import Figure, bench, percentile, timed
from benchmarks.latency import time_report
from benchmarks.lists import use_filled
from benchmarks.orders import create_about_one_person
from benchmarks.service import Service, create_client
from verification.jobs.names import JobName
from verification.jobs.queue import schedule_job
from verification.privacy.erasure import erase_person, request_erasure
from verification.privacy.models import Origin
from verification.privacy.retention import erase_expired_reports
from verification.reports.models import Report

EXPIRED = """
SELECT count(*) FROM reports_report
WHERE workspace_id = %s AND completed_at IS NOT NULL AND erased_at IS NULL
"""
# The rows of a year-old report that `workspace_rows` leaves out: findings, a consent,
# and events whose payload was erased after a month.
FINDINGS = "UPDATE checks_checkresult SET finding = %s WHERE finding IS NULL"
CONSENTS = """
INSERT INTO consents_consent (id, report_id, mode, status, generation, attestation)
SELECT gen_random_uuid(), id, 'CUSTOMER_ATTESTED', 'ATTESTED', 1, %s
FROM reports_report r
WHERE NOT EXISTS (SELECT FROM consents_consent WHERE report_id = r.id)
"""
EVENTS = """
INSERT INTO webhooks_event (id, workspace_id, environment, name, cause, report_id,
    created_at)
SELECT overlay(r.id::text PLACING lpad(n::text, 4, '0') FROM 20 FOR 4)::uuid,
    r.workspace_id, r.environment, 'check.completed', r.id || ':' || n, r.id,
    r.created_at
FROM reports_report r CROSS JOIN generate_series(1, 5) n
"""
# At a run by the clock ours would do nothing. The next `use` sets the clock up again.
NO_CLOCK = "DELETE FROM django_q_schedule WHERE func = %s"
EXPIRE = "UPDATE workspaces_workspace SET sandbox_retention_days = 1 WHERE id = %s"


@bench(is_filled=True, reports=2_000, samples=3, between=3)
def retention(
    service: Service, reports: int = 1_000_000, samples: int = 300, between: int = 20
) -> Iterator[Figure]:
    use_filled(service, reports)
    _, key = create_client()
    with service.connect() as db:
        (workspace,) = db.execute("SELECT workspace_id FROM filled").fetchone()  # type: ignore[misc]
        # Without its reports, other benches have to fill it again.
        db.execute("DROP TABLE filled")
        _complete(db, service.thin)
        db.execute(NO_CLOCK, [JobName.ERASE_EXPIRED_REPORTS.value])
        with service.web(), service.jobs():
            http = Connection(service.port)
            before = [_ready_after(http, db, key) for _ in range(samples)]
            db.execute(EXPIRE, [workspace])
            left, began = _count_expired(db, workspace), time.perf_counter()
            schedule_job(erase_expired_reports)
            during = []
            # Until shortly before the end, so that all samples have it beside them.
            while _count_expired(db, workspace) > left // 100:
                during += [_ready_after(http, db, key) for _ in range(between)]
            took = time.perf_counter() - began
    yield Figure(
        f"{left:,} expired reports",
        [0.99 * left / took],
        "reports/s",
        target=2_000,
        rate=True,
    )
    floor = [percentile(before, 99)]
    yield Figure("sent to READY meanwhile", during, at=99, floor=floor, ratio=1.2)


@bench(reports=10, rounds=1)
def erasure(
    service: Service, reports: int = 1_000, rounds: int = 5
) -> Iterator[Figure]:
    """Erase a person whom one client has verified very often."""
    # A running cluster would erase, too.
    service.close()
    client, _ = create_client()
    samples = []
    for number in range(rounds):
        create_about_one_person(client, 70_000_000 + number, reports)
        newest = Report.objects.filter(workspace=client.workspace).latest("id")
        asked = request_erasure(newest.pk, Origin.STAFF, requested_by="bench")
        samples.append(timed(lambda asked=asked: erase_person(str(asked.pk))) / 1000)
        asked.refresh_from_db()
        assert asked.report_count == reports
    yield Figure(f"a person with {reports:,} reports", samples, "s", target=2)


def _ready_after(http: Connection, db: Any, key: str) -> float:
    """Return the milliseconds from sending a report until it is READY."""
    time.sleep(random.uniform(0.05, 0.25))
    sent, _, ready = time_report(http, db, key)
    return (ready - sent) * 1000


def _count_expired(db: Any, workspace: UUID) -> int:
    return int(db.execute(EXPIRED, [workspace]).fetchone()[0])


def _complete(db: Any, thin: bool) -> None:
    db.execute(FINDINGS, [bytes(600)])
    db.execute(CONSENTS, [bytes(200)])
    if not thin:
        db.execute(EVENTS)
    db.execute("VACUUM (ANALYZE)")
