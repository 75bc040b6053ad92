"""Messages as tests want them."""

from typing import Any

from verification.notifications.models import Channel, Kind, Notification
from verification.notifications.outbox import OutgoingMessage, notify

ADDRESS, NUMBER = "wanjiku@subject.test", "+254711000111"
LINK = "https://verify.acacia-lenders.co.ke/c/0123456789abcdefghijkl"
CONTEXT = {
    "requester": "Acacia Lenders",
    "purpose": "Loan application",
    "link": LINK,
    "expiresAt": "2026-12-05T08:15:30.123456Z",
    "firstName": "Wanjiku",
}


def wanted(cause: str = "consent:1:1", **fields: Any) -> OutgoingMessage:
    """A consent request by e-mail."""
    return OutgoingMessage(
        **{
            "kind": Kind.CONSENT_REQUEST,
            "channel": Channel.EMAIL,
            "cause": cause,
            "recipient": ADDRESS,
            "context": CONTEXT,
            **fields,
        }
    )


def sms(cause: str = "consent:1:1", **fields: Any) -> OutgoingMessage:
    return wanted(cause, **{"channel": Channel.SMS, "recipient": NUMBER, **fields})


def asked(*messages: OutgoingMessage) -> Notification:
    """Notify, and the row of the first of them."""
    notify(*messages)
    first = messages[0]
    return Notification.objects.get(cause=first.cause, channel=first.channel)
