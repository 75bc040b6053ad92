"""Taking due checks from the table, so that each is run by one worker at a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from verification.checks.models import CheckResult
from verification.reports.models import Report


@dataclass(frozen=True, slots=True)
class Claim:
    """A result this worker may run until its lease ends."""

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


@transaction.atomic
def claim(limit: int) -> list[Claim]:
    """Up to `limit` due results, in the order of their turns.

    The count of claims is raised here and not when one ends: a check that kills its
    worker is then seen for what it is.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH due AS (
                SELECT id,
                    statement_timestamp() + %(lease)s * interval '1 second' AS lease_end
                FROM checks_checkresult
                WHERE next_attempt_at <= statement_timestamp()
                ORDER BY turn_at, id
                LIMIT %(limit)s FOR UPDATE SKIP LOCKED
            )
            UPDATE checks_checkresult r
            SET status = 'RUNNING', claims = r.claims + 1, fence = r.fence + 1,
                started_at = COALESCE(r.started_at, statement_timestamp()),
                next_attempt_at = due.lease_end, turn_at = due.lease_end
            FROM due WHERE r.id = due.id
            RETURNING r.id, r.report_id, r.definition_id, r.name, r.attempt, r.tries,
                r.claims, r.fence, r.started_at, r.reused_from_id
            """,
            {"limit": limit, "lease": settings.CHECK_LEASE_SECONDS},
        )
        rows = cursor.fetchall()
    if not rows:
        return []
    # Read with the claim: what they say of consent and suspension holds for the call.
    reports = Report.objects.select_related("workspace", "consent").in_bulk(
        {row[1] for row in rows}
    )
    return [Claim(row[0], reports[row[1]], *row[2:]) for row in rows]


def earlier_finding(result_id: UUID) -> CheckResult | None:
    """The result whose findings are used again, unless it was erased since."""
    return CheckResult.objects.filter(pk=result_id, finding__isnull=False).first()
