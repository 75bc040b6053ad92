"""The console's queue in a workspace of a million reports, a tenth of which wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib.auth.models import User

from benchmarks.figures import Figure, bench, timed
from benchmarks.lists import use_filled
from benchmarks.names import RARE
from benchmarks.service import Service
from benchmarks.workspace_rows import without_indexes
from verification.decisions.case_list import (
    Holder,
    QueueFilters,
    Wait,
    count_cases,
    list_cases,
)
from verification.decisions.models import Case
from workspaces.models import Member, Role

PAGE = 20
MILLISECONDS = 60
# Half of those that wait are overdue. Of 1,000 one is HIGH, one of a rare package, and
# one the member's.
FILL = """
INSERT INTO decisions_case (report_id, workspace_id, environment, risk_level, package,
    cause, due_at, opened_at, closed_at, assignee_id)
SELECT id, workspace_id, environment,
    CASE WHEN n %% 1000 = 0 THEN 'HIGH' ELSE 'LOW' END,
    CASE WHEN n %% 1000 = 1 THEN 'rare' END, 'ENDED',
    now() + (n - %(waiting)s / 2) * interval '1 minute', completed_at,
    CASE WHEN n > %(waiting)s THEN now() END,
    CASE WHEN n %% 1000 = 2 AND n <= %(waiting)s THEN %(member)s::uuid END
FROM (
    SELECT id, workspace_id, environment, completed_at,
        row_number() OVER (ORDER BY md5(id::text)) AS n
    FROM reports_report
    WHERE status IN ('READY', 'FAILED', 'PARTIAL') AND completed_at IS NOT NULL
) r
"""
PROPOSE = """
INSERT INTO decisions_decision (id, workspace_id, environment, report_id, number,
    status, state, codes, made_by_kind, made_by, made_by_key, needs_second, second_by,
    created_at)
SELECT gen_random_uuid(), workspace_id, environment, report_id, 1, 'APPROVED',
    'PENDING', '{}', 'API_KEY', 'key', gen_random_uuid(), true, '', now()
FROM decisions_case WHERE package = 'rare' AND closed_at IS NULL
"""
# Their notices have to be handed over.
UNDELIVERED = """
INSERT INTO decisions_adversenotice (id, decision_id, report_id, workspace_id,
    environment, bureaus, result_ids, rests_on_bureau, is_automated, language, state,
    rounds, is_settled, undelivered_at, created_at)
SELECT gen_random_uuid(), id, report_id, workspace_id, environment, '{}', '{}', true,
    false, '', 'UNDELIVERED', 1, true, now(), now()
FROM decisions_decision
"""
FILTERS = {
    "the first page": QueueFilters(),
    "mine (0.1 %)": QueueFilters(holder=Holder.MINE),
    "nobody's": QueueFilters(holder=Holder.NOBODY),
    "overdue": QueueFilters(overdue=True),
    "a level (0.1 %)": QueueFilters(level="HIGH"),
    "a level that none has": QueueFilters(level="MEDIUM"),
    "a package (0.1 %)": QueueFilters(package="rare"),
    "for a second member (0.1 %)": QueueFilters(wait=Wait.SECOND),
    "for a decision": QueueFilters(wait=Wait.DECISION),
    "a first and a last name": QueueFilters(search="Wanjiku Kamau"),
    "a common name": QueueFilters(search="Mwangi"),
    "a rare name": QueueFilters(search=RARE[2:9]),
    "a reference": QueueFilters(search="loan-777"),
    "a rare name, mine": QueueFilters(search=RARE[2:9], holder=Holder.MINE),
}


@bench(is_filled=True, reports=2_000, rounds=1)
def queue(
    service: Service, reports: int = 1_000_000, rounds: int = 20
) -> Iterator[Figure]:
    use_filled(service, reports)
    with service.connect() as db:
        (workspace_id,) = db.execute("SELECT workspace_id FROM filled").fetchone()  # type: ignore[misc]
    user = User.objects.create_user(f"queue-{User.objects.count()}")
    member = Member.objects.create(
        workspace_id=workspace_id, user=user, role=Role.OFFICER
    )
    fill(service, reports, member)
    for what, filters in FILTERS.items():
        yield _figure(what, member, rounds, filters=filters)
    waiting = Case.objects.filter(closed_at=None).order_by("due_at")
    middle = waiting[reports // 20].pk
    yield _figure("far behind", member, rounds, filters=QueueFilters(), after=middle)
    found = [timed(lambda: count_cases(member, "sandbox")) for _ in range(rounds)]
    yield Figure("the counts of the page", found, target=MILLISECONDS)


def fill(service: Service, reports: int, member: Member) -> None:
    """Let a tenth of the reports wait, some for this member, some with a notice."""
    with service.connect() as db:
        db.execute("TRUNCATE decisions_case")
        with without_indexes(db, "decisions_case"):
            db.execute(FILL, {"waiting": reports // 10, "member": member.pk})
        db.execute("ALTER TABLE decisions_decision DISABLE TRIGGER USER")
        db.execute("DELETE FROM decisions_adversenotice")
        db.execute("DELETE FROM decisions_decision")
        db.execute("ALTER TABLE decisions_decision ENABLE TRIGGER USER")
        db.execute(PROPOSE)
        db.execute(UNDELIVERED)
        db.execute("VACUUM ANALYZE decisions_case, decisions_decision")


def _figure(what: str, member: Member, rounds: int, **given: Any) -> Figure:
    samples = [
        timed(lambda: list_cases(member, "sandbox", size=PAGE, **given))
        for _ in range(rounds + 1)
    ]
    return Figure(what, samples[1:], target=MILLISECONDS)
