"""The rules for recipients: blocks, the sandbox, and limits of messages a day.

`delivery` calls `count_or_withhold` for each message before it is sent:

1. Recipients get no messages of a workspace that they have blocked. A block is about
   one workspace and one e-mail address or phone number. It stops unsent messages too.
2. Messages of the sandbox go only to active members of the workspace, and to addresses
   that its members have confirmed.
3. A recipient gets a limited number of requests, codes, receipts and access links a day
   from each workspace, and from all together. A workspace sends a limited number a day.
   Sandbox and production have separate counts. Invitations and codes of workspaces that
   are not live have limits for each recipient, and one for all such workspaces.

A block does not stop messages that a subject has asked for, to see their own data, nor
the notice of a decline, which the law owes them.
Members, account holders and operators always get their own messages.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from verification.db.base import run_sql
from verification.db.encryption import keyed_hash
from verification.notifications.models import (
    BLOCKABLE_KINDS,
    CODE_KINDS,
    NEWCOMER_KINDS,
    OWN_DATA_KINDS,
    THIRD_PARTY_KINDS,
    Block,
    Channel,
    Kind,
    Notification,
    NotificationError,
    NotificationStatus,
    SandboxAddress,
)
from verification.values.clock import now

# Providers that ignore full stops in a name. A plus sign and the text after it are
# ignored for all providers.
DOTLESS = {"gmail.com": "gmail.com", "googlemail.com": "gmail.com"}


def address_hash(channel: str, address: str) -> bytes:
    """Return a keyed hash, the same for all spellings that reach one mailbox."""
    if channel == Channel.EMAIL:
        name, _, domain = address.strip().casefold().rpartition("@")
        name = name.partition("+")[0] or name
        if domain in DOTLESS:
            name, domain = name.replace(".", ""), DOTLESS[domain]
        address = f"{name}@{domain}"
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
    hashes = [address_hash(*pair) for pair in addresses]
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
    """Return active blocks of the message's sender, for the addresses that got it.

    Blocks that were made by the message are found even after its addresses are erased.
    """
    workspace = notification.workspace_id
    by_address = active_blocks(workspace, addresses_of(notification))
    return by_address | _active(workspace).filter(notification=notification)


def addresses_of(notification: Notification) -> list[tuple[str, str]]:
    """Return (channel, address) of the message, and of its copies by other channels."""
    same = Notification.objects.filter(
        cause=notification.cause, workspace=notification.workspace_id
    )
    return [(n.channel, n.recipient) for n in same if n.recipient is not None]


def _active(workspace_id: UUID | None) -> QuerySet[Block]:
    return Block.objects.filter(workspace=workspace_id, lifted_at=None)


REMINDER_KINDS = frozenset(kind for kind in Kind if kind.endswith("_REMINDER"))
# Messages about acts of the recipient. A person reaches their limit only by abuse.
RECEIPT_KINDS = frozenset(
    kind for kind in THIRD_PARTY_KINDS if kind.endswith("_RECEIPT")
) | {
    Kind.CONSENT_LOCKED,
    Kind.PAYMENT_REFUNDED,
    Kind.PAYMENT_SHORT,
    Kind.CORRECTION_ANSWER,
    Kind.ADVERSE_NOTICE,
    Kind.REVIEW_ANSWER,
}
RECEIPTS_PER_REQUEST = 5
LIMITED_KINDS = BLOCKABLE_KINDS | OWN_DATA_KINDS
# Kinds that use up no requests, by the name of their count: others cause requests, the
# recipient these. Anybody can cause MY_DATA.
COUNTS = {
    "codes": CODE_KINDS,
    "receipts": RECEIPT_KINDS,
    "access": {Kind.ACCESS_LINK},
    "my-data": {Kind.MY_DATA},
}
# The limit for all workspaces together, as a multiple of that for each.
TOTAL_FACTOR = 3
# Invitations and codes that an address gets in a day from workspaces that are not live,
# and from one of them.
NEWCOMERS_PER_RECIPIENT, NEWCOMER_PER_RECIPIENT = 5, 3
# Count one more, unless the limit is reached. Concurrent senders wait for the lock.
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
    """A limit of messages a day for one subject of `DailyCount`."""

    subject: str
    most: int
    error: NotificationError

    def is_reached(self) -> bool:
        counted = run_sql(SELECT_COUNT, [self.subject])
        return (counted[0][0] if counted else 0) >= self.most


def count_or_withhold(notification: Notification) -> NotificationError | None:
    """Return why the message is withheld, or count it and return None."""
    if notification.kind not in LIMITED_KINDS:
        return None
    return _refusal_reason(notification) or _exceeded_limit(notification)


def find_withhold_reason(notification: Notification) -> NotificationError | None:
    """Return the reason to withhold the message now, or None; it counts nothing.

    The notification may be unsaved.
    """
    if notification.kind not in LIMITED_KINDS:
        return None
    reached = (limit.error for limit in _limits(notification) if limit.is_reached())
    return _refusal_reason(notification) or next(reached, None)


def _refusal_reason(notification: Notification) -> NotificationError | None:
    """Return BLOCKED or SANDBOX if the recipient may not get the message, or None."""
    address = notification.channel, str(notification.recipient)
    is_blockable = notification.kind in BLOCKABLE_KINDS
    if is_blockable and active_blocks(notification.workspace_id, [address]).exists():
        return NotificationError.BLOCKED
    is_sandbox = notification.sandbox and notification.kind in THIRD_PARTY_KINDS
    if is_sandbox and not _is_tester(notification):
        return NotificationError.SANDBOX
    return None


def exact_address_hash(channel: str, address: str) -> bytes:
    """Return a keyed hash of one spelling, as `a+b@` and `a@` may differ in readers."""
    return keyed_hash("sandbox address", channel, address.strip().casefold())


def count_today(subject: str, most: int) -> bool:
    """Count one more for today and return True, or False if `most` is reached."""
    if most < 1:
        return False
    return bool(run_sql(INCREMENT_COUNT, [subject, most]))


def _is_tester(notification: Notification) -> bool:
    """Return whether the recipient has agreed to get messages of this sandbox."""
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
    """Count a message that is about to be sent, once for all attempts.

    Returns the limit that it exceeds, or None.
    """
    if notification.counted_at or _is_reminder_of_sent_request(notification):
        return None
    with transaction.atomic():
        for limit in _limits(notification):
            if not count_today(limit.subject, limit.most):
                # The other limits must not count an unsent message.
                transaction.set_rollback(True)
                return limit.error
        Notification.objects.filter(pk=notification.pk).update(counted_at=Now())
    return None


def _limits(notification: Notification) -> list[_Limit]:
    """Return the limits of the recipient, the workspace and all newcomers."""
    environment = "sandbox" if notification.sandbox else "production"
    hashed = address_hash(notification.channel, str(notification.recipient)).hex()
    kind, workspace = notification.kind, notification.workspace
    by_recipient = NotificationError.RECIPIENT_LIMIT
    if kind in NEWCOMER_KINDS and workspace and not workspace.is_live:
        # They must not use up the requests that clients may send to a person.
        from_one = f"newcomers:{workspace.pk}:{hashed[:32]}"
        return [
            _Limit(from_one, NEWCOMER_PER_RECIPIENT, by_recipient),
            _Limit(f"newcomers:{hashed}", NEWCOMERS_PER_RECIPIENT, by_recipient),
            *_workspace_limits(notification, "workspace"),
            _Limit(
                "newcomers",
                settings.MESSAGES_OF_NEWCOMERS_PER_DAY,
                NotificationError.OPERATOR_LIMIT,
            ),
        ]
    name = next((name for name, kinds in COUNTS.items() if kind in kinds), "requests")
    most = settings.MESSAGES_PER_RECIPIENT_PER_DAY
    if name == "receipts":
        most *= RECEIPTS_PER_REQUEST
    # One workspace must not use up what others may send to a person, nor learn from its
    # own limit how much they have sent.
    from_workspace = f"{name}:{environment}:{notification.workspace_id}:{hashed[:32]}"
    from_all = f"{name}:{environment}:{hashed}"
    limits = [
        _Limit(from_workspace, most, by_recipient),
        _Limit(from_all, most * TOTAL_FACTOR, by_recipient),
    ]
    if name == "receipts" or kind in OWN_DATA_KINDS:
        # No limit of the client keeps a subject from their own data.
        return limits
    by_workspace = "codes:workspace" if name == "codes" else "workspace"
    return limits + _workspace_limits(notification, by_workspace)


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
    """Return whether the message reminds of a request that the recipient got.

    Such a reminder does not count. If the request was withheld, the reminder counts as
    a request.
    """
    if notification.kind not in REMINDER_KINDS:
        return False
    return Notification.objects.filter(
        cause=notification.cause.removesuffix(":reminder"),
        channel=notification.channel,
        status=NotificationStatus.SENT,
    ).exists()
