"""What the ends of its checks make of a report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import F

from verification.checks.events import report_event
from verification.checks.models import CheckResult, ResultStatus
from verification.consents.models import ConsentStatus
from verification.reports.models import Report, ReportStatus, RiskLevel
from verification.reports.transitions import Move, move
from webhooks.events import Happening
from webhooks.models import Event

CHECK_ENDED = "check ended"


@dataclass(frozen=True, slots=True)
class Settled:
    """A report after its checks were looked at, and the event that makes if any."""

    report: Report
    stack: list[tuple[str, str, UUID]]
    consent_status: str
    event: Happening | None


@dataclass(slots=True)
class _Standing:
    """How the checks of one report stand, and its consent."""

    stack: list[tuple[str, str, UUID]]
    consent_status: str = ConsentStatus.NOT_REQUIRED.value
    score: int | None = None
    # Over all checks; a retry raises it, so each end of a report has its own.
    runs: int = 0

    def count(self, status: str) -> int:
        return sum(1 for _, stands, _ in self.stack if stands == status)

    @property
    def is_ended(self) -> bool:
        ended = {ResultStatus.COMPLETED, ResultStatus.FAILED, ResultStatus.CANCELLED}
        return all(status in ended for _, status, _ in self.stack)


def settle(reports: Mapping[UUID, Report], at: datetime) -> dict[UUID, Settled]:
    """Move each report where its checks have brought it. The caller holds the reports.

    A report that was cancelled meanwhile stays so.
    """
    standings = _standings(reports)
    moves, scored = [], []
    for pk, report in reports.items():
        if report.status in {ReportStatus.RUNNING, ReportStatus.PARTIAL}:
            step = _step(report, standings[pk], at)
            moves += [step] if step else []
            scored += [] if step else [report]
    move(moves, at)
    _write_scores([r for r in scored if _rescore(r, standings[r.pk])], at)
    moved = {m.report.pk for m in moves}
    return {
        pk: Settled(
            report,
            standings[pk].stack,
            standings[pk].consent_status,
            _end_event(report, standings[pk])
            if pk in moved and report.is_ended
            else None,
        )
        for pk, report in reports.items()
    }


def _standings(reports: Mapping[UUID, Report]) -> dict[UUID, _Standing]:
    standings: dict[UUID, _Standing] = defaultdict(lambda: _Standing([]))
    # With the consent: read together with the lock, it could be older than that.
    rows = (
        CheckResult.objects.filter(report__in=list(reports))
        .order_by("report_id", "position")
        .values_list("report_id", "name", "status", "id", "score", "attempt")
        .annotate(consent_status=F("report__consent__status"))
    )
    for report_id, name, status, result_id, score, attempt, consent_status in rows:
        standing = standings[report_id]
        standing.consent_status = consent_status or standing.consent_status
        standing.stack.append((name, status, result_id))
        standing.runs += attempt
        if status == ResultStatus.COMPLETED and score is not None:
            # The worst finding decides; no average hides it.
            standing.score = max(score, standing.score or 0)
    return standings


def _step(report: Report, standing: _Standing, at: datetime) -> Move | None:
    """The move that is due, if one is."""
    changes: dict[str, Any] = {
        "risk_score": standing.score,
        "risk_level": RiskLevel.of(standing.score).value,
    }
    if not standing.is_ended:
        none_ended = standing.count(ResultStatus.PENDING) + standing.count(
            ResultStatus.RUNNING
        ) == len(standing.stack)
        if none_ended or report.status == ReportStatus.PARTIAL:
            return None
        return Move(report, ReportStatus.PARTIAL, CHECK_ENDED, "engine", changes)
    changes["completed_at"] = at
    completed, checks = standing.count(ResultStatus.COMPLETED), len(standing.stack)
    if completed == checks:
        return Move(report, ReportStatus.READY, CHECK_ENDED, "engine", changes)
    changes["failure_code"] = "CHECKS_FAILED"
    changes["failure_message"] = (
        f"{checks - completed} of {checks} checks could not be completed."
    )
    target = ReportStatus.PARTIAL if completed else ReportStatus.FAILED
    return Move(report, target, CHECK_ENDED, "engine", changes)


def _rescore(report: Report, standing: _Standing) -> bool:
    """Bring the report's score up to date; True if it changed."""
    changed = report.risk_score != standing.score
    report.risk_score = standing.score
    report.risk_level = RiskLevel.of(standing.score).value
    return changed


def _write_scores(reports: list[Report], at: datetime) -> None:
    if not reports:
        return
    rows = [(report.pk, report.risk_score, report.risk_level) for report in reports]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE reports_report r
            SET risk_score = u.score, risk_level = u.level, updated_at = %s
            FROM unnest(%s::uuid[], %s::smallint[], %s::text[]) AS u(id, score, level)
            WHERE r.id = u.id
            """,
            [at, *map(list, zip(*rows, strict=True))],
        )


def _end_event(report: Report, standing: _Standing) -> Happening:
    ready = report.status == ReportStatus.READY
    return report_event(
        Event.Name.REPORT_READY if ready else Event.Name.REPORT_FAILED,
        f"{report.pk}:{standing.runs}",
        report,
        standing.stack,
        consent_status=standing.consent_status,
    )
