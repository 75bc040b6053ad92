"""The health of live sources: their calls counted by the minute, and the availability.

A worker adds up its calls and writes the sums once a second, and immediately when a
source begins to fail or to answer again. So no page reads single calls. If a worker
dies, only these figures lack its last second.

The row of a source says whether it fails. The worker that writes the first failure of
an outage logs it, and so does the one that writes a further cause or the end: there is
one line for each, however many workers and machines call the source.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, Literal, NamedTuple

from django.core.cache import cache
from django.db import transaction

from verification.db import breaker
from verification.db.base import run_sql
from verification.jobs.claims import delete_in_batches
from verification.jobs.queue import job
from verification.providers.registry import asks_referee, route_for
from verification.sources.models import CallOutcome, Source, SourceMinute
from verification.values.clock import now

logger = logging.getLogger(__name__)
Status = Literal["AVAILABLE", "DEGRADED", "UNAVAILABLE"]
# Upper bounds in milliseconds, each a quarter above the one before. A slower answer
# counts as the last bound. A percentile is wrong by half a step at most.
BOUNDS = [round(10 * 1.25**step) for step in range(40)]
HOUR, RETENTION = timedelta(hours=1), timedelta(days=2)
FLUSH_SECONDS = 1.0
# A source that answers a smaller share of its calls is degraded.
MIN_SUCCESS_RATE = 0.95
# The success rate of fewer calls than this does not count.
MIN_CALLS = 10
# If the breaker did not open, an answer ends the outage only this long after the last
# failure: otherwise a source that fails now and then would fill the log.
OUTAGE_PAUSE = timedelta(minutes=1)
CACHE_SECONDS = 15
CACHE_KEY = "sources:states"

ADD_MINUTE = """
INSERT INTO sources_sourceminute AS m
    (source, minute, answered, refused, unavailable, took)
VALUES (%s, date_trunc('minute', %s::timestamptz), %s, %s, %s, %s)
ON CONFLICT (source, minute) DO UPDATE SET
    answered = m.answered + excluded.answered,
    refused = m.refused + excluded.refused,
    unavailable = m.unavailable + excluded.unavailable,
    took = ARRAY(
        SELECT a + b FROM unnest(m.took, excluded.took) WITH ORDINALITY AS t(a, b, n)
        ORDER BY n
    )
"""
COUNT_FAILURES = f"""
UPDATE sources_source SET probed_at = NULL, failed_at = %(at)s,
    failing_since = COALESCE(failing_since, %(at)s), causes = causes || %(new)s,
    {breaker.COUNT_FAILURES}
WHERE name = %(name)s
"""  # noqa: S608
NOT_FAILING: dict[str, Any] = {"failing_since": None, "failed_at": None, "causes": []}


class Tally:
    """The calls of one worker since its last flush, by source."""

    def __init__(self) -> None:
        self._sources: dict[str, _SourceTally] = defaultdict(_SourceTally)
        self._failing: set[str] = set()
        self._known: set[str] = set()
        self._flush_at = 0.0

    def note(self, source: str, end: str, seconds: float, cause: str = "") -> None:
        """Count a call that has just ended with this `CallOutcome`."""
        tally = self._sources[source]
        tally.ends[end] += 1
        if end == CallOutcome.UNAVAILABLE:
            tally.failures += 1
            tally.causes.add(cause)
            self._failing.add(source)
            self._flush_at = 0.0
            return
        tally.has_answered, tally.failures = True, 0
        tally.causes.clear()
        if end == CallOutcome.ANSWERED:
            tally.took[bisect_left(BOUNDS, seconds * 1000)] += 1
        if source in self._failing or source not in self._known:
            self._flush_at = 0.0

    def flush(self, *, at_last: bool = False) -> None:
        """Write the sums if a second has passed, or in any case with `at_last`."""
        if not self._sources or (time.monotonic() < self._flush_at and not at_last):
            return
        self._flush_at = time.monotonic() + FLUSH_SECONDS
        tallies, self._sources = self._sources, defaultdict(_SourceTally)
        at = now()
        lines: list[str] = []
        with transaction.atomic():
            # Sorted, so that two workers never deadlock.
            for name in sorted(tallies):
                lines += self._write(name, tallies[name], at)
        for line in lines:
            logger.warning(line)
        self._known |= set(tallies)

    def _write(self, name: str, tally: _SourceTally, at: datetime) -> list[str]:
        """Write the sums; return the lines to log once they are committed."""
        counted = CallOutcome.ANSWERED, CallOutcome.REFUSED, CallOutcome.UNAVAILABLE
        ends = [tally.ends[outcome] for outcome in counted]
        run_sql(ADD_MINUTE, [name, at, *ends, tally.took])
        lines: list[str] = []
        rows = Source.objects.filter(name=name)
        source = rows.select_for_update().first() or Source(name=name, causes=[])
        if tally.has_answered:
            changes: dict[str, Any] = breaker.CLOSED | {
                "probed_at": None,
                "answered_at": at,
            }
            last, is_resting = source.failed_at, source.resting_until is not None
            if last and (is_resting or last < at - OUTAGE_PAUSE):
                seconds = (at - (source.failing_since or at)).total_seconds()
                causes = ", ".join(source.causes)
                lines.append(
                    f"source {name} answers again after {seconds:.0f} s: {causes}"
                )
                changes |= NOT_FAILING
                source.causes = []
            rows.update(**changes)
            self._failing.discard(name)
        if tally.failures:
            new = sorted(tally.causes - set(source.causes))
            lines += [f"source {name} does not answer: {cause}" for cause in new]
            values: dict[str, Any] = {"name": name, "at": at, "new": new}
            run_sql(COUNT_FAILURES, values | {"failures": tally.failures})
            self._failing.add(name)
        return lines


@dataclass(slots=True)
class _SourceTally:
    ends: Counter[str] = field(default_factory=Counter)
    took: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    # The failures since the last answer.
    failures: int = 0
    causes: set[str] = field(default_factory=set)
    has_answered: bool = False


@job
def purge_old_minutes() -> None:
    """Delete the counts of minutes that are older than `RETENTION`."""
    delete_in_batches(SourceMinute.objects.filter(minute__lt=now() - RETENTION))


@dataclass(frozen=True, slots=True)
class Health:
    """The figures of a source's last hour."""

    answered: int = 0
    refused: int = 0
    unavailable: int = 0
    median_ms: int | None = None
    slow_ms: int | None = None

    @property
    def calls(self) -> int:
        return self.answered + self.refused + self.unavailable

    @property
    def success_rate(self) -> float | None:
        """Return the share of calls with an answer, 0 to 1."""
        if not self.calls:
            return None
        return round(1 - self.unavailable / self.calls, 4)


