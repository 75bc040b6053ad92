"""When a rule runs: at whole periods after it was made, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dateutil.relativedelta import relativedelta
from django.db import models


class Cadence(models.TextChoices):
    DAILY = "DAILY"
    WEEKLY = "WEEKLY"
    MONTHLY = "MONTHLY"
    QUARTERLY = "QUARTERLY"
    SEMI_ANNUALLY = "SEMI_ANNUALLY"
    ANNUALLY = "ANNUALLY"


DAYS = {Cadence.DAILY: 1, Cadence.WEEKLY: 7}
MONTHS = {
    Cadence.MONTHLY: 1,
    Cadence.QUARTERLY: 3,
    Cadence.SEMI_ANNUALLY: 6,
    Cadence.ANNUALLY: 12,
}


def next_time(start: datetime, cadence: str, after: datetime) -> datetime:
    """The first time after that moment, however many went by.

    Each is counted from the start: a rule of the 31st runs on the last day of a
    shorter month, and on the 31st again after it.
    """
    cadence, start = Cadence(cadence), start.astimezone(UTC)
    passed = max(0, _periods(start, cadence, after) - 1)
    while (time := _time(start, cadence, passed + 1)) <= after:
        passed += 1
    return time


def _periods(start: datetime, cadence: Cadence, after: datetime) -> int:
    """How many whole periods there are between them, give or take one."""
    if cadence in DAYS:
        return (after - start) // timedelta(days=DAYS[cadence])
    after = after.astimezone(UTC)
    months = (after.year - start.year) * 12 + after.month - start.month
    return months // MONTHS[cadence]


def _time(start: datetime, cadence: Cadence, periods: int) -> datetime:
    if cadence in DAYS:
        return start + timedelta(days=DAYS[cadence] * periods)
    return start + relativedelta(months=MONTHS[cadence] * periods)
