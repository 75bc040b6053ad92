"""Text of a client for people who do not know it: a line, a name.

It is plain text on one line. It holds no address of a page or a mailbox, in whatever
spelling, and does not speak of secrets or ways to pay.
"""

import re
import string
import unicodedata
from enum import StrEnum, auto

# The ends of addresses that people write in words: "acacia dot com".
ENDS = (
    "africa|app|biz|cc|click|club|co|com|dev|edu|eu|gov|info|io|ke|link|live|me|mobi|"
    "ng|net|online|org|page|pro|rw|shop|site|store|top|tz|ug|uk|us|vip|website|xyz|za"
)
# `example.com`, `https:`, `wa.me/254...`, and an address such as `a@example.com`: a
# text leads nowhere. The workspace's contact has a form of its own.
LINK = re.compile(
    r"://|www\.|@|[^\W_][\w-]*\.[^\W\d_]{2,}|[\w-]/[\w-]*\d{5}|\\"
    # "acacia .com", "acacia . com"
    r"|[^\W_]\s+\.\s*[^\W\d_]{2,}"
    # "acacia. com"; other ends are words that begin a sentence.
    r"|[^\W_]\.\s+(com|net|org|xyz)\b"
    # "acacia dot com", "acacia-nukta-com"
    rf"|[^\W_][\W_]+(dot|nukta)[\W_]*({ENDS})\b"
    # "acacia (dot) com"
    r"|[\[({]\s*(dot|nukta)\s*[\])}]",
    re.IGNORECASE,
)
# Pages say that nobody asks for these secrets, and where to pay.
WARY = re.compile(
    r"\b(pins?|otp|passwords?|passcodes?|cvv|cvc|codes?|nywila|nenosiri|siri|msimbo|"
    r"misimbo|m-?pesa|pay ?bill|buy goods|lipa|till (no|number)|till \d{4,})\b",
    re.IGNORECASE,
)
# Signs between single letters: "P I N", "P.I.N."
SPACED = re.compile(r"(?<=\b\w)[\W_]+(?=\w\b)")
# Spaces between single letters: "a c a c i a . c o m"
SPACES = re.compile(r"(?<=\b\w)\s+(?=\w\b)")
# Inside a word they look like a full stop.
RAISED_DOT = re.compile(r"(?<=\w)[·•](?=\w)")
# The characters that people and keyboards use as an apostrophe
APOSTROPHES = "'`\u00b4\u2018\u2019\u201b\u02b9\u02bb\u02bc\u02bd\u02c8\u2032\uff07"
TYPOGRAPHIC_SIGNS = "‘’“”–—·•«»"  # noqa: RUF001


class TextFault(StrEnum):
    SIGNS = auto()
    LINK = auto()
    WARY = auto()


def find_text_fault(text: str) -> TextFault | None:
    """Return the first rule that the text breaks, or None.

    Full-width letters and dots count like the ordinary ones.
    """
    plain = unicodedata.normalize("NFKC", text)
    if not all(map(_is_plain, plain)):
        return TextFault.SIGNS
    plain = RAISED_DOT.sub(".", plain)
    if LINK.search(plain) or LINK.search(SPACES.sub("", plain)):
        return TextFault.LINK
    is_wary = WARY.search(plain) or WARY.search(SPACED.sub("", plain))
    return TextFault.WARY if is_wary else None


def _is_plain(character: str) -> bool:
    """Return whether no reader confuses the character with another.

    Letters of other scripts look like Latin ones, and symbols like seals of approval.
    """
    kind = unicodedata.category(character)[0]
    if kind == "L":
        return unicodedata.name(character).startswith("LATIN ")
    if kind == "P":
        return character in string.punctuation or character in TYPOGRAPHIC_SIGNS
    return kind == "Z" or character.isspace() or character in "+0123456789"
