"""Taking due notifications from the table, each by one sender at a time."""

from __future__ import annotations

from django.db.models import Min, Q

from verification.jobs.queue import wake_up_by
from verification.notifications.models import Notification
from verification.notifications.notifying import SEND_DUE

# Longer than any job may run: who holds a lease that has ended is dead.
LEASE_SECONDS = 150

CLAIM = """
WITH due AS MATERIALIZED (
    SELECT id FROM notifications_notification
    WHERE next_attempt_at <= statement_timestamp() AND (
        workspace_id IS NULL OR workspace_id <> ALL (ARRAY(
            SELECT id FROM workspaces_workspace WHERE suspended_at IS NOT NULL
        ))
    )
    ORDER BY next_attempt_at, id LIMIT 1
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE notifications_notification n
SET fence = fence + 1, attempts = attempts + 1,
    next_attempt_at = statement_timestamp() + %(lease)s * interval '1 second',
    leased_until = statement_timestamp() + %(lease)s * interval '1 second'
FROM due WHERE n.id = due.id
RETURNING n.*
"""


def claim() -> Notification | None:
    """The one that is due longest, committed as this sender's until its lease ends.

    What a suspended workspace would send waits until it works again. An attempt
    counts from here on, so that one that kills its sender ends, too.
    """
    return next(iter(Notification.objects.raw(CLAIM, {"lease": LEASE_SECONDS})), None)


def wake_up_for_the_next() -> None:
    """Have a sender look again when the next is due, unless one will anyway.

    Every run ends with this. What is left then waits for its time, or for the lease
    of a sender that may have died.
    """
    waiting = Notification.objects.filter(
        Q(workspace=None) | Q(workspace__suspended_at=None),
        next_attempt_at__isnull=False,
    )
    wake_up_by(SEND_DUE, waiting.aggregate(due=Min("next_attempt_at"))["due"])
