"""Writing messages from their templates: `notifications/<kind>.<channel>.<language>`.

The first line of an e-mail is its subject. What people typed is put in as it is, on
one line and without control characters, and is never markup.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.template import Context, engines
from django.utils import translation
from django.utils.module_loading import import_string

from verification.notifications.gsm import LONGEST, as_gsm, gsm_length
from verification.notifications.models import Channel, Notification
from verification.wire import one_line

NAIROBI = ZoneInfo("Africa/Nairobi")
# What is left of a requester's name in an SMS, at least.
SHORTEST_NAME = 12

# File name, content, media type
Attachment = tuple[str, bytes, str]


@dataclass(frozen=True, slots=True)
class Letter:
    subject: str
    text: str
    attachments: list[Attachment] = field(default_factory=list)


def write_letter(notification: Notification) -> Letter:
    subject, _, text = _render(notification, _clean(notification)).partition("\n")
    if notification.sandbox:
        subject = f"[SANDBOX] {subject}"
    return Letter(subject, text.strip() + "\n", _attachments(notification))


def write_sms(notification: Notification) -> str:
    """In one part where it can be: a long name of who asks is shortened for it."""
    context = _clean(notification)
    text = _sms(notification, context)
    excess = gsm_length(text) - LONGEST
    name = as_gsm(context.get("requester", ""))
    if excess > 0 and len(name) > SHORTEST_NAME:
        # Two full stops take the place of the end.
        short = name[: max(SHORTEST_NAME, len(name) - excess) - 2].rstrip()
        text = _sms(notification, {**context, "requester": f"{short}.."})
    return text


def _sms(notification: Notification, context: dict[str, Any]) -> str:
    text = " ".join(_render(notification, context).split())
    return as_gsm(f"SANDBOX: {text}" if notification.sandbox else text)


def _render(notification: Notification, context: dict[str, Any]) -> str:
    kind, channel = notification.kind.lower(), notification.channel.lower()
    name = f"notifications/{kind}.{channel}.{notification.language}.txt"
    template = engines["django"].engine.get_template(name)  # type: ignore[attr-defined]
    with translation.override(notification.language):
        # Plain text: an ampersand in a name stays one. Times are in their zone already.
        plain = Context(context, autoescape=False, use_tz=False)
        return str(template.render(plain))


def _clean(notification: Notification) -> dict[str, Any]:
    context = {
        name: one_line(value) if isinstance(value, str) else value
        for name, value in (notification.context or {}).items()
    }
    for name in ("expiresAt", "failingSince"):
        if context.get(name):
            moment = datetime.fromisoformat(context[name])
            context[name] = moment.astimezone(NAIROBI)
    return context


def _attachments(notification: Notification) -> list[Attachment]:
    path = settings.NOTIFICATION_ATTACHMENTS.get(notification.kind)
    if not path or notification.channel != Channel.EMAIL:
        return []
    make: Callable[[dict[str, Any]], list[Attachment]] = import_string(path)
    return make(notification.context or {})
