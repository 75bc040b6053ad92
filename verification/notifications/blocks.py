"""Recipients who do not want messages of a workspace: block it, and lift the block.

A block is about one workspace and one address, an e-mail address or a phone number.
Whoever sends a message looks here first (`recipients.reason_to_withhold`), so a block
also stops messages that wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils.timezone import now

from verification.encryption import keyed_hash
from verification.notifications.models import Block, Channel, Notification

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


def block_by(notification: Notification, reason: Block.Reason) -> None:
    """Block the sender of a message, for every address that got the message."""
    if notification.workspace_id:
        addresses = addresses_of(notification)
        block(notification.workspace_id, addresses, reason, notification)


def lift_by(notification: Notification) -> None:
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
