"""GSM 7-bit text (3GPP TS 23.038): what fits into one SMS, at the lowest price.

A single character outside of it would make the whole message UCS-2, of which 70
characters fit.
"""

from __future__ import annotations

import unicodedata

# Characters of two parts, each of which says to which message it belongs.
LONGEST_OF_TWO = 2 * 153

BASIC = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
# Each takes the place of two.
EXTENDED = frozenset("^{}\\[~]|€")
PLAINER = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-"})  # noqa: RUF001


def gsm_length(text: str) -> int:
    return sum(2 if c in EXTENDED else 1 for c in text)


def as_gsm(text: str) -> str:
    """Accents that GSM lacks are left out, and what has no likeness becomes `?`."""
    return "".join(map(_as_gsm, text.translate(PLAINER)))


def _as_gsm(character: str) -> str:
    if character in BASIC or character in EXTENDED:
        return character
    plain = unicodedata.normalize("NFKD", character)
    kept = "".join(c for c in plain if c in BASIC)
    return kept or ("" if unicodedata.combining(character) else "?")
