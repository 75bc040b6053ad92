"""When a notification that could not be sent is tried again."""

from __future__ import annotations

from datetime import timedelta

# After the attempt before: six attempts over eight and a half hours.
WAITS = (
    timedelta(minutes=1),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=6),
)
MOST_ATTEMPTS = len(WAITS) + 1


def next_wait(attempts: int) -> timedelta | None:
    """How long to wait after so many attempts (1 or more); None after the last."""
    return WAITS[attempts - 1] if attempts < MOST_ATTEMPTS else None
