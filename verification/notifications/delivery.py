"""Send due notifications: claim one, send it outside any transaction, record it.

E-mail goes through Django's backend, over one connection for a whole run; `sms` sends
SMS.
"""

from __future__ import annotations

import logging
import re
import smtplib
import time
from contextlib import closing, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from email.utils import parseaddr
from uuid import UUID

from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection
from django.db import transaction
from django.db.models import Min, Q, QuerySet
from django.db.models.functions import Now

from verification import links
from verification.jobs.claims import claim_due, schedule_next_run, update_in_batches
from verification.jobs.queue import beat, job
from verification.notifications.models import (
    BLOCKABLE_KINDS,
    CHOSEN_KINDS,
    CODE_KINDS,
    OWN_DATA_KINDS,
    Channel,
    Kind,
    Notification,
    NotificationError,
    NotificationStatus,
    Outcome,
    RefusedAddress,
)
from verification.notifications.recipients import (
    address_hash,
    count_or_withhold,
)
from verification.notifications.sms import send_sms
from verification.notifications.templates import EmailText, write_email, write_sms
from verification.values.clock import now

logger = logging.getLogger(__name__)
# The waits between nine attempts, over more than a day.
RETRY_DELAYS = (
    timedelta(minutes=1),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=6),
    timedelta(hours=6),
    timedelta(hours=6),
    timedelta(hours=6),
)
MAX_ATTEMPTS = len(RETRY_DELAYS) + 1
# The recipient may have an SMS twice, and no more.
MOST_DOUBTS = 2
# No job runs as long, so the sender is dead when its lease has ended.
LEASE = timedelta(seconds=150)
# One job sends for this long; the next one continues.
RUN_SECONDS = 60
# While the mail server or SMS gateway is away, one message tries after each rest. It
# counts no attempt, and all others wait with it. The longer it has waited, the longer
# is the rest. Others also wait after an SMS in doubt, because its gateway may hang.
SHORTEST_REST = timedelta(seconds=5)
LONGEST_REST = timedelta(minutes=1)
# A message that has waited this long for the server fails.
MAX_WAIT = timedelta(days=3)
# A code is not sent later than this.
CODE_LIFETIME = timedelta(minutes=10)
# Messages of a suspended workspace come up again after this time, so that claims need
# not pass them. When it is resumed, they are due at once.
SUSPENDED_DELAY = timedelta(hours=1)
# A suspended workspace's messages to subjects about their own data go out nevertheless,
# and those to payers who get money back.
GOING_OUT = OWN_DATA_KINDS | {Kind.PAYMENT_REFUNDED}
# A visitor waits for a code, and the sandbox's messages must not delay others.
TURNS = (
    Q(kind__in=CODE_KINDS, sandbox=False),
    Q(sandbox=False),
    Q(kind__in=CODE_KINDS, sandbox=True),
    Q(sandbox=True),
)
# Answers about the mailbox or its domain (RFC 5321, RFC 7504), if their text names it
# and does not say that it is full or busy, or that the server refuses this sender: by
# its number (RFC 3463), or in words of mail servers. One word too many costs retries;
# one too few keeps mail from a member.
MAILBOX_CODES = {550, 551, 553, 556}
MAILBOX = re.compile(
    rb"\b5\.[12]\.\d|address|mailbox|recipient|user|account|domain|unrout",
    re.IGNORECASE,
)
NOT_FOR_GOOD = re.compile(
    rb"\b5\.1\.[78]\b|\b5\.2\.2\b|\b5\.7\.\d|relay|prohibit|authenti|sender|polic"
    rb"|\bIP\b|\bDNS|\bSPF\b|DMARC|DKIM|black|block|spam|spoof|reputation"
    rb"|quota|\bfull\b|exceed|too many|\brate\b|tempora",
    re.IGNORECASE,
)


@job
def send_due_notifications(resumed: str | None = None) -> None:
    """Send due notifications one by one. Any number of these jobs may run at once.

    `resumed` is a workspace that has just been resumed, whose messages are due now.
    """
    end = time.monotonic() + RUN_SECONDS
    if resumed:
        held = Notification.objects.filter(
            workspace=UUID(resumed), next_attempt_at__gt=Now(), leased_until=None
        )
        # Those that others lock are being cancelled: to wait for them would deadlock.
        update_in_batches(held, next_attempt_at=now())
    _put_off_suspended()
    for channel in Channel:
        if until := _rest_end(channel):
            _postpone(channel, until)
    with closing(Mailer()) as mailer:
        while beat() and time.monotonic() < end:
            claimed = claim()
            if claimed is None:
                break
            outcome = attempt(claimed, mailer)
            if record(claimed, outcome):
                _remember_refusal(claimed, outcome)
            if outcome.is_away or outcome.in_doubt:
                _postpone(claimed.channel, now() + _rest(claimed))
    schedule_next_run(
        send_due_notifications, waiting_notifications(), "next_attempt_at"
    )


