"""What came of an attempt to send a message."""

from __future__ import annotations

from dataclasses import dataclass

from verification.notifications.models import NotificationError


@dataclass(frozen=True, slots=True)
class Outcome:
    """Sent, unless it names an error. A permanent one would be the same next time."""

    error: NotificationError | None = None
    permanent: bool = False
    # The recipient may not be written to.
    withheld: bool = False
    # What the gateway calls the message.
    reference: str = ""
