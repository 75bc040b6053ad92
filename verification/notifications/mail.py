"""E-mail through Django's backend, over one connection for as long as it holds."""

from __future__ import annotations

import logging
import smtplib
from contextlib import suppress
from email.utils import parseaddr
from types import TracebackType
from typing import Self

from django.conf import settings
from django.core.mail import EmailMessage, get_connection

from verification import links
from verification.notifications.models import (
    BLOCKABLE_KINDS,
    Notification,
    NotificationError,
    Outcome,
)
from verification.notifications.templates import EmailText

logger = logging.getLogger(__name__)


class Mailer:
    """Sends letters one after another. Use it as a context manager."""

    def __init__(self) -> None:
        self._connection = get_connection()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()

    def send(self, notification: Notification, letter: EmailText) -> Outcome:
        """Errors are outcomes; nothing is raised for them."""
        try:
            self._connection.open()
            message = _message(notification, letter)
            self._connection.send_messages([message])
        except Exception as e:
            # What the connection was in the middle of is unknown now.
            self._close()
            # By name alone: the message of an error repeats the address.
            logger.warning("%s was not mailed: %s", notification.pk, type(e).__name__)
            return _outcome(e)
        return Outcome()

    def _close(self) -> None:
        with suppress(OSError, smtplib.SMTPException):
            self._connection.close()


def _message(notification: Notification, letter: EmailText) -> EmailMessage:
    headers = {
        "Message-ID": message_id(notification),
        # So that nobody's absence is answered to us.
        "Auto-Submitted": "auto-generated",
    }
    if notification.kind in BLOCKABLE_KINDS:
        # One click in the mail program blocks the sender (RFC 8058).
        headers["List-Unsubscribe"] = f"<{links.block_url(notification.pk)}>"
        headers["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    message = EmailMessage(
        letter.subject,
        letter.text,
        to=[str(notification.recipient)],
        headers=headers,
    )
    for attachment in letter.attachments:
        message.attach(*attachment)
    return message


def message_id(notification: Notification) -> str:
    """The same at every attempt, so that mail systems can drop a second copy."""
    _, address = parseaddr(settings.DEFAULT_FROM_EMAIL)
    domain = address.rpartition("@")[2]
    return f"<{notification.pk.hex}.{notification.rounds}@{domain}>"


def _outcome(e: Exception) -> Outcome:
    match e:
        case smtplib.SMTPRecipientsRefused():
            codes = [code for code, _ in e.recipients.values()]
            if all(500 <= code < 600 for code in codes):
                return Outcome(NotificationError.REFUSED, permanent=True)
            return Outcome(NotificationError.NOT_TAKEN)
        case ValueError():
            # Django's word for an address that is none.
            return Outcome(NotificationError.REFUSED, permanent=True)
        case smtplib.SMTPConnectError() | smtplib.SMTPServerDisconnected():
            return Outcome(NotificationError.UNREACHABLE)
        case smtplib.SMTPException():
            return Outcome(NotificationError.NOT_TAKEN)
        case OSError():
            return Outcome(NotificationError.UNREACHABLE)
    return Outcome(NotificationError.NOT_WRITTEN)
