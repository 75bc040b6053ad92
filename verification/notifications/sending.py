"""Sending what is due: claimed, sent outside any transaction, and recorded."""

from __future__ import annotations

import logging
import time
from datetime import timedelta

from django.utils.timezone import now

from verification.jobs.heartbeat import beat
from verification.notifications.claiming import claim, wake_up_for_the_next
from verification.notifications.mail import Mailer
from verification.notifications.models import (
    Channel,
    Notification,
    NotificationError,
    NotificationStatus,
)
from verification.notifications.outcome import Outcome
from verification.notifications.recipients import CODES, reason_to_withhold
from verification.notifications.schedule import MOST_ATTEMPTS, next_wait
from verification.notifications.sms import send_sms
from verification.notifications.writing import write_letter, write_sms

logger = logging.getLogger(__name__)

# One job sends for so long; another goes on.
RUN_SECONDS = 60
# For how long a code is worth sending.
WORTH = timedelta(minutes=10)


def send() -> None:
    """Send one after another until none is due. Any number of these may run at once."""
    end = time.monotonic() + RUN_SECONDS
    with Mailer() as mailer:
        while beat() and time.monotonic() < end:
            claimed = claim()
            if claimed is None:
                break
            record(claimed, attempt(claimed, mailer))
    wake_up_for_the_next()


def attempt(notification: Notification, mailer: Mailer) -> Outcome:
    """Errors are outcomes; nothing is raised for them."""
    if notification.attempts > MOST_ATTEMPTS:
        return Outcome(NotificationError.INTERRUPTED, permanent=True)
    if reason := reason_to_withhold(notification):
        return Outcome(reason, permanent=True, withheld=True)
    try:
        if notification.channel == Channel.EMAIL:
            return mailer.send(notification, write_letter(notification))
        return send_sms(str(notification.recipient), write_sms(notification))
    except Exception as e:
        # By name alone: what could not be written holds personal data.
        logger.error("%s was not written: %s", notification.pk, type(e).__name__)
        return Outcome(NotificationError.NOT_WRITTEN)


def record(notification: Notification, outcome: Outcome) -> bool:
    """False when it is no longer this sender's: its lease ended and another has it."""
    at = now()
    wait = None if outcome.permanent else next_wait(notification.attempts)
    if wait and notification.kind in CODES:
        # A code that comes late works no more.
        in_time = notification.created_at + WORTH > at + wait
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
