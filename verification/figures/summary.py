"""Figures of a period: sums of its days, by step, package and check."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

from django.db.models import F, QuerySet, Sum

from verification.db.base import run_sql
from verification.figures.durations import percentile
from verification.figures.models import COUNTS, SUMS, DailyFigure, DueDay, Progress
from workspaces.models import Account

ONE_DAY = timedelta(days=1)
# The most days and weeks that a drawing shows one by one
MOST_DAYS, MOST_WEEKS_DAYS = 31, 120
WITHOUT_PACKAGE = ""

# Durations of checks: the buckets of all days
OF_CHECKS = """
SELECT check_name, bucket, sum(count)
FROM ({rows}) r, unnest(turnaround_buckets, turnaround_counts) u(bucket, count)
GROUP BY 1, 2
"""


class Step(Enum):
    DAY = "day"
    WEEK = "week"
    MONTH = "month"

    def first_of(self, day: date) -> date:
        """Return the first day of the step that has this day."""
        if self is Step.WEEK:
            return day - timedelta(days=day.weekday())
        return day if self is Step.DAY else day.replace(day=1)

    def after(self, day: date) -> date:
        """Return the first day of the next step."""
        if self is Step.MONTH:
            return (day.replace(day=1) + timedelta(days=31)).replace(day=1)
        return self.first_of(day) + (7 * ONE_DAY if self is Step.WEEK else ONE_DAY)


@dataclass(frozen=True, slots=True)
class Days:
    """Days in Nairobi, both included."""

    first: date
    last: date

    @property
    def count(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def before(self) -> Days:
        """The period of the same length just before."""
        return Days(self.first - self.count * ONE_DAY, self.first - ONE_DAY)

    @property
    def step(self) -> Step:
        if self.count <= MOST_DAYS:
            return Step.DAY
        return Step.WEEK if self.count <= MOST_WEEKS_DAYS else Step.MONTH

    @property
    def steps(self) -> Iterator[date]:
        """Yield the first day of each step; the first and last may be cut."""
        day = self.first
        while day <= self.last:
            yield day
            day = self.step.after(day)


@dataclass(slots=True)
class Sums:
    """Figures of reports or of one check, added up."""

    created: int = 0
    drafts: int = 0
    ready: int = 0
    partial: int = 0
    failed: int = 0
    cancelled: int = 0
    low: int = 0
    medium: int = 0
    high: int = 0
    approved: int = 0
    declined: int = 0
    review: int = 0
    alerts: int = 0
    corrections: int = 0
    corrected: int = 0
    # Minor units
    charged: int = 0
    reversed: int = 0
    # Durations from launch to end, and from launch to decision: counts of reports by
    # bucket of `figures.durations`
    turnaround: Counter[int] = field(default_factory=Counter)
    deciding: Counter[int] = field(default_factory=Counter)

    def add(self, other: Mapping[str, Any]) -> None:
        """Add what `other` has of these members."""
        for name in self.__slots__:
            if more := other.get(name):
                setattr(self, name, getattr(self, name) + more)

    @property
    def under_way(self) -> int:
        """Ordered reports that have not ended."""
        return self.ordered - self.ready - self.partial - self.failed - self.cancelled

    @property
    def ordered(self) -> int:
        return self.created - self.drafts

    @property
    def scored(self) -> int:
        return self.low + self.medium + self.high

    @property
    def decided(self) -> int:
        return self.approved + self.declined

    @property
    def spend(self) -> Decimal:
        """The charges less the reversals."""
        return Decimal(self.charged - self.reversed) / 100

    @property
    def spend_per_report(self) -> Decimal | None:
        return self.spend / self.ordered if self.ordered else None

    @property
    def ready_percent(self) -> float | None:
        return 100 * self.ready / self.ordered if self.ordered else None

    @property
    def high_percent(self) -> float | None:
        return 100 * self.high / self.scored if self.scored else None

    @property
    def declined_percent(self) -> float | None:
        return 100 * self.declined / self.decided if self.decided else None

    @property
    def turnaround_median(self) -> timedelta | None:
        return percentile(self.turnaround, 50)

    @property
    def deciding_median(self) -> timedelta | None:
        return percentile(self.deciding, 50)


class Duration(NamedTuple):
    """The duration that half of the cases do not exceed, and 95 of 100."""

    median: timedelta
    slow: timedelta


@dataclass(slots=True)
class Figures:
    """The figures of a period and of the one before, for a page."""

    days: Days
    total: Sums = field(default_factory=Sums)
    before: Sums = field(default_factory=Sums)
    # First day -> sums, in order of time
    steps: dict[date, Sums] = field(default_factory=dict)
    # The steps of the period before, in the same order
    steps_before: dict[date, Sums] = field(default_factory=dict)
    # Name -> sums; WITHOUT_PACKAGE for reports without one
    packages: dict[str, Sums] = field(default_factory=dict)
    checks: dict[str, Sums] = field(default_factory=dict)
    # Check -> duration
    durations: dict[str, Duration] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return self.total == Sums()


@dataclass(frozen=True, slots=True)
class State:
    """Up to when figures are counted, and how many days of the client are not yet."""

    counted_to: datetime | None
    due_days: int


def read_state(account: Account) -> State:
    progress = Progress.objects.first()
    due = DueDay.objects.filter(
        workspace=account.workspace_id, environment=account.environment
    )
    return State(progress.read_to if progress else None, due.count())


def read_steps(account: Account, days: Days, package: str | None = None) -> Figures:
    """Add up a period and the one before, by step, in one statement.

    `package` is a name or WITHOUT_PACKAGE.
    """
    found = Figures(days, steps={day: Sums() for day in days.steps})
    found.steps_before = {day: Sums() for day in found.steps}
    both = Days(days.before.first, days.last)
    for values in _rows(account, both, package).filter(check_name=None).values():
        row: dict[str, Any] = dict(values)
        row["turnaround"] = _counter(row, "turnaround")
        row["deciding"] = _counter(row, "decision")
        day = row["day"]
        total, steps = found.total, found.steps
        if day < days.first:
            day += days.count * ONE_DAY
            total, steps = found.before, found.steps_before
        total.add(row)
        steps[max(start for start in steps if start <= day)].add(row)
    return found


def read_figures(account: Account, days: Days, package: str | None = None) -> Figures:
    """Add up a period as `read_steps` does, and its packages and checks."""
    found = read_steps(account, days, package)
    of_checks = _rows(account, days, package).exclude(check_name=None)
    by_package = _rows(account, days, package, apart=True)
    for row in _sums(by_package.filter(check_name=None), "package"):
        found.packages.setdefault(row["package"] or WITHOUT_PACKAGE, Sums()).add(row)
    for row in _sums(of_checks, "check_name"):
        found.checks.setdefault(row["check_name"], Sums()).add(row)
    found.durations = _read_durations(of_checks)
    return found


def daily_rows(
    account: Account, days: Days, package: str | None
) -> QuerySet[DailyFigure]:
    """Return the rows of each day, package and check, oldest first."""
    return _rows(account, days, package, apart=True).order_by(
        "day", F("package").asc(nulls_first=True), F("check_name").asc(nulls_first=True)
    )


def _rows(
    account: Account, days: Days, package: str | None, *, apart: bool = False
) -> QuerySet[DailyFigure]:
    """Return the rows of a package, or the sums of all; `apart`: those of each."""
    rows = DailyFigure.objects.filter(
        workspace=account.workspace_id,
        environment=account.environment,
        all_packages=package is None and not apart,
        day__range=(days.first, days.last),
    )
    return rows if package is None else rows.filter(package=package or None)


def _sums(rows: QuerySet[DailyFigure], by: str) -> Any:
    totals = {f"sum_{name}": Sum(name) for name in (*COUNTS, *SUMS)}
    for row in rows.values(by).annotate(**totals).order_by(by):
        yield {by: row[by]} | {
            name: int(row[f"sum_{name}"]) for name in (*COUNTS, *SUMS)
        }


def _read_durations(rows: QuerySet[DailyFigure]) -> dict[str, Duration]:
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    sql, values = rows.query.sql_with_params()
    for check, bucket, count in run_sql(OF_CHECKS.format(rows=sql), values):
        counts[check][bucket] = int(count)
    return {check: _duration(found) for check, found in counts.items()}


def _counter(row: Mapping[str, Any], name: str) -> Counter[int]:
    """Return the histogram of a row: bucket -> count."""
    pairs = zip(row[f"{name}_buckets"], row[f"{name}_counts"], strict=True)
    return Counter(dict(pairs))


def _duration(counts: Mapping[int, int]) -> Duration:
    median, slow = percentile(counts, 50), percentile(counts, 95)
    assert median is not None  # noqa: S101
    assert slow is not None  # noqa: S101
    return Duration(median, slow)
