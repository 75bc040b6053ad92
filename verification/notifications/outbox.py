"""The outbox: send and cancel messages in the transaction that causes them.

`purge_recipients` erases recipients and contents after a month. The row stays, with its
cause, times and outcome.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.urls import reverse
from django.utils.translation import get_language

from verification.db.bulk_insert import Rows
from verification.db.ids import uuid7
from verification.jobs.claims import delete_in_batches, update_in_batches
from verification.jobs.names import JobName
from verification.jobs.queue import job, job_row, schedule_job
from verification.notifications.mailbox import delete_emails_before
from verification.notifications.models import (
    BILINGUAL,
    Channel,
    DailyCount,
    Kind,
    Notification,
    NotificationStatus,
    RefusedAddress,
    SandboxAddress,
)
from verification.notifications.recipients import (
    count_or_withhold,
    find_withhold_reason,
)
from verification.notifications.sms import sms_is_configured
from verification.values.clock import now

RETENTION = timedelta(days=30)


class NotResendable(Exception):
    """The notification cannot be sent again; the text tells staff why."""


class MessageWithheld(Exception):
    """The recipient must not get the message; nothing was changed."""


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message that is about to be stored; a cause has one for each channel.

    `recipient` is an e-mail address, or a number in E.164; `context` has the values for
    the templates of the kind.
    """

    kind: Kind
    channel: Channel
    cause: str
    recipient: str
    context: dict[str, Any]
    language: str = BILINGUAL
    workspace_id: UUID | None = None
    sandbox: bool = False
    # The report that it is about, with which it is erased.
    report_id: UUID | None = None


def notification_rows(outgoing: Iterable[OutgoingMessage], at: datetime) -> Rows:
    """Return rows that are due at once, for a caller who inserts `wake_up_row` too.

    The insert raises IntegrityError for a cause that has a message already.
    """
    rows = [
        {
            "id": uuid7(),
            "workspace_id": one.workspace_id,
            "kind": one.kind.value,
            "channel": one.channel.value,
            "cause": one.cause,
            "recipient": one.recipient,
            "context": one.context,
            "language": one.language,
            "sandbox": one.sandbox,
            "report_id": one.report_id,
            "next_attempt_at": at,
            "created_at": at,
        }
        for one in outgoing
        # Without a gateway, the sandbox's mailbox still shows SMS.
        if one.channel == Channel.EMAIL or one.sandbox or sms_is_configured()
    ]
    return Rows(Notification, rows)


def is_sendable(message: OutgoingMessage) -> bool:
    """Return whether the message would be sent now, by the rules of `recipients`."""
    if message.channel == Channel.SMS and not sms_is_configured():
        return False
    row = Notification(
        kind=message.kind,
        channel=message.channel,
        recipient=message.recipient,
        workspace_id=message.workspace_id,
        sandbox=message.sandbox,
    )
    return find_withhold_reason(row) is None


def wake_up_row(at: datetime) -> Rows:
    return job_row(JobName.SEND_NOTIFICATIONS, at=at)


@transaction.atomic
def notify(*outgoing: OutgoingMessage) -> None:
    """Send these messages soon after the current transaction commits.

    A message is left out if its cause has one already.
    """
    rows = notification_rows(outgoing, now()).records
    if not rows:
        return
    Notification.objects.bulk_create(
        [Notification(**row) for row in rows], ignore_conflicts=True
    )
    schedule_job(JobName.SEND_NOTIFICATIONS)


def notify_account_holder(kind: Kind, email: str, **context: str) -> None:
    """Write to a user about their own account, in the language of the page."""
    reset = settings.BASE_URL + reverse("account_reset_password")
    notify(
        OutgoingMessage(
            kind,
            Channel.EMAIL,
            cause=f"account:{uuid7()}",
            recipient=email,
            context={"resetUrl": reset, **context},
            language=get_language() or "en",
        )
    )


@transaction.atomic
def notify_within_limits(message: OutgoingMessage) -> None:
    """Send a message and count it now. Raises MessageWithheld if it exceeds a limit."""
    notify(message)
    row = Notification.objects.get(cause=message.cause, channel=message.channel)
    if count_or_withhold(row):
        raise MessageWithheld


def cancel(*causes: str) -> int:
    """Cancel unsent messages of these causes. Returns their number.

    An attempt under way ends: its message is recorded as sent, or is not tried again.
    """
    waiting = Notification.objects.filter(
        cause__in=causes, status=NotificationStatus.PENDING
    )
    return waiting.update(
        status=NotificationStatus.CANCELLED, next_attempt_at=None, leased_until=None
    )


@transaction.atomic
def send_again(notification: Notification) -> None:
    """Send a notification again that has ended. Raises NotResendable."""
    ended = Notification.objects.filter(
        pk=notification.pk,
        status__in=[
            NotificationStatus.SENT,
            NotificationStatus.FAILED,
            NotificationStatus.WITHHELD,
        ],
        recipient__isnull=False,
        context__isnull=False,
    )
    restarted = ended.update(
        status=NotificationStatus.PENDING,
        rounds=F("rounds") + 1,
        attempts=0,
        doubts=0,
        error="",
        counted_at=None,
        provider_reference="",
        sent_at=None,
        next_attempt_at=now(),
    )
    if not restarted:
        raise NotResendable("It waits already, was cancelled or is too old.")
    schedule_job(JobName.SEND_NOTIFICATIONS)


@job
def purge_recipients() -> None:
    """Erase recipients and content of notifications after `RETENTION`.

    The hashes of addresses that refused a message go after the same time.
    """
    before, rows = now() - RETENTION, Notification.objects
    failed = NotificationStatus.FAILED
    # A message that waits for a month has failed, unless staff have just sent it again.
    # One of a suspended workspace is put off again and again.
    held = Q(workspace__suspended_at__isnull=False, created_at__lt=before)
    for late in (Q(next_attempt_at__lt=before), held):
        waiting = rows.filter(late, next_attempt_at__isnull=False)
        update_in_batches(
            waiting, status=failed, next_attempt_at=None, leased_until=None
        )
    ended = rows.filter(
        recipient__isnull=False, created_at__lt=before, next_attempt_at=None
    )
    update_in_batches(ended.order_by("created_at"), recipient=None, context=None)
    delete_in_batches(RefusedAddress.objects.filter(refused_at__lt=before))
    delete_emails_before(before)
    yesterday = now() - timedelta(days=1)
    # Addresses whose code nobody has typed.
    unconfirmed = SandboxAddress.objects.filter(confirmed_at=None)
    delete_in_batches(unconfirmed.filter(created_at__lt=yesterday))
    delete_in_batches(DailyCount.objects.filter(day__lt=yesterday.date()))
