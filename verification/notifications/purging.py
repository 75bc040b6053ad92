"""Forgetting whom notifications went to, and what they said, after a month.

The skeleton stays: what was sent for which cause, when, and how it ended.
"""

from __future__ import annotations

from datetime import timedelta

from django.utils.timezone import now

from verification.jobs.sweeping import in_steps

KEPT = timedelta(days=30)
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


# Codes that nobody typed.
UNCONFIRMED = """
DELETE FROM notifications_sandboxaddress WHERE id IN (
    SELECT id FROM notifications_sandboxaddress
    WHERE confirmed_at IS NULL AND created_at < %(before)s
    LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
"""
COUNTS = """
DELETE FROM notifications_dailycount WHERE (subject, day) IN (
    SELECT subject, day FROM notifications_dailycount
    WHERE day < %(before)s LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
"""


def purge() -> None:
    for statement in (GIVE_UP, FORGET):
        in_steps(statement, before=now() - KEPT)
    yesterday = now() - timedelta(days=1)
    in_steps(UNCONFIRMED, before=yesterday)
    in_steps(COUNTS, before=yesterday.date())
