"""Messages that tests send."""

from typing import Any

from django.core import mail

from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Channel, Kind, Notification
from verification.notifications.outbox import OutgoingMessage, notify

ADDRESS, NUMBER = "wanjiku@subject.test", "+254711000111"
LINK = "https://verify.acacia-lenders.co.ke/c/0123456789abcdefghijkl"
CONTEXT = {
    "requester": "Acacia Lenders",
    "purpose": "Loan application",
    "link": LINK,
    "expiresAt": "2026-12-05T08:15:30.123456Z",
}


def email_message(cause: str = "consent:1:1", **fields: Any) -> OutgoingMessage:
    """Return a consent request by e-mail."""
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


def sms_message(cause: str = "consent:1:1", **fields: Any) -> OutgoingMessage:
    return email_message(
        cause, **{"channel": Channel.SMS, "recipient": NUMBER, **fields}
    )


def enqueue(*messages: OutgoingMessage) -> Notification:
    """Store the messages in the outbox. Returns the row of the first one."""
    notify(*messages)
    first = messages[0]
    return Notification.objects.get(cause=first.cause, channel=first.channel)


def send_due() -> list[str]:
    """Send due messages. Returns their recipients."""
    mail.outbox.clear()
    send_due_notifications()
    return [message.to[0] for message in mail.outbox]