def health_by_source() -> dict[str, Health]:
    """Return the last hour of every source that was called in it."""
    rows: dict[str, list[SourceMinute]] = defaultdict(list)
    for row in SourceMinute.objects.filter(minute__gt=now() - HOUR):
        rows[row.source].append(row)
    return {source: _summarize(minutes) for source, minutes in rows.items()}


def _summarize(minutes: Iterable[SourceMinute]) -> Health:
    minutes = list(minutes)
    took = [sum(counts) for counts in zip(*(m.took for m in minutes), strict=True)]
    return Health(
        sum(m.answered for m in minutes),
        sum(m.refused for m in minutes),
        sum(m.unavailable for m in minutes),
        _percentile(took, 0.5),
        _percentile(took, 0.95),
    )


def _percentile(took: list[int], share: float) -> int | None:
    """Return the bound within which this share of the answers came."""
    count = share * sum(took)
    if not count:
        return None
    reached = next(i for i, n in enumerate(accumulate(took)) if n >= count)
    return BOUNDS[min(reached, len(BOUNDS) - 1)]


def availability(check: str, environment: str, country: str) -> tuple[Status, Health]:
    """Return the status and health of the route's first source that does not rest.

    The figures are up to 15 seconds old. The sandbox and referees are always AVAILABLE.
    """
    route = route_for(check, environment, country)
    if not route.is_live:
        always = environment != "production" or asks_referee(check, environment)
        return ("AVAILABLE" if always else "UNAVAILABLE"), Health()
    states = [_state(provider.name) for provider in route.providers]
    first = next((state for state in states if not state.rests), None)
    if first is None:
        return "UNAVAILABLE", states[0].health
    rate = first.health.success_rate
    fails_often = (
        rate is not None and rate < MIN_SUCCESS_RATE and first.health.calls >= MIN_CALLS
    )
    # After a rest nobody knows whether the source is back, until a call succeeds.
    is_degraded = fails_often or first.resting_until or first is not states[0]
    return ("DEGRADED" if is_degraded else "AVAILABLE"), first.health


def health_of(source: str) -> Health:
    """Return the figures of the source's last hour, at most 15 seconds old."""
    return _state(source).health


class _State(NamedTuple):
    resting_until: datetime | None = None
    health: Health = Health()

    @property
    def rests(self) -> bool:
        return self.resting_until is not None and self.resting_until > now()


def _state(source: str) -> _State:
    states = cache.get_or_set(CACHE_KEY, _states, CACHE_SECONDS) or {}
    return states.get(source, _State())


def _states() -> dict[str, _State]:
    tripped = Source.objects.filter(resting_until__isnull=False)
    rests = dict(tripped.values_list("name", "resting_until"))
    health = health_by_source()
    return {
        name: _State(rests.get(name), health.get(name, Health()))
        for name in rests.keys() | health.keys()
    }
