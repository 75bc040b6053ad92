"""The breaker: a source that does not answer is left alone for a while.

It opens at the tenth failure in a row, for 30 seconds, and for twice as long after each
rest that ended in another failure, up to five minutes. Then one call tries it.
"""

from __future__ import annotations

from datetime import datetime

from django.db import connection

FAILURE_THRESHOLD = 10

COUNT_FAILURES = f"""
UPDATE sources_source
SET failures_in_row = failures_in_row + %(failures)s,
    probed_at = NULL,
    resting_until = CASE
        WHEN failures_in_row + %(failures)s < {FAILURE_THRESHOLD} THEN NULL
        WHEN resting_until > %(at)s THEN resting_until
        ELSE %(at)s + interval '1 second' * LEAST(300, 30 * 2 ^ LEAST(rests, 10))
    END,
    rests = rests + CASE
        WHEN failures_in_row + %(failures)s < {FAILURE_THRESHOLD} THEN 0
        WHEN resting_until > %(at)s THEN 0
        ELSE 1
    END
WHERE name = %(name)s
"""  # noqa: S608
RESET_FAILURES = """
UPDATE sources_source
SET failures_in_row = 0, resting_until = NULL, rests = 0, probed_at = NULL,
    answered_at = %(at)s
WHERE name = %(name)s
"""


def record_failures(name: str, failures: int, at: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute(COUNT_FAILURES, {"name": name, "failures": failures, "at": at})


def record_answer(name: str, at: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute(RESET_FAILURES, {"name": name, "at": at})
