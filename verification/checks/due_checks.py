"""The queue of checks: turns, claims, and the job that runs due checks.

Checks run in the order of their turns. The turn of a small request is the time of the
request. The checks of a large request take turns at a fixed distance, after the
account's earlier large requests. So another account does not wait for the last of
100,000 checks. Workers run checks before their turn if no other checks wait.

Checks that wait until a source has room are claimed apart: `waits_for` names the
source, and `claim_queued` takes them when it has room.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F

from verification.checks.models import CheckResult, ResultStatus
from verification.db.base import run_sql
from verification.db.bulk_insert import Rows
from verification.db.ids import first_id_at
from verification.jobs.claims import claim_sql
from verification.jobs.names import JobName
from verification.jobs.queue import ensure_job_by, job_row, schedule_job
from verification.providers.base import ConsentEvidence, PendingInquiry
from verification.reports.models import Report
from verification.values.clock import now

# The failure code of a check that was claimed again and again and never ended.
GAVE_UP = "ENGINE_GAVE_UP"
# No report waits longer for a person.
OLDEST_GIVEN_UP = timedelta(days=90)
# A request with at most this many checks is small.
MAX_SMALL_REQUEST = 50
# Each account's share while several accounts wait: 200 checks a second.
TURN_INTERVAL = timedelta(milliseconds=5)

DUE = """
SELECT id, turn_at AS turn, '' AS source FROM checks_checkresult
WHERE waits_for = '' AND next_attempt_at <= statement_timestamp()
ORDER BY turn_at, id LIMIT %s FOR UPDATE SKIP LOCKED
"""
# The index of waiting checks begins with the source.
QUEUED = """
SELECT w.id, w.turn_at AS turn, free.source
FROM unnest(%s::text[], %s::int[]) AS free(source, room)
CROSS JOIN LATERAL (
    SELECT id, turn_at FROM checks_checkresult
    WHERE waits_for <> '' AND waits_for = free.source
        AND next_attempt_at <= statement_timestamp()
    ORDER BY turn_at, id LIMIT free.room FOR UPDATE SKIP LOCKED
) AS w
"""
CLAIM_DUE, CLAIM_QUEUED = (
    claim_sql(
        "checks_checkresult",
        due,
        """
    status = 'RUNNING', claims = claims + 1, fence = fence + 1, waits_for = '',
    started_at = COALESCE(started_at, lease.begins),
    next_attempt_at = lease.ends, turn_at = lease.ends
        """,
        returning="""
    due.turn, claimed.id, report_id, definition_id, name, attempt, tries,
    claims, fence, started_at, reused_from_id, revision, due.source,
    started_at = lease.begins
        """,
    )
    for due in (DUE, QUEUED)
)


def wake_up() -> None:
    """Run due checks after the caller's transaction commits."""
    schedule_job(JobName.RUN_DUE_CHECKS)


def make_due(result_id: UUID, at: datetime) -> None:
    """Schedule this check, which waits for a referee, in the caller's transaction.

    Raises the fence, so that a worker that read the reference earlier cannot postpone
    the check. Does nothing for a check that has ended.
    """
    rows = CheckResult.every.filter(pk=result_id, status=ResultStatus.RUNNING)
    if rows.update(next_attempt_at=at, turn_at=at, claims=0, fence=F("fence") + 1):
        wake_up()


def wake_up_row(at: datetime) -> Rows:
    """Run due checks at this time, by a row that the caller inserts with its own."""
    return job_row(JobName.RUN_DUE_CHECKS, at=at)


def schedule_checks(report: Report, at: datetime) -> None:
    """Make the checks of a report that has just begun to run due."""
    CheckResult.objects.filter(report=report).update(next_attempt_at=at, turn_at=at)
    wake_up()


def assign_turns(account_id: UUID, count: int, at: datetime) -> list[datetime]:
    """Return turns for this many checks that are ordered together."""
    if count <= MAX_SMALL_REQUEST:
        return [at] * count
    takes = (count * TURN_INTERVAL).total_seconds()
    [(first,)] = run_sql(
        """
        INSERT INTO checks_turnreservation AS taken (account_id, until)
        VALUES (%(account)s, %(at)s + %(takes)s * interval '1 second')
        ON CONFLICT (account_id) DO UPDATE SET until =
            greatest(taken.until, %(at)s) + %(takes)s * interval '1 second'
        RETURNING until - %(takes)s * interval '1 second'
        """,
        {"account": account_id, "at": at, "takes": takes},
    )
    return [first + number * TURN_INTERVAL for number in range(count)]


