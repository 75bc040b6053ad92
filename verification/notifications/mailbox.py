"""The mailbox of a development service: a folder with a file for each e-mail.

Erasing a person deletes the files of the e-mails about them, as no server has them.
"""

import re
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend

from verification.db.ids import uuid7
from verification.values.clock import now


class EmailBackend(BaseEmailBackend):
    """Writes each e-mail into a file; Django's writes all of a connection into one."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        for message in email_messages:
            name = f"{now():%Y%m%d-%H%M%S}-{uuid7()}.log"
            path = Path(settings.EMAIL_FILE_PATH) / name
            path.write_bytes(message.message().as_bytes() + b"\n" + b"-" * 79 + b"\n")
        return len(email_messages)


def delete_emails(notification_ids: Collection[UUID]) -> None:
    """Delete the e-mails of these notifications from the mailbox."""
    ids = {notification_id.hex for notification_id in notification_ids}
    for path in _files() if ids else ():
        # `Message-ID: <id.round@host>`, as `delivery.message_id` writes it
        text = path.read_text(errors="replace")
        if ids & set(re.findall(r"^Message-ID: <(\w+)\.", text, re.MULTILINE)):
            path.unlink(missing_ok=True)


def delete_emails_before(moment: datetime) -> None:
    for path in _files():
        if path.stat().st_mtime < moment.timestamp():
            path.unlink(missing_ok=True)


def _files() -> list[Path]:
    """Return the files of the mailbox; none if e-mails go to a server."""
    folder: Any = settings.EMAIL_FILE_PATH
    return list(Path(folder).glob("*.log")) if folder else []
