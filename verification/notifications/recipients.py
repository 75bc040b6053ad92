"""Recipients who do not want messages of a workspace: block it, and lift the block.

A block is about one workspace and one address, an e-mail address or a phone number.
Whoever sends a message looks here first (`recipients.count_or_withhold`), so a block
also stops messages that wait.

Who may be sent a message. Every message is decided here, when it is about to go.

1. Nobody gets a message of a workspace that they have blocked.
2. Messages of the sandbox go to active members of the workspace, and to addresses that
   its members have confirmed, and to nobody else.
3. A recipient gets so many requests a day, over all workspaces, and as many codes of
   each workspace; a workspace sends so many requests and codes a day. Sandbox and
   production are counted apart.

Members, accounts and operators always get their own messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.timezone import now

from verification.db.encryption import keyed_hash
from verification.notifications.models import (
    BLOCKABLE_KINDS,
    THIRD_PARTY_KINDS,
    Block,
    Channel,
    Kind,
    Notification,
    NotificationError,
    NotificationStatus,
    SandboxAddress,
)

# Mail that goes to one mailbox whatever stands before the @ after a plus sign; these
# ignore full stops as well.
DOTLESS = {"gmail.com": "gmail.com", "googlemail.com": "gmail.com"}


def address_hash(channel: str, address: str) -> bytes:
    """The same for all spellings of an address that reach one mailbox."""
    if channel == Channel.EMAIL:
        address = _mailbox(address)
    return keyed_hash("message recipient", channel, address)


@transaction.atomic
def block(
    workspace_id: UUID,
    addresses: Iterable[tuple[str, str]],
    reason: Block.Reason,
    notification: Notification | None = None,
) -> None:
    """Block the workspace for these (channel, address) pairs.

    A second block of an address changes its reason alone.
    """
    for channel, address in addresses:
        hashed = address_hash(channel, address)
        Block.objects.bulk_create(
            [
                Block(
                    workspace_id=workspace_id,
                    channel=channel,
                    address_hash=hashed,
                    reason=reason,
                    notification=notification,
                )
            ],
            ignore_conflicts=True,
        )
        _active(workspace_id).filter(address_hash=hashed).update(reason=reason)


def active_blocks(
    workspace_id: UUID | None, addresses: Iterable[tuple[str, str]]
) -> QuerySet[Block]:
    hashes = [address_hash(*one) for one in addresses]
    return _active(workspace_id).filter(address_hash__in=hashes)


def block_sender(notification: Notification, reason: Block.Reason) -> None:
    """Block the sender of a message, for every address that got the message."""
    if notification.workspace_id:
        addresses = addresses_of(notification)
        block(notification.workspace_id, addresses, reason, notification)


def lift_blocks(notification: Notification) -> None:
    """Lift the blocks that the recipient of a message can see."""
    blocks_of(notification).update(lifted_at=now())


def blocks_of(notification: Notification) -> QuerySet[Block]:
    """Active blocks of the message's sender, for the addresses that got the message.

    Blocks that were made by the message are found when its addresses are forgotten.
    """
    where = notification.workspace_id
    known = active_blocks(where, addresses_of(notification))
    return known | _active(where).filter(notification=notification)


def addresses_of(notification: Notification) -> list[tuple[str, str]]:
    """(channel, address) of the message and of the same message by other channels."""
    same = Notification.objects.filter(
        cause=notification.cause, workspace=notification.workspace_id
    )
    return [(n.channel, n.recipient) for n in same if n.recipient is not None]


def _active(workspace_id: UUID | None) -> QuerySet[Block]:
    return Block.objects.filter(workspace=workspace_id, lifted_at=None)


def _mailbox(address: str) -> str:
    name, _, domain = address.strip().casefold().rpartition("@")
    name = name.partition("+")[0] or name
    if domain in DOTLESS:
        name, domain = name.replace(".", ""), DOTLESS[domain]
    return f"{name}@{domain}"


REMINDER_KINDS = frozenset(kind for kind in Kind if kind.endswith("_REMINDER"))
# Of what the recipient did: only more than anybody does in a day is held back.
RECEIPT_KINDS = frozenset(
    kind for kind in THIRD_PARTY_KINDS if kind.endswith("_RECEIPT")
) | {
    Kind.CONSENT_LOCKED,
    Kind.PAYMENT_REFUNDED,
    Kind.PAYMENT_SHORT,
}
RECEIPTS_PER_REQUEST = 5
# What somebody asked for who had opened the recipient's link.
CODE_KINDS = frozenset({Kind.CONSENT_CODE})
# Of all workspaces together, as a multiple of what each may send.
TOTAL_CODES_FACTOR = 3
# Counts one more, unless that would be too many. Senders at once wait for one another.
INCREMENT_COUNT = """
INSERT INTO notifications_dailycount AS counted (subject, day, count)
VALUES (%s, (statement_timestamp() AT TIME ZONE 'UTC')::date, 1)
ON CONFLICT (subject, day) DO UPDATE SET count = counted.count + 1
WHERE counted.count < %s
RETURNING count
"""
SELECT_COUNT = """
SELECT count FROM notifications_dailycount
WHERE subject = %s AND day = (statement_timestamp() AT TIME ZONE 'UTC')::date
"""


@dataclass(frozen=True, slots=True)
class _Limit:
    """So many messages a day that count for one subject of `DailyCount`."""

    subject: str
    most: int
    error: NotificationError

    def count(self) -> bool:
        return count_today(self.subject, self.most)

    def is_reached(self) -> bool:
        with connection.cursor() as cursor:
            cursor.execute(SELECT_COUNT, [self.subject])
            counted = cursor.fetchone()
        return (counted[0] if counted else 0) >= self.most


def count_or_withhold(notification: Notification) -> NotificationError | None:
    """Why the message must not be sent, or None. One that may be sent is counted."""
    if notification.kind not in BLOCKABLE_KINDS:
        return None
    return _refusal_reason(notification) or _exceeded_limit(notification)


def find_withhold_reason(notification: Notification) -> NotificationError | None:
    """Why the message would be withheld if it were sent now, or None. Counts nothing;
    the message need not be saved."""
    if notification.kind not in BLOCKABLE_KINDS:
        return None
    full = (limit.error for limit in _limits(notification) if limit.is_reached())
    return _refusal_reason(notification) or next(full, None)


def _refusal_reason(notification: Notification) -> NotificationError | None:
    """Why this recipient gets no such message of the workspace at all."""
    address = notification.channel, str(notification.recipient)
    if active_blocks(notification.workspace_id, [address]).exists():
        return NotificationError.BLOCKED
    is_sandbox = notification.sandbox and notification.kind in THIRD_PARTY_KINDS
    if is_sandbox and not _is_tester(notification):
        return NotificationError.SANDBOX
    return None


def exact_address_hash(channel: str, address: str) -> bytes:
    """Of one spelling: whoever reads `a+b@` may not be who reads `a@`."""
    return keyed_hash("sandbox address", channel, address.strip().casefold())


def count_today(subject: str, most: int) -> bool:
    """Count one more of the day, unless that would be more than `most`."""
    if most < 1:
        return False
    with connection.cursor() as cursor:
        cursor.execute(INCREMENT_COUNT, [subject, most])
        return cursor.fetchone() is not None


def _is_tester(notification: Notification) -> bool:
    """Whether the recipient has agreed to get messages of this sandbox."""
    workspace, channel = notification.workspace, notification.channel
    if workspace is None:
        return False
    address = str(notification.recipient)
    confirmed = SandboxAddress.objects.filter(
        workspace=workspace,
        address_hash=exact_address_hash(channel, address),
        confirmed_at__isnull=False,
    )
    members = workspace.members.filter(
        user__is_active=True, user__email__iexact=address
    )
    is_member = channel == Channel.EMAIL and members.exists()
    return is_member or confirmed.exists()


def _exceeded_limit(notification: Notification) -> NotificationError | None:
    """The limit that the message would exceed. It is counted once, however often it is
    tried."""
    if notification.counted_at or _is_reminder_of_sent_request(notification):
        return None
    with transaction.atomic():
        for limit in _limits(notification):
            if not limit.count():
                # What was counted before, for the recipient, is not sent.
                transaction.set_rollback(True)
                return limit.error
        Notification.objects.filter(pk=notification.pk).update(counted_at=Now())
    return None


def _limits(notification: Notification) -> list[_Limit]:
    """The limits that the message counts for: the recipient's and the workspace's."""
    environment = "sandbox" if notification.sandbox else "production"
    hashed = address_hash(notification.channel, str(notification.recipient)).hex()
    most = settings.MESSAGES_PER_RECIPIENT_PER_DAY
    by_recipient = NotificationError.RECIPIENT_LIMIT
    if notification.kind in CODE_KINDS:
        # So that one workspace cannot use up what others may send the same person.
        mine = f"codes:{environment}:{notification.workspace_id}:{hashed[:32]}"
        in_all = f"codes:{environment}:{hashed}"
        limits = [
            _Limit(mine, most, by_recipient),
            _Limit(in_all, most * TOTAL_CODES_FACTOR, by_recipient),
        ]
        return limits + _workspace_limits(notification, "codes:workspace")
    if notification.kind in RECEIPT_KINDS:
        subject = f"receipts:{environment}:{hashed}"
        return [_Limit(subject, most * RECEIPTS_PER_REQUEST, by_recipient)]
    asked = _Limit(f"requests:{environment}:{hashed}", most, by_recipient)
    return [asked, *_workspace_limits(notification, "workspace")]


def _workspace_limits(notification: Notification, kind: str) -> list[_Limit]:
    workspace = notification.workspace
    if notification.sandbox or workspace is None:
        return []
    most = settings.MESSAGES_PER_WORKSPACE_PER_DAY
    if workspace.messages_per_day is not None:
        most = workspace.messages_per_day
    name = f"{kind}:{workspace.pk}"
    return [_Limit(name, most, NotificationError.WORKSPACE_LIMIT)]


def _is_reminder_of_sent_request(notification: Notification) -> bool:
    """A reminder of a request that was withheld is a request itself."""
    if notification.kind not in REMINDER_KINDS:
        return False
    return Notification.objects.filter(
        cause=notification.cause.removesuffix(":reminder"),
        channel=notification.channel,
        status=NotificationStatus.SENT,
    ).exists()
