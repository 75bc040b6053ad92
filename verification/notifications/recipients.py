"""Who may be sent a message. Every message is decided here, when it is about to go.

1. Nobody gets a message of a workspace that they have blocked.
2. Messages of the sandbox go to active members of the workspace, and to addresses that
   its members have confirmed, and to nobody else.
3. A recipient gets so many requests a day, over all workspaces; a workspace sends so
   many a day. Sandbox and production are counted apart.

Members, accounts and operators always get their own messages.
"""

from __future__ import annotations

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from verification.encryption import keyed_hash
from verification.notifications.blocks import active_blocks, address_hash
from verification.notifications.models import (
    TO_PEOPLE,
    TO_STRANGERS,
    Channel,
    Kind,
    Notification,
    NotificationError,
    NotificationStatus,
    SandboxAddress,
)

REMINDERS = frozenset(kind for kind in Kind if kind.endswith("_REMINDER"))
# Of what the recipient did: only more than anybody does in a day is held back.
RECEIPTS = frozenset(kind for kind in TO_PEOPLE if kind.endswith("_RECEIPT")) | {
    Kind.CONSENT_LOCKED,
    Kind.PAYMENT_REFUNDED,
    Kind.PAYMENT_SHORT,
}
RECEIPTS_A_REQUEST = 5
# Counts one more, unless that would be too many. Senders at once wait for one another.
COUNT = """
INSERT INTO notifications_dailycount AS counted (subject, day, count)
VALUES (%s, (statement_timestamp() AT TIME ZONE 'UTC')::date, 1)
ON CONFLICT (subject, day) DO UPDATE SET count = counted.count + 1
WHERE counted.count < %s
RETURNING count
"""


def reason_to_withhold(notification: Notification) -> NotificationError | None:
    """Why the message must not be sent, or None."""
    if notification.kind not in TO_STRANGERS:
        return None
    address = notification.channel, str(notification.recipient)
    if active_blocks(notification.workspace_id, [address]).exists():
        return NotificationError.BLOCKED
    is_sandbox = notification.sandbox and notification.kind in TO_PEOPLE
    if is_sandbox and not _is_tester(notification):
        return NotificationError.SANDBOX
    return _over_limit(notification)


def exact_hash(channel: str, address: str) -> bytes:
    """Of one spelling: whoever reads `a+b@` may not be who reads `a@`."""
    return keyed_hash("sandbox address", channel, address.strip().casefold())


def count_today(subject: str, most: int) -> bool:
    """Count one more of the day, unless that would be more than `most`."""
    if most < 1:
        return False
    with connection.cursor() as cursor:
        cursor.execute(COUNT, [subject, most])
        return cursor.fetchone() is not None


def _is_tester(notification: Notification) -> bool:
    """Whether the recipient has agreed to get messages of this sandbox."""
    workspace, channel = notification.workspace, notification.channel
    if workspace is None:
        return False
    address = str(notification.recipient)
    confirmed = SandboxAddress.objects.filter(
        workspace=workspace,
        address_hash=exact_hash(channel, address),
        confirmed_at__isnull=False,
    )
    members = workspace.members.filter(
        user__is_active=True, user__email__iexact=address
    )
    is_member = channel == Channel.EMAIL and members.exists()
    return is_member or confirmed.exists()


def _over_limit(notification: Notification) -> NotificationError | None:
    """The limit that the message would exceed. It is counted once, however often it is
    tried."""
    is_receipt = notification.kind in RECEIPTS
    if notification.counted_at or _reminds_of_what_was_sent(notification):
        return None
    environment = "sandbox" if notification.sandbox else "production"
    hashed = address_hash(notification.channel, str(notification.recipient)).hex()
    kind = "receipts" if is_receipt else "requests"
    most = settings.MESSAGES_PER_RECIPIENT_PER_DAY
    with transaction.atomic():
        if not count_today(
            f"{kind}:{environment}:{hashed}",
            most * RECEIPTS_A_REQUEST if is_receipt else most,
        ):
            return NotificationError.RECIPIENT_LIMIT
        if not (is_receipt or notification.sandbox or _count_workspace(notification)):
            # What was counted for the recipient is not sent.
            transaction.set_rollback(True)
            return NotificationError.WORKSPACE_LIMIT
        Notification.objects.filter(pk=notification.pk).update(counted_at=Now())
    return None


def _count_workspace(notification: Notification) -> bool:
    workspace = notification.workspace
    if workspace is None:
        return True
    most = workspace.messages_per_day
    if most is None:
        most = settings.MESSAGES_PER_WORKSPACE_PER_DAY
    return count_today(f"workspace:{workspace.pk}", most)


def _reminds_of_what_was_sent(notification: Notification) -> bool:
    """A reminder of a request that was withheld is a request itself."""
    if notification.kind not in REMINDERS:
        return False
    return Notification.objects.filter(
        cause=notification.cause.removesuffix(":reminder"),
        channel=notification.channel,
        status=NotificationStatus.SENT,
    ).exists()
