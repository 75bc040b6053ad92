"""The findings of reports, as decisions, policies and the queue see them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet

from verification.checks.models import CheckResult, ResultStatus
from verification.db.base import run_sql
from verification.decisions.models import DECIDABLE, Decision
from verification.decisions.rules import (
    CheckFacts,
    Facts,
    checks_claimed,
    contradictions,
    suggestions,
)
from verification.reports.models import Report, ReportStatus

# Arrays, because 1,000 parameters take longer to write than their rows to read
RESULTS = """
SELECT r.report_id, r.id, r.name, r.status, r.score,
    CASE WHEN %s::text[] IS NULL OR r.name = ANY(%s::text[]) THEN r.finding END
FROM checks_checkresult r
WHERE r.report_id = ANY(%s) AND r.revision = 0
"""


def decidable_reports() -> QuerySet[Report]:
    """Return the ended reports that ran at least one check.

    A report that ended with a refused or expired consent or payment has no finding.
    """
    ran = CheckResult.objects.filter(
        report=OuterRef("pk"),
        status__in=[ResultStatus.COMPLETED, ResultStatus.FAILED],
    )
    ended = Report.objects.filter(status__in=DECIDABLE, completed_at__isnull=False)
    return ended.filter(Exists(ran))


def is_decidable(report: Report) -> bool:
    """Return whether the report can be decided.

    A report that was retried and then cancelled can while its subject waits for a
    review.
    """
    if report.status == ReportStatus.CANCELLED:
        asked = report.notices.filter(review_asked_at__isnull=False, reviewed_at=None)
        return asked.exists()
    return decidable_reports().filter(pk=report.pk).exists()


def completed_results(report: Report) -> list[UUID]:
    """Return the ids of the completed results that the report shows.

    A completed result never changes, and a correction puts another one in its place. So
    the same ids mean the same scores, levels and flags.
    """
    completed = report.results.filter(status=ResultStatus.COMPLETED)
    return sorted(completed.values_list("pk", flat=True))


def is_outdated(decision: Decision) -> bool:
    """Return whether the results of the decision have changed.

    An accepted correction changes them, and so does a retry that completes a check.
    Decisions of old versions, without stored result IDs, do not count as outdated.
    """
    if decision.result_ids is None:
        return False
    return sorted(decision.result_ids) != completed_results(decision.report)


def find_contradictions(report: Report, codes: Collection[str]) -> dict[str, list[str]]:
    """Return the reason codes that the findings contradict, with the checks."""
    return weigh_reasons(report, codes)[1] if codes else {}


def weigh_reasons(
    report: Report, codes: Collection[str]
) -> tuple[list[str], dict[str, list[str]]]:
    """Return the reason codes that the findings suggest, and those they contradict.

    The latter come with the checks that say so. It takes one statement.
    """
    stored = {report.pk: (report.risk_score, report.package)}
    facts = read_facts(stored, checks_claimed(codes))[report.pk]
    return suggestions(codes, facts), contradictions(codes, facts)


def read_facts(
    reports: Mapping[UUID, tuple[int | None, str | None]], names: Collection[str] | None
) -> dict[UUID, Facts]:
    """Return the facts of the reports (ID -> score and package), by report ID.

    It opens the sealed findings, with flags and numbers, only of the checks in `names`;
    `None` means all checks.
    """
    checks: dict[UUID, dict[str, CheckFacts]] = {pk: {} for pk in reports}
    field: Any = CheckResult._meta.get_field("finding")
    listed = None if names is None else list(names)
    results = run_sql(RESULTS, [listed, listed, list(reports)])
    for report_id, pk, name, status, score, sealed in results:
        finding = field.open(sealed, pk) if sealed else {}
        checks[report_id][name] = CheckFacts(
            status,
            score,
            frozenset(flag["code"] for flag in finding.get("flags") or ()),
            finding.get("details") or {},
        )
    return {pk: Facts(*report, checks[pk]) for pk, report in reports.items()}