def _put_off_suspended() -> None:
    due = Notification.objects.filter(
        workspace__suspended_at__isnull=False, next_attempt_at__lte=Now()
    )
    # It locks the workspaces, too, so that a resume finds what is put off here. A
    # resumed workspace's messages must not look as if the mail server were away.
    update_in_batches(
        due.exclude(kind__in=GOING_OUT),
        next_attempt_at=now() + SUSPENDED_DELAY,
        error="",
    )


def next_retry_delay(attempts: int) -> timedelta | None:
    """Return the wait after this many attempts (1 or more), or None after the last."""
    return RETRY_DELAYS[attempts - 1] if attempts < MAX_ATTEMPTS else None


def waiting_notifications() -> QuerySet[Notification]:
    """Return the unsent notifications, without those that a suspension holds."""
    return Notification.objects.filter(
        Q(workspace__suspended_at=None) | Q(kind__in=GOING_OUT),
        next_attempt_at__isnull=False,
    )


def _rest_end(channel: str) -> datetime | None:
    """Return when the next message tries whether the server is back, or None."""
    away = waiting_notifications().filter(
        channel=channel,
        error=NotificationError.UNREACHABLE,
        attempts=0,
        next_attempt_at__gt=Now(),
        leased_until=None,
    )
    return away.aggregate(first=Min("next_attempt_at"))["first"]


def _rest(notification: Notification) -> timedelta:
    """Return the time until the next try, if this message found no server."""
    waited = now() - notification.created_at
    return min(max(waited, SHORTEST_REST), LONGEST_REST)


@transaction.atomic
def _postpone(channel: str, until: datetime) -> None:
    """Let all due messages of the channel wait. They go out in any order after that.

    It waits for none that is being cancelled: that would deadlock if there are several.
    """
    due = Notification.objects.filter(
        channel=channel, next_attempt_at__lte=Now(), leased_until=None
    )
    free = due.select_for_update(no_key=True, skip_locked=True).values("pk")
    Notification.objects.filter(pk__in=free).update(
        next_attempt_at=until, error=NotificationError.UNREACHABLE
    )


def claim() -> Notification | None:
    """Claim the longest due notification of the first turn, and count the attempt.

    The claim counts it, so that the attempts of a message that kills its sender end. If
    the sender before has died, it may have sent the message.
    """
    due = waiting_notifications().filter(next_attempt_at__lte=Now())
    for turn in TURNS:
        claimed = claim_due(
            # Not by id: that would sort all that have waited for one server's return.
            due.filter(turn).order_by("next_attempt_at")[:1],
            "fence = fence + 1, attempts = attempts + 1, "
            "doubts = doubts + (leased_until IS NOT NULL)::int, "
            "next_attempt_at = lease.ends, leased_until = lease.ends",
            LEASE,
        )
        if claimed:
            return claimed[0]
    return None


def attempt(notification: Notification, mailer: Mailer) -> Outcome:
    """Send the notification, or find why not. Returns errors as outcomes."""
    is_doubted = notification.channel == Channel.SMS and (
        notification.doubts >= MOST_DOUBTS
    )
    if is_doubted or notification.attempts > MAX_ATTEMPTS:
        return Outcome(NotificationError.INTERRUPTED, permanent=True)
    is_code = notification.kind in CODE_KINDS
    if is_code and notification.created_at + CODE_LIFETIME < now():
        return Outcome(NotificationError.LATE, permanent=True)
    if reason := count_or_withhold(notification):
        return Outcome(reason, permanent=True, withheld=True)
    try:
        if notification.channel == Channel.EMAIL:
            return mailer.send(notification, write_email(notification))
        return send_sms(str(notification.recipient), write_sms(notification))
    except Exception as e:
        # The text of the exception may hold personal data, so only its name is logged.
        logger.error("%s was not written: %s", notification.pk, type(e).__name__)
        return Outcome(NotificationError.NOT_WRITTEN)


