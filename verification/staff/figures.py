"""Figures of the last 24 hours and 7 days: checks, failures, latency, revenue.

Queries find rows by id, which grows with time, so each reads only its span. Checks of
reports that are older than the span are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import connection

from verification.values.wire import NAIROBI
from workspaces.models import Environment
from workspaces.operator import OPERATOR_ID

HOURS, DAYS = 24, 7
# (environment, start) -> what CHECKS counts
Rows = dict[tuple[str, datetime], tuple[Any, ...]]

CHECKS = """
SELECT r.environment, date_trunc(%(unit)s, c.completed_at, 'Africa/Nairobi'), count(*),
    count(*) FILTER (WHERE c.status = 'FAILED'),
    percentile_cont(0.5) WITHIN GROUP (ORDER BY c.duration_ms),
    percentile_cont(0.95) WITHIN GROUP (ORDER BY c.duration_ms)
FROM checks_checkresult c JOIN reports_report r ON r.id = c.report_id
WHERE c.id >= %(first)s AND r.id >= %(first)s
    AND c.completed_at >= %(since)s AND c.completed_at < %(until)s
    AND c.status IN ('COMPLETED', 'FAILED')
GROUP BY 1, 2
"""
# Charges less reversals, and payments less refunds, in production. The operator's own
# workspace is left out.
REVENUE = """
SELECT day, sum(amount) FROM (
    SELECT date_trunc('day', e.created_at, 'Africa/Nairobi') AS day, -e.amount AS amount
    FROM workspaces_ledgerentry e JOIN workspaces_account a ON a.id = e.account_id
    WHERE e.id >= %(first)s AND e.created_at >= %(since)s AND e.created_at < %(until)s
        AND e.kind IN ('CHARGE', 'REVERSAL') AND a.environment = 'production'
        AND a.workspace_id <> %(operator)s
    UNION ALL
    SELECT date_trunc('day', paid_at, 'Africa/Nairobi'), paid_amount - refunded
    FROM payments_checkout
    WHERE id >= %(first)s AND paid_at >= %(since)s AND paid_at < %(until)s
        AND is_counted AND report_id IS NOT NULL AND environment = 'production'
) AS earned GROUP BY day
"""


@dataclass(frozen=True, slots=True)
class Span:
    """Checks in each hour or day, oldest first."""

    starts: list[datetime]
    done: list[int]
    failed: list[int]
    median: list[float | None]
    slow: list[float | None]

    @property
    def total(self) -> int:
        return sum(self.done)

    @property
    def failure_rate(self) -> float:
        return 100 * sum(self.failed) / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of production, and those of the sandbox in `sandbox_*`."""

    hours: Span
    days: Span
    sandbox_hours: Span
    sandbox_days: Span
    revenue: list[Decimal]


def figures(at: datetime) -> Figures:
    """Return the figures, by hours and days of Nairobi, with the current ones."""
    hour = at.astimezone(NAIROBI).replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    hours = [hour - timedelta(hours=n) for n in reversed(range(HOURS))]
    days = [day - timedelta(days=n) for n in reversed(range(DAYS))]
    earned = {row[0]: row[1] for row in _rows(REVENUE, days[0], at, "day")}
    revenue = [earned.get(start, Decimal(0)) for start in days]
    live_hours, play_hours = _spans("hour", hours, at)
    live_days, play_days = _spans("day", days, at)
    return Figures(live_hours, live_days, play_hours, play_days, revenue)


def first_id(at: datetime) -> UUID:
    """Return the lowest id of that time or later (RFC 9562, version 7)."""
    return UUID(int=int(at.timestamp() * 1000) << 80)


def _spans(unit: str, starts: list[datetime], until: datetime) -> tuple[Span, Span]:
    """Return the spans of production and of the sandbox."""
    found = {row[:2]: row[2:] for row in _rows(CHECKS, starts[0], until, unit)}
    live = _span(Environment.PRODUCTION, starts, found)
    return live, _span(Environment.SANDBOX, starts, found)


def _span(environment: str, starts: list[datetime], found: Rows) -> Span:
    rows = [found.get((environment, start), (0, 0, None, None)) for start in starts]
    done, failed, median, slow = (list(column) for column in zip(*rows, strict=True))
    return Span(starts, done, failed, median, slow)


def _rows(sql: str, since: datetime, until: datetime, unit: str) -> list[Any]:
    given: dict[str, Any] = {
        "unit": unit,
        "since": since,
        "until": until,
        "first": first_id(since - timedelta(hours=1)),
        "operator": OPERATOR_ID,
    }
    with connection.cursor() as cursor:
        cursor.execute(sql, given)
        return cursor.fetchall()
