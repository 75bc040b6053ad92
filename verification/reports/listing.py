"""Lists of a workspace's reports: filtered, newest first, with an exact total."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from verification.postgresql.planning import planned_for_their_values
from verification.reports.models import Report
from verification.reports.search import matching


@dataclass(frozen=True, slots=True)
class Filters:
    """Days are those of `zone`, both ends included."""

    search: str | None = None
    status: str | None = None
    subject_type: str | None = None
    first_day: date | None = None
    last_day: date | None = None
    zone: tzinfo = UTC


@dataclass(frozen=True, slots=True)
class Listed:
    reports: list[Report]
    total: int


@planned_for_their_values()
def list_reports(
    workspace_id: UUID, environment: str, filters: Filters, *, page: int, size: int
) -> Listed:
    """One page of them, and how many there are in all."""
    found = _found(workspace_id, environment, filters)
    # Ids come from the index alone; only the rows of this page are read from the table.
    first = page * size
    ids = list(
        found.order_by("-created_at", "-id").values_list("id", flat=True)[
            first : first + size
        ]
    )
    # A page that is not full is the last one, and tells the total itself.
    total = first + len(ids)
    if len(ids) == size or (first and not ids):
        total = found.count()
    reports = Report.objects.in_bulk(ids)
    return Listed([reports[id] for id in ids], total)


def _found(workspace_id: UUID, environment: str, filters: Filters) -> QuerySet[Report]:
    reports = Report.objects.filter(workspace=workspace_id, environment=environment)
    exact: dict[str, Any] = {
        "status": filters.status,
        "subject_type": filters.subject_type,
        "created_at__gte": _start_of(filters.first_day, filters.zone),
        "created_at__lt": _start_of(
            filters.last_day, filters.zone, after=timedelta(days=1)
        ),
    }
    reports = reports.filter(**{k: v for k, v in exact.items() if v is not None})
    if filters.search:
        reports = reports.filter(matching(workspace_id, environment, filters.search))
    return reports


def _start_of(
    day: date | None, zone: tzinfo, after: timedelta = timedelta()
) -> datetime | None:
    if day is None:
        return None
    try:
        return datetime.combine(day, time(), zone) + after
    except OverflowError:
        # The day after the calendar's last: nothing is later.
        return None
