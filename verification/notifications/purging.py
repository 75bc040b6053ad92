"""Forgetting whom notifications went to, and what they said, after a month.

The skeleton stays: what was sent for which cause, when, and how it ended.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection
from django.utils.timezone import now

from verification.jobs.heartbeat import beat

KEPT = timedelta(days=30)
AT_ONCE = 2_000
# What still waits after a month has failed, unless staff have just begun it anew.
GIVE_UP = """
UPDATE notifications_notification
SET status = 'FAILED', next_attempt_at = NULL, leased_until = NULL
WHERE id IN (
    SELECT id FROM notifications_notification
    WHERE next_attempt_at < %(before)s LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
"""
FORGET = """
UPDATE notifications_notification SET recipient = NULL, context = NULL WHERE id IN (
    SELECT id FROM notifications_notification
    WHERE recipient IS NOT NULL AND created_at < %(before)s AND next_attempt_at IS NULL
    ORDER BY created_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
"""


def purge() -> None:
    """In small steps, so that nobody waits long for a row; what is left comes next."""
    wanted: dict[str, datetime | int] = {"before": now() - KEPT, "limit": AT_ONCE}
    for statement in (GIVE_UP, FORGET):
        with connection.cursor() as cursor:
            while beat():
                cursor.execute(statement, wanted)
                if cursor.rowcount < AT_ONCE:
                    break
