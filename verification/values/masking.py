"""Masks of personal details, and identifying numbers in one form.

The sandbox's adapter imports this file, so it imports no code that uses the network.
"""

import re
import unicodedata
from collections.abc import Collection
from typing import Any

DOTS = "••••"
# This many characters at the end stay visible, as people compare numbers by their end.
ENDS = {
    "idNumber": 4,
    "registrationNumber": 4,
    "kraPin": 4,
    "phone": 3,
    "refereePhone": 3,
}
# Members whose values are words of the service and reveal nothing personal
UNMASKED_KEYS = {
    "code",
    "severity",
    "country",
    "type",
    "language",
    "confirmedBy",
    "codeSentTo",
    "linkSentTo",
    "ofClient",
}
# Members about a person, whose own members may have the names of others
ABOUT_PEOPLE = {"subject", "details", "changes"}


def hide_staff(actor: str) -> str:
    """Return an actor as clients read it: the staff are not named."""
    return "staff" if actor.startswith("staff ") else actor


def normalise_identifier(identifier: str) -> str:
    """Return the number in capitals and compatibility form, without punctuation."""
    text = unicodedata.normalize("NFKC", identifier).upper()
    return re.sub(r"[\s\-./]", "", text)


def mask(value: Any, key: str = "", unmasked: Collection[str] = UNMASKED_KEYS) -> Any:
    """Return the value in the same shape, with texts recognisable but of no use.

    The members that `unmasked` names stay, except within `ABOUT_PEOPLE`.
    """
    if key in ABOUT_PEOPLE:
        unmasked = UNMASKED_KEYS
    if isinstance(value, dict):
        return {name: mask(member, name, unmasked) for name, member in value.items()}
    if isinstance(value, list):
        return [mask(member, key, unmasked) for member in value]
    if value is None or value == "" or key in unmasked:
        return value
    return _mask_text(value, key) if isinstance(value, str) else DOTS


def mask_end(value: str, characters: int = 4) -> str:
    """Return the end of the value behind dots."""
    if not value:
        return ""
    # At most half of a short value stays visible.
    return DOTS + value[-min(characters, len(value) // 2) :]


def mask_email(value: str) -> str:
    """Return the first letter and the domain of an e-mail address."""
    name, at, host = value.rpartition("@")
    return f"{name[:1]}{DOTS}@{host}" if at else ""


def _mask_text(value: str, key: str) -> str:
    if key in ENDS:
        return mask_end(value, ENDS[key])
    if key.lower().endswith("email") and "@" in value:
        return mask_email(value)
    if key.lower().endswith("name"):
        return value[:1] + DOTS
    return DOTS