@dataclass(frozen=True, slots=True)
class Claim:
    """A check result that this worker may run until its lease ends."""

    result_id: UUID
    report: Report
    definition_id: UUID
    name: str
    attempt: int
    tries: int
    claims: int
    fence: int
    started_at: datetime
    reused_from_id: UUID | None
    # More than 0: a re-run, which does not count until a reviewer accepts it.
    revision: int = 0
    # The source whose room the check waited for, or "".
    queued_source: str = ""
    # True if this claim begins the run, at `started_at`.
    is_first: bool = False
    # These are copied from `CallPermit`.
    call_id: UUID | None = None
    more: bool = False
    asked_at: datetime | None = None
    # The inquiry that the source has accepted, and the consent if the source needs it.
    begun: PendingInquiry | None = None
    given: ConsentEvidence | None = None
    # The row of a re-run for which the reviewer corrected the subject.
    edited: CheckResult | None = None
    # The outcome that the client has set for this run in its sandbox, or "".
    next_outcome: str = ""
    # The times of the call to the provider and of its answer.
    began_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def is_rerun(self) -> bool:
        return self.revision > 0

    @property
    def subject(self) -> dict[str, Any] | None:
        """The subject's details for the check, unless they are erased."""
        return self.edited.inputs if self.edited else self.report.subject

    @property
    def reference(self) -> str:
        """Return the reference of this run of the check, the same at every source."""
        return f"{self.result_id}-{self.attempt}"

    @property
    def run_began_at(self) -> datetime:
        """Return the start of the run, without the wait for the check's turn."""
        return (self.began_at if self.is_first else None) or self.started_at

    @property
    def key(self) -> tuple[UUID, int]:
        """Tell the claim from later claims of the same check."""
        return self.result_id, self.fence


def claim(limit: int) -> list[Claim]:
    """Claim up to `limit` due results, in the order of their turns.

    Claims are counted here and not at the end, to recognise a check that kills its
    worker.
    """
    return _claim(CLAIM_DUE, [limit])


def claim_queued(rooms: Mapping[str, int]) -> list[Claim]:
    """Claim up to this many waiting results for each source, in the order of turns."""
    return _claim(CLAIM_QUEUED, [list(rooms), list(rooms.values())])


@transaction.atomic
def _claim(sql: str, values: list[Any]) -> list[Claim]:
    claimed = run_sql(sql, [*values, None, settings.CHECK_LEASE_SECONDS])
    # The update returns its rows in any order: sorted by their turns and ids.
    rows = [row[1:] for row in sorted(claimed)]
    if not rows:
        return []
    # Read with the claim, so that consent and suspension are current for the call.
    reports = Report.objects.select_related("workspace", "consent").in_bulk(
        {row[1] for row in rows}
    )
    claims = [Claim(row[0], reports[row[1]], *row[2:]) for row in rows]
    reruns = [claim.result_id for claim in claims if claim.is_rerun]
    if not reruns:
        return claims
    edited = CheckResult.every.filter(pk__in=reruns, inputs__isnull=False).in_bulk()
    return [replace(claim, edited=edited.get(claim.result_id)) for claim in claims]


def count_given_up(within: timedelta) -> int:
    """Return how many checks the engine gave up within this time."""
    at = now()
    failed = CheckResult.every.filter(
        # The index of failed checks is in the order of ids.
        id__gt=first_id_at(at - OLDEST_GIVEN_UP),
        status=ResultStatus.FAILED,
        failure_code=GAVE_UP,
        completed_at__gt=at - within,
    )
    return failed.count()


def schedule_next_run() -> None:
    """Schedule a job for the next due check, unless one will run by then anyway.

    A run ends with this if it has left no check that is due. The others wait for their
    source or for the lease of a worker that may have died. A run that dies before this
    call runs again.
    """
    waiting = CheckResult.every.filter(next_attempt_at__isnull=False)
    times = waiting.values_list("next_attempt_at", flat=True)
    # The orders of the two indexes: a check that is not due yet has its turn when it is
    # due. A worker that is calling a source picks up the checks that wait for it.
    queued = times.exclude(waits_for="").order_by("waits_for", "turn_at", "id")
    others = times.filter(waits_for="").order_by("turn_at", "id")
    ensure_job_by(JobName.RUN_DUE_CHECKS, queued.first() or others.first())
