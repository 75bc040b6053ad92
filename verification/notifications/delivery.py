"""Send due notifications: claim one, send it outside any transaction, record it."""

from __future__ import annotations

import logging
import time
from datetime import timedelta

from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.timezone import now

from verification.jobs.due_rows import claim_due, schedule_next_run
from verification.jobs.queue import beat, job
from verification.notifications.mail import Mailer
from verification.notifications.models import (
    Channel,
    Notification,
    NotificationError,
    NotificationStatus,
    Outcome,
)
from verification.notifications.recipients import CODE_KINDS, count_or_withhold
from verification.notifications.sms import send_sms
from verification.notifications.templates import write_email, write_sms

# After the attempt before: six attempts over eight and a half hours.
RETRY_DELAYS = (
    timedelta(minutes=1),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=6),
)
MAX_ATTEMPTS = len(RETRY_DELAYS) + 1


def next_retry_delay(attempts: int) -> timedelta | None:
    """Return the wait after so many attempts (1 or more), or None after the last."""
    return RETRY_DELAYS[attempts - 1] if attempts < MAX_ATTEMPTS else None


# Longer than any job may run: the holder of a lease that has ended is dead.
LEASE = timedelta(seconds=150)


def _waiting() -> QuerySet[Notification]:
    """Return what is to be sent: not what a suspended workspace would send."""
    return Notification.objects.filter(
        next_attempt_at__isnull=False, workspace__suspended_at=None
    )


def claim() -> Notification | None:
    """Claim the notification that has been due longest, and count the attempt.

    The attempt counts from here on, so that the attempts of a message that kills its
    sender come to an end.
    """
    due = _waiting().filter(next_attempt_at__lte=Now())
    claimed = claim_due(
        due.order_by("next_attempt_at", "pk")[:1],
        "fence = fence + 1, attempts = attempts + 1, "
        "next_attempt_at = lease.ends, leased_until = lease.ends",
        LEASE,
    )
    return claimed[0] if claimed else None


logger = logging.getLogger(__name__)

# One job sends for so long; another goes on.
RUN_SECONDS = 60
# For how long a code is worth sending.
CODE_LIFETIME = timedelta(minutes=10)


@job
def send_due_notifications() -> None:
    """Send one after another until none is due. Any number of these may run at once."""
    end = time.monotonic() + RUN_SECONDS
    with Mailer() as mailer:
        while beat() and time.monotonic() < end:
            claimed = claim()
            if claimed is None:
                break
            record(claimed, attempt(claimed, mailer))
    schedule_next_run(send_due_notifications, _waiting(), "next_attempt_at")


def attempt(notification: Notification, mailer: Mailer) -> Outcome:
    """Errors are outcomes; nothing is raised for them."""
    if notification.attempts > MAX_ATTEMPTS:
        return Outcome(NotificationError.INTERRUPTED, permanent=True)
    if reason := count_or_withhold(notification):
        return Outcome(reason, permanent=True, withheld=True)
    try:
        if notification.channel == Channel.EMAIL:
            return mailer.send(notification, write_email(notification))
        return send_sms(str(notification.recipient), write_sms(notification))
    except Exception as e:
        # Without the exception's message, which may hold personal data.
        logger.error("%s was not written: %s", notification.pk, type(e).__name__)
        return Outcome(NotificationError.NOT_WRITTEN)


def record(notification: Notification, outcome: Outcome) -> bool:
    """Record the outcome. Returns False if another sender has claimed the row since."""
    at = now()
    wait = None if outcome.permanent else next_retry_delay(notification.attempts)
    if wait and notification.kind in CODE_KINDS:
        # A code that comes late works no more.
        in_time = notification.created_at + CODE_LIFETIME > at + wait
        wait = wait if in_time else None
    if outcome.error is None:
        status, wait = NotificationStatus.SENT, None
    elif outcome.withheld:
        status = NotificationStatus.WITHHELD
    else:
        status = NotificationStatus.PENDING if wait else NotificationStatus.FAILED
    ours = Notification.objects.filter(
        pk=notification.pk, fence=notification.fence, leased_until__isnull=False
    )
    return bool(
        ours.update(
            status=status,
            next_attempt_at=at + wait if wait else None,
            leased_until=None,
            error=outcome.error or "",
            provider_reference=outcome.reference,
            sent_at=at if status == NotificationStatus.SENT else None,
        )
    )
