"""Read values out of a source's JSON, where any member may be absent or malformed."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import date
from typing import Any

Record = Mapping[str, Any]


def as_object(value: Any) -> Record:
    """Return the value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def as_objects(value: Any) -> list[Record]:
    """Return the objects of a list; skip everything else in it."""
    return [each for each in as_list(value) if isinstance(each, dict)]


def clean_text(value: Any, absent: Collection[str] = ()) -> str | None:
    """Return a text or a number as text with single spaces, at most 500 characters.

    Returns None for other types, for a blank text, and for the words in `absent`
    (lower case), which the source writes in place of a missing value.
    """
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    text = " ".join(str(value).split())[:500]
    return text if text and text.casefold() not in absent else None


def iso_date(value: Any) -> str | None:
    """Return `YYYY-MM-DD` if the text begins with such a date."""
    try:
        return date.fromisoformat((clean_text(value) or "")[:10]).isoformat()
    except ValueError:
        return None


def normalize_code(value: Any) -> str | None:
    """Return a register's word in capitals: "converted-closed" is CONVERTED_CLOSED."""
    word = re.sub(r"\W+", "_", clean_text(value) or "").strip("_").upper()
    return word or None


def upper_number(value: Any) -> str:
    """Return the number in capitals and without spaces, as most sources expect it."""
    return re.sub(r"\s", "", str(value or "")).upper()


def plain_number(value: Any) -> str:
    """Return capitals and digits only: "C.12345" and "c 12345" are one number."""
    return re.sub(r"[\W_]", "", str(value or "")).upper()


def printable_code(code: str) -> str:
    """Return a source's code for logs and messages, or "?" if it is no short code."""
    return code if re.fullmatch(r"\w{1,8}", code) else "?"
