"""Write messages from their templates: `notifications/<kind>.<channel>.<language>`.

- The first line of an e-mail is its subject.
- Text that people typed appears on one line, without control characters, as plain text.
- Without a known language, an e-mail has the texts of all languages one below the
  other. An SMS has templates in both languages (`both`), as it has its link only once.
- Each message ends with `footer.<channel>.<language>`: the operator and its address. A
  message to people who may not know the sender has a link there to block the sender.
- An e-mail has the same words once more as HTML, which `html` makes from the text.
- An SMS has only characters of GSM 7-bit text (3GPP TS 23.038). One other character
  would turn it into UCS-2, with 70 characters in a part instead of 160.
"""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.template import Context, engines
from django.utils import translation

from verification import links
from verification.documents.receipts import (
    Attachment,
    consent_attachments,
    payment_attachments,
    reference_attachments,
)
from verification.notifications.html import AS, Section, isolate, lay_out, plain
from verification.notifications.models import (
    BLOCKABLE_KINDS,
    Channel,
    Kind,
    Language,
    Notification,
)
from verification.values.clock import now
from verification.values.formats import one_line
from verification.values.local_time import NAIROBI
from workspaces.brands import mail_lines

# Kind -> the function that makes attachments from the context
ATTACHMENTS: dict[str, Callable[[dict[str, Any]], list[Attachment]]] = {
    Kind.CONSENT_RECEIPT: consent_attachments,
    Kind.PAYMENT_RECEIPT: payment_attachments,
    Kind.TOP_UP_RECEIPT: payment_attachments,
    Kind.REFERENCE_RECEIPT: reference_attachments,
}

# The characters of two parts, without the header that joins them.
MAX_SMS_LENGTH = 2 * 153

GSM_BASIC = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
# Each counts as two characters.
GSM_EXTENDED = frozenset("^{}\\[~]|€")
ASCII_PUNCTUATION = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-"}  # noqa: RUF001
)


def gsm_length(text: str) -> int:
    return sum(2 if c in GSM_EXTENDED else 1 for c in text)


def to_gsm(text: str) -> str:
    """Remove accents that GSM lacks, and replace other characters by `?`."""
    written = []
    for character in text.translate(ASCII_PUNCTUATION):
        known = character
        if character not in GSM_BASIC and character not in GSM_EXTENDED:
            plain = unicodedata.normalize("NFKD", character)
            unknown = "" if unicodedata.combining(character) else "?"
            known = "".join(c for c in plain if c in GSM_BASIC) or unknown
        written.append(known)
    return "".join(written)


# A name is not shortened to less than this in an SMS.
MIN_NAME_LENGTH = 12
KISWAHILI_BELOW = "Kiswahili hapa chini."
SEPARATOR = "-" * 40


@dataclass(frozen=True, slots=True)
class EmailText:
    subject: str
    text: str
    html: str
    attachments: list[Attachment] = field(default_factory=list)


def write_email(
    notification: Notification, *, block_link: str = "", attach: bool = True
) -> EmailText:
    """Write an e-mail; `block_link` replaces the recipient's link to block."""
    context = isolate(_context(notification, block_link))
    languages = [notification.language] if notification.language else Language.values
    sections = [_section(notification, context, language) for language in languages]
    subject = " / ".join(plain(one.subject) for one in sections)
    text = f"\n\n{SEPARATOR}\n\n".join(
        plain(f"{one.body}\n\n{one.footer}") for one in sections
    )
    lead = KISWAHILI_BELOW if len(sections) > 1 else ""
    if lead:
        text = f"{lead}\n\n{text}"
    senders = [context.get("requester"), context["operator"]]
    html = lay_out(
        sections,
        subject=subject,
        lead=lead,
        sandbox=notification.sandbox,
        names=[name for name in senders if name],
    )
    if notification.sandbox:
        subject = f"[SANDBOX] {subject}"
    make = ATTACHMENTS.get(notification.kind) if attach else None
    attachments = make(notification.context or {}) if make else []
    return EmailText(subject, text + "\n", html, attachments)


def write_sms(notification: Notification, *, block_link: str = "") -> str:
    """Write an SMS of two parts at most, with shortened names if they are long.

    `block_link` is as in `write_email`.
    """
    context = _context(notification, block_link)
    text = _sms(notification, context)
    for role in ("requester", "operator"):
        excess = gsm_length(text) - MAX_SMS_LENGTH
        name = to_gsm(context.get(role, "")).strip()
        if excess > 0 and len(name) > MIN_NAME_LENGTH:
            # Two full stops replace the end of the name.
            short = name[: max(MIN_NAME_LENGTH, len(name) - excess) - 2].rstrip()
            context[role] = f"{short}.."
            text = _sms(notification, context)
    return text


def _section(
    notification: Notification, context: dict[str, Any], language: str
) -> Section:
    text, footer = _with_footer(notification, context, language)
    subject, _, body = text.partition("\n")
    return Section(language, subject, body.strip(), footer)


def _with_footer(
    notification: Notification, context: dict[str, Any], language: str
) -> tuple[str, str]:
    kind, channel = notification.kind.lower(), notification.channel.lower()
    text = _render(f"{kind}.{channel}.{language}", context, language).strip()
    is_blockable = notification.kind in BLOCKABLE_KINDS
    requester = context.get("requester") or "" if is_blockable else ""
    shown = {**context, "requester": requester, "is_blockable": is_blockable}
    footer = _render(f"footer.{channel}.{language}", shown, language).strip()
    return text, footer


def _sms(notification: Notification, context: dict[str, Any]) -> str:
    language = notification.language or "both"
    parts = _with_footer(notification, context, language)
    text = " ".join(" ".join(parts).split())
    return to_gsm(f"SANDBOX: {text}" if notification.sandbox else text)


def _render(name: str, context: dict[str, Any], language: str) -> str:
    engine = engines["django"].engine  # type: ignore[attr-defined]
    template = engine.get_template(f"notifications/{name}.txt")
    with translation.override("en" if language == "both" else language):
        # The text is not HTML, and `_clean_context` has converted times to their zone.
        plain = Context(context, autoescape=False, use_tz=False)
        return str(template.render(plain))


def _context(notification: Notification, block_link: str) -> dict[str, Any]:
    block_link = block_link or links.block_url(notification.pk)
    return {**_clean_context(notification), "blockLink": block_link, "as": AS}


def _clean_context(notification: Notification) -> dict[str, Any]:
    context = _on_one_line(notification.context or {})
    context["operator"] = settings.OPERATOR_NAME
    context["contact"] = settings.OPERATOR_CONTACT
    context |= _client_lines(notification)
    for name in ("expiresAt", "linkEnds", "failingSince", "happenedAt"):
        if context.get(name):
            moment = datetime.fromisoformat(context[name])
            context[name] = moment.astimezone(NAIROBI)
    if ends := context.get("expiresAt"):
        # An SMS has no room for the hour: it names the last whole day, if one is left.
        today = now().astimezone(NAIROBI)
        context["lastDay"] = min(ends, max(ends - timedelta(days=1), today))
    return context


def _on_one_line(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _on_one_line(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_on_one_line(one) for one in value]
    return one_line(value) if isinstance(value, str) else value


def _client_lines(notification: Notification) -> dict[str, str]:
    """Return the client's contact line as of now, for e-mails that name the client."""
    client = (notification.context or {}).get("requester")
    owner = notification.workspace_id
    if notification.channel != Channel.EMAIL or not client or owner is None:
        return {}
    lines = mail_lines(owner, is_sandbox=notification.sandbox)
    return {"lineOf": one_line(client), **lines} if lines else {}
