"""Monitoring: finding due rules, and launching many at once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import Min
from django.utils.timezone import now

from benchmarks.figures import Figure, bench, timed
from benchmarks.names import Names
from benchmarks.service import Service, count_statements, create_client
from monitoring import runs
from monitoring.models import Rule
from monitoring.rules import attestation, read_rule, set_subject
from verification.db.bulk_insert import Rows, insert
from verification.db.ids import uuid7
from verification.reports.models import Subject
from verification.reports.request import Order, catalogue
from workspaces.create import create_workspace
from workspaces.models import Workspace

CHUNK = 5_000
PATH = "/api/v1/monitoring"
RULE: dict[str, Any] = {
    "subject": {
        "subjectType": "INDIVIDUAL",
        "fullName": "Wanjiku Kamau",
        "idNumber": "12345678",
    },
    "checkNames": ["IDENTITY"],
    "cadence": "DAILY",
}
# Every n-th rule is due at a random time of the last minute.
COME_DUE = """
UPDATE monitoring_rule r SET next_run_at = now() - random() * interval '60 s'
FROM (SELECT id, row_number() OVER () AS number FROM monitoring_rule) n
WHERE n.id = r.id AND n.number %% (%s::int) = 0
"""
DUE = "SELECT count(*) FROM monitoring_rule WHERE next_run_at <= now()"
# A rule is not launched while its last run is under way.
END_RUNS = """
UPDATE reports_report SET status = 'READY', completed_at = now()
WHERE completed_at IS NULL
"""
RUNS = "SELECT count(*), count(DISTINCT (rule_id, due_at)) FROM monitoring_run"
WAKE = """
INSERT INTO jobs_job (function, arguments)
VALUES ('monitoring.runs.launch_due_runs', '[]')
"""
# Copies of all rules with other times, without the columns that only a run needs.
MULTIPLY = """
INSERT INTO monitoring_rule (id, workspace_id, environment, subject_id, subject_type,
    subject_name, search_name, terms, subject, check_names, cadence, reference, status,
    pause_reason, starts_at, next_run_at, runs_made, created_by, created_at)
SELECT gen_random_uuid(), workspace_id, environment, subject_id, subject_type,
    subject_name, search_name, '{}', '', check_names, cadence, reference, status,
    pause_reason, starts_at, now() + random() * interval '30 days', 0, created_by,
    created_at
FROM monitoring_rule, generate_series(2, %s)
"""


@bench(rules=200, workspaces=4, due=40, many=1_000, rounds=1, samples=3, warm=0)
def monitoring(
    service: Service,
    rules: int = 100_000,
    workspaces: int = 1_000,
    due: int = 10_000,
    many: int = 1_000_000,
    rounds: int = 3,
    samples: int = 50,
    warm: float = 5,
) -> Iterator[Figure]:
    _, key = create_client()
    statements = count_statements(PATH, key, json.dumps(RULE).encode())
    Rule.objects.all().delete()
    yield Figure("statements of a create", [statements], "", target=15)
    _fill(rules, workspaces)
    every = rules // due
    what = f"{due:,} of {rules:,} rules launched by"
    for clusters in (1, 3):
        times = [_launch_all(service, clusters, every, warm) for _ in range(rounds)]
        name = "one cluster" if clusters == 1 else f"{clusters} clusters"
        yield Figure(f"{what} {name}", times, "s", target=60)
    with service.connect() as db:
        db.execute(MULTIPLY, [many // rules])
        db.execute(COME_DUE, [many // due])
        db.execute("VACUUM (ANALYZE) monitoring_rule")
    searches = [timed(lambda: next(runs._due_ids())) for _ in range(samples)]
    yield Figure(f"finding the due of {many:,} rules", searches, target=20)
    first = Min("launch_at")
    last = [
        timed(lambda: runs._active_rules().aggregate(first=first))
        for _ in range(samples)
    ]
    yield Figure("finding when the next is due", last, target=20)
    with service.connect() as db:
        db.execute("TRUNCATE monitoring_rule CASCADE")


def _launch_all(service: Service, clusters: int, every: int, warm: float) -> float:
    """Make rules due. Returns the seconds until all are launched, while checks run."""
    with service.connect() as db, ExitStack() as running:
        db.execute(END_RUNS)
        running.enter_context(service.jobs())
        for number in range(1, clusters):
            name = f"bench-{number}"
            running.enter_context(
                service.process("manage.py", "jobs", JOB_CLUSTER=name)
            )
        # The other clusters need this time to start.
        time.sleep(warm if clusters > 1 else 0)
        before = db.execute(RUNS).fetchone()
        due = db.execute(COME_DUE, [every]).rowcount
        db.execute(WAKE)
        started = time.perf_counter()
        while db.execute(DUE).fetchone() != (0,):
            time.sleep(0.05)
            assert time.perf_counter() < started + 300, "not launched in 300 s"
        seconds = time.perf_counter() - started
        after = db.execute(RUNS).fetchone()
        assert before
        assert after == (before[0] + due, before[0] + due), "a run twice, or lost"
    service.park()
    return seconds


def _fill(rules: int, workspaces: int) -> None:
    owners = [
        create_workspace(name=f"Bench {number}", owner_email="bench@example.com")
        for number in range(workspaces)
    ]
    names = Names(seed=1)
    _, order = read_rule(RULE, "sandbox", catalogue())
    for start in range(0, rules, CHUNK):
        numbers = range(start, min(start + CHUNK, rules))
        rules_made = [
            _rule(order, owners[n % workspaces], names.person(), n) for n in numbers
        ]
        insert(Rows(Rule, rules_made))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE monitoring_rule")


def _rule(like: Order, owner: Workspace, name: str, number: int) -> Rule:
    subject = {**RULE["subject"], "fullName": name, "idNumber": str(10**7 + number)}
    order = replace(like, subject=Subject.of({**subject, "country": "KE"}))
    at = now() - timedelta(days=1)
    rule = Rule(
        id=uuid7(),
        workspace=owner,
        environment="sandbox",
        check_names=RULE["checkNames"],
        cadence="DAILY",
        consent=attestation(order.consent),
        status="ACTIVE",
        starts_at=at,
        next_run_at=at + timedelta(days=2),
        created_by="bench",
        created_at=at,
    )
    set_subject(rule, order.subject)
    return rule
