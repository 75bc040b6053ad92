"""Tokens and URLs of hosted pages. No token is stored: each is derived from its row.

A token is 22 base62 characters (131 bits) of a keyed hash over purpose, row and
generation. The tables of consents, payments and references hold its SHA-256, by which
the page finds the row. Other links have no digest: their token may also come from the
LOOKUP_KEY that was in use on the day of the row. `reports.hosted_links` renews links.
"""

import hashlib
from uuid import UUID

from django.conf import settings
from django.urls import reverse
from django.utils.crypto import constant_time_compare

from verification.backoffice.models import was_in_use
from verification.db.encryption import keyed_hashes
from verification.db.ids import RANDOM_BITS, time_of_id

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
TOKEN_LENGTH = 22
# A block link begins with the time of the message's id, by which the page finds the
# message. Seven characters leave room for both links of an SMS.
BLOCK_TIME_LENGTH = 7


def token(purpose: str, row: UUID, generation: int) -> str:
    return _tokens(purpose, row, generation)[-1]


def is_token(text: str, purpose: str, row: UUID) -> bool:
    """Return whether the text is the token of a row that has only one link."""
    return _is_one_of(text, _tokens(purpose, row, 1), row)


def _tokens(purpose: str, row: UUID, generation: int) -> list[str]:
    hashes = keyed_hashes(f"link:{purpose}", row, generation)
    return [_base62(int.from_bytes(hashed)) for hashed in hashes]


def _is_one_of(text: str, derived: list[str], row: UUID) -> bool:
    """Compare the text with the tokens of today's LOOKUP_KEY and of the row's day."""
    return constant_time_compare(text, derived[-1]) or any(
        constant_time_compare(text, former) and was_in_use(keys, time_of_id(row))
        for keys, former in enumerate(derived[:-1], 1)
    )


def digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def consent_url(consent_id: UUID, generation: int) -> str:
    return f"{settings.BASE_URL}/c/{token('consent', consent_id, generation)}"


def notice_url(consent_id: UUID, generation: int) -> str:
    """Return the consent's link, which opens the notice of a decline."""
    return f"{consent_url(consent_id, generation)}/notice"


def reference_url(reference_id: UUID, generation: int) -> str:
    return f"{settings.BASE_URL}/r/{token('reference', reference_id, generation)}"


def payment_url(payment_id: UUID, generation: int) -> str:
    return f"{settings.BASE_URL}/p/{token('payment', payment_id, generation)}"


def top_up_url(account_id: UUID) -> str:
    """Return the link by which anybody can pay into the account."""
    return f"{settings.BASE_URL}/t/{account_id}/{token('top-up', account_id, 1)}"


def genuine_url(report_id: UUID) -> str:
    """Return the link in a printed report that shows whether the report is genuine."""
    return f"{settings.BASE_URL}/v/{report_id}/{token('genuine', report_id, 1)}"


def console_url(page: str, *place: object) -> str:
    """Return the link to a page of the console."""
    return settings.BASE_URL + reverse(f"console:{page}", args=place)


def block_url(notification_id: UUID) -> str:
    """Return the link by which the recipient of a message can block its sender."""
    return f"{settings.BASE_URL}/b/{_block_links(notification_id)[-1]}"


def block_candidates(text: str) -> tuple[UUID, UUID] | None:
    """Return the first and the last id of the millisecond that a block link names.

    Returns None for a text that cannot be a block link. `is_block_link` then finds the
    one id.
    """
    if len(text) != BLOCK_TIME_LENGTH + TOKEN_LENGTH or set(text) - set(ALPHABET):
        return None
    moment = 0
    for character in reversed(text[:BLOCK_TIME_LENGTH]):
        moment = moment * 62 + ALPHABET.index(character)
    first = moment << RANDOM_BITS
    return UUID(int=first), UUID(int=first + (1 << RANDOM_BITS) - 1)


def is_block_link(text: str, notification_id: UUID) -> bool:
    return _is_one_of(text, _block_links(notification_id), notification_id)


def _block_links(notification_id: UUID) -> list[str]:
    """Return the end of the message's link, once for each key in LOOKUP_KEY."""
    moment = _base62(notification_id.int >> RANDOM_BITS)[:BLOCK_TIME_LENGTH]
    return [moment + token for token in _tokens("block", notification_id, 1)]


def payment_path(payment_id: UUID) -> str:
    """Return the path of the page for a browser that has opened the link."""
    return f"/p/v/{payment_id}/"


def top_up_path(account_id: UUID) -> str:
    return f"/t/v/{account_id}/"


def _base62(number: int) -> str:
    """Return the lowest 131 bits of the number as 22 characters."""
    characters = []
    for _ in range(TOKEN_LENGTH):
        number, digit = divmod(number, 62)
        characters.append(ALPHABET[digit])
    return "".join(characters)
