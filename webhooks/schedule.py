"""When a delivery that failed is tried again."""

from __future__ import annotations

import random
from datetime import timedelta

# Seconds after the failure before: ten attempts over about three days (75.6 hours).
WAITS = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
JITTER = 0.2
HOUR = 3_600
# Answers whose Retry-After counts.
BUSY = frozenset([429, 503])


def next_wait(
    failures: int, status_code: int | None, retry_after: float | None
) -> timedelta | None:
    """How long to wait after so many failures (1 or more); None when that was the last.

    `retry_after` is what the receiver asked for, in seconds. It can make the wait
    longer, up to twice that of the schedule or an hour, whichever is more.
    """
    if failures > len(WAITS):
        return None
    planned = WAITS[failures - 1]
    wait = planned * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311
    if status_code in BUSY and retry_after is not None:
        wait = max(wait, min(retry_after, max(2 * planned, HOUR)))
    return timedelta(seconds=wait)