def record(notification: Notification, outcome: Outcome) -> bool:
    """Record the outcome. Returns False if another sender has claimed the row since."""
    at = now()
    attempts = notification.attempts
    wait = None if outcome.permanent else next_retry_delay(attempts)
    doubts = notification.doubts + outcome.in_doubt
    if outcome.in_doubt and doubts >= MOST_DOUBTS:
        wait = None
    if outcome.is_away:
        attempts -= 1
        is_too_old = notification.created_at + MAX_WAIT <= at
        wait = None if is_too_old else _rest(notification)
    if wait and notification.kind in CODE_KINDS:
        # A late code does not work.
        in_time = notification.created_at + CODE_LIFETIME > at + wait
        wait = wait if in_time else None
    if outcome.error is None:
        status, wait = NotificationStatus.SENT, None
    elif outcome.withheld:
        status = NotificationStatus.WITHHELD
    else:
        status = NotificationStatus.PENDING if wait else NotificationStatus.FAILED
    is_own = Q(leased_until__isnull=False)
    if status == NotificationStatus.SENT:
        # It was cancelled during the attempt.
        is_own |= Q(status=NotificationStatus.CANCELLED)
    own_claim = Notification.objects.filter(
        pk=notification.pk, fence=notification.fence
    )
    return bool(
        own_claim.filter(is_own).update(
            status=status,
            next_attempt_at=at + wait if wait else None,
            leased_until=None,
            attempts=attempts,
            doubts=doubts,
            error=outcome.error or "",
            provider_reference=outcome.reference,
            sent_at=at if status == NotificationStatus.SENT else None,
        )
    )


def _remember_refusal(notification: Notification, outcome: Outcome) -> None:
    """Remember a member's address that is refused for good; members get many mails."""
    is_refused = outcome.error == NotificationError.REFUSED and outcome.permanent
    if is_refused and notification.kind in CHOSEN_KINDS:
        hashed = address_hash(notification.channel, str(notification.recipient))
        RefusedAddress.objects.update_or_create(
            address_hash=hashed, defaults={"refused_at": now()}
        )


class Mailer:
    """A connection for sending letters one by one. Its user closes it."""

    def __init__(self) -> None:
        self._connection = get_connection()

    def send(self, notification: Notification, letter: EmailText) -> Outcome:
        """Send a letter. Returns errors as outcomes."""
        is_open = False
        try:
            self._connection.open()
            is_open = True
            message = _message(notification, letter)
            self._connection.send_messages([message])
        except Exception as e:
            # The state of the connection is not known.
            self.close()
            # The text of the error repeats the address, so only its name is logged.
            logger.warning("%s was not mailed: %s", notification.pk, type(e).__name__)
            return replace(_mail_outcome(e), is_away=not is_open)
        return Outcome()

    def close(self) -> None:
        with suppress(OSError, smtplib.SMTPException):
            self._connection.close()


def _message(notification: Notification, letter: EmailText) -> EmailMultiAlternatives:
    headers = {
        "Message-ID": message_id(notification),
        # Mail systems send no absence notes to automatic mail.
        "Auto-Submitted": "auto-generated",
    }
    if notification.kind in BLOCKABLE_KINDS:
        # One click in the mail program blocks the sender.
        headers |= _one_click(links.block_url(notification.pk))
    elif off_url := (notification.context or {}).get("offUrl"):
        # It turns messages of this kind off, for this member.
        headers |= _one_click(off_url)
    message = EmailMultiAlternatives(
        letter.subject,
        letter.text,
        to=[str(notification.recipient)],
        headers=headers,
    )
    message.attach_alternative(letter.html, "text/html")
    for attachment in letter.attachments:
        message.attach(*attachment)
    return message


def _one_click(url: str) -> dict[str, str]:
    """Return the headers for a button of the mail program (RFC 8058)."""
    return {
        "List-Unsubscribe": f"<{url}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }


def message_id(notification: Notification) -> str:
    """Return the id of the mail, the same for each attempt of a round.

    So mail systems can drop a second copy.
    """
    _, address = parseaddr(settings.DEFAULT_FROM_EMAIL)
    domain = address.rpartition("@")[2]
    return f"<{notification.pk.hex}.{notification.rounds}@{domain}>"


def _is_about_mailbox(code: int, text: bytes) -> bool:
    """Return whether the answer refuses the recipient for good, and not this sender.

    A mail server that does not know the service's address refuses everybody.
    """
    names_it = MAILBOX.search(text) and not NOT_FOR_GOOD.search(text)
    return code in MAILBOX_CODES and bool(names_it)


def _mail_outcome(e: Exception) -> Outcome:
    match e:
        case smtplib.SMTPRecipientsRefused():
            if all(_is_about_mailbox(*answer) for answer in e.recipients.values()):
                return Outcome(NotificationError.REFUSED, permanent=True)
            return Outcome(NotificationError.NOT_TAKEN)
        case ValueError():
            # Django raises it for a malformed address.
            return Outcome(NotificationError.REFUSED, permanent=True)
        case smtplib.SMTPConnectError() | smtplib.SMTPServerDisconnected():
            return Outcome(NotificationError.UNREACHABLE)
        case smtplib.SMTPException():
            return Outcome(NotificationError.NOT_TAKEN)
        case OSError():
            return Outcome(NotificationError.UNREACHABLE)
    return Outcome(NotificationError.NOT_WRITTEN)
