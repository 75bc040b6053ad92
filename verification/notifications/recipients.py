"""Who may be sent a message. Every message is decided here, when it is about to go."""

from __future__ import annotations

from verification.notifications.blocks import active_blocks
from verification.notifications.models import (
    TO_STRANGERS,
    Notification,
    NotificationError,
)


def reason_to_withhold(notification: Notification) -> NotificationError | None:
    """Why the message must not be sent, or None. Members, accounts and operators
    always get theirs."""
    if notification.kind not in TO_STRANGERS:
        return None
    address = notification.channel, str(notification.recipient)
    if active_blocks(notification.workspace_id, [address]).exists():
        return NotificationError.BLOCKED
    return None
