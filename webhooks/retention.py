"""Purge the payloads of events and the answers of receivers after a month.

The rows stay: they say which event was sent to which URL, when, and with which status.
"""

from __future__ import annotations

from datetime import timedelta

from django.db import connection
from django.utils.timezone import now

from verification.jobs.batches import execute_in_batches
from verification.jobs.queue import job

RETENTION = timedelta(days=30)
# A delivery to a disabled configuration fails after a month.
GIVE_UP = """
UPDATE webhooks_delivery
SET status = 'FAILED', next_attempt_at = NULL, leased_until = NULL
WHERE event_id IN (
    SELECT event_id FROM webhooks_delivery
    WHERE next_attempt_at IS NOT NULL AND created_at < %(before)s
    LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
"""
ERASE_SECRETS = """
UPDATE webhooks_configuration
SET previous_secret = NULL, previous_secret_ends_at = NULL
WHERE previous_secret_ends_at < statement_timestamp()
"""
ERASE_PAYLOADS = """
UPDATE webhooks_event SET payload = NULL WHERE id IN (
    SELECT id FROM webhooks_event WHERE payload IS NOT NULL AND created_at < %(before)s
    ORDER BY created_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
"""
ERASE_ANSWERS = """
UPDATE webhooks_attempt SET answer = NULL WHERE id IN (
    SELECT id FROM webhooks_attempt WHERE answer IS NOT NULL AND started_at < %(before)s
    ORDER BY started_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
"""


@job
def purge_events() -> None:
    """Erase the content of events and answers that are older than `RETENTION`."""
    before = now() - RETENTION
    with connection.cursor() as cursor:
        cursor.execute(ERASE_SECRETS)
    for statement in (GIVE_UP, ERASE_PAYLOADS, ERASE_ANSWERS):
        execute_in_batches(statement, before=before)
