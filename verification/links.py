"""Links to hosted pages: derived from the row, so that no token is kept anywhere.

A token is 22 base62 characters (131 bits) of a keyed hash over purpose, row and
generation. The table holds its SHA-256, by which the page finds the row.
"""

from __future__ import annotations

import hashlib
from uuid import UUID

from django.conf import settings
from django.utils.crypto import constant_time_compare

from verification.encryption import keyed_hash

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
TOKEN_LENGTH = 22


def token(purpose: str, row: UUID, generation: int) -> str:
    return _base62(int.from_bytes(keyed_hash(f"link:{purpose}", row, generation)))


def digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def consent_url(consent_id: UUID, generation: int) -> str:
    return f"{settings.BASE_URL}/c/{token('consent', consent_id, generation)}"


def reference_url(reference_id: UUID, generation: int) -> str:
    return f"{settings.BASE_URL}/r/{token('reference', reference_id, generation)}"


def payment_url(payment_id: UUID, generation: int) -> str:
    return f"{settings.BASE_URL}/p/{token('payment', payment_id, generation)}"


def top_up_url(account_id: UUID) -> str:
    """Where anybody can pay into the account, and sees nothing of it but its name."""
    return f"{settings.BASE_URL}/t/{account_id}/{token('top-up', account_id, 1)}"


def genuine_url(report_id: UUID) -> str:
    """Where who was handed a report sees whether it is ours."""
    return f"{settings.BASE_URL}/v/{report_id}/{token('genuine', report_id, 1)}"


def block_url(notification_id: UUID) -> str:
    """Where the recipient of a message can block its sender."""
    known = _base62(notification_id.int) + token("block", notification_id, 1)
    return f"{settings.BASE_URL}/b/{known}"


def blocked_by(text: str) -> UUID | None:
    """The notification that a block link belongs to, or None for a wrong link."""
    number = 0
    for character in reversed(text[:TOKEN_LENGTH]):
        number = number * 62 + ALPHABET.find(character)
    if not 0 <= number < 1 << 128:
        return None
    notification_id = UUID(int=number)
    known = token("block", notification_id, 1)
    is_ours = constant_time_compare(text[TOKEN_LENGTH:], known)
    return notification_id if is_ours else None


def payment_path(payment_id: UUID) -> str:
    """The page behind the link, for who opened it in this browser."""
    return f"/p/v/{payment_id}/"


def top_up_path(account_id: UUID) -> str:
    return f"/t/v/{account_id}/"


def _base62(number: int) -> str:
    """The lowest 131 bits, in 22 characters."""
    characters = []
    for _ in range(TOKEN_LENGTH):
        number, digit = divmod(number, 62)
        characters.append(ALPHABET[digit])
    return "".join(characters)
