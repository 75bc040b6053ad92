"""Whose check is next, when there are more than can be run.

Checks run in the order of their turns. A small request's turn is when it comes. The
checks of a large one take turns at a fixed distance, after those of the account's
earlier large ones; so whoever comes in the middle is served in the middle, and not
after the last of 100,000. While nobody else waits turns are taken early.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection

# Up to so many checks a request is small.
SMALL = 50
# Each account's share while several want to be served: 200 checks a second.
DISTANCE = timedelta(milliseconds=5)


def turns(account_id: UUID, count: int, at: datetime) -> list[datetime]:
    """The turns of this many checks that are ordered together."""
    if count <= SMALL:
        return [at] * count
    first = _take(account_id, count, at)
    return [first + number * DISTANCE for number in range(count)]


def _take(account_id: UUID, count: int, at: datetime) -> datetime:
    takes = (count * DISTANCE).total_seconds()
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO checks_turnstaken AS taken (account_id, until)
            VALUES (%(account)s, %(at)s + %(takes)s * interval '1 second')
            ON CONFLICT (account_id) DO UPDATE SET until =
                greatest(taken.until, %(at)s) + %(takes)s * interval '1 second'
            RETURNING until - %(takes)s * interval '1 second'
            """,
            {"account": account_id, "at": at, "takes": takes},
        )
        return cursor.fetchone()[0]
