"""Numbers that a spreadsheet or a typist has changed, put right without a doubt."""

import re
import unicodedata
from collections.abc import Callable

from verification.values.identifiers import NumberShape

# The Unicode category of characters such as a zero-width space
INVISIBLE = "Cf"
# Excel keeps an apostrophe of a cell that became text by a paste.
APOSTROPHES = "'\u2018\u2019"
DECIMALS = re.compile(r"([0-9][0-9.,' ]*)[.,]00?")
# One point alone may be that of a fraction: 123.456.
GROUPED = re.compile(
    r"(?![0-9]+\.[0-9]+$)[0-9]{1,3}(?:([., '])[0-9]{3})(?:\1[0-9]{3})*"
)
# A day in digits is no number with gaps: 1990-03-27, 27 3 1990, 27-3-90.
_PART = "[0-9]{1,2}"
_YEAR = f"((19|20)[0-9]{{2}}|{_PART})"
DAY = re.compile(f"{_YEAR}(?P<gap>[ -]){_PART}(?P=gap){_YEAR}")
# A number that lacks more has probably lost something else.
MOST_ZEROS = 3


def repair_number(text: str, shape: NumberShape) -> str:
    """Return the number of this shape that the text was; the text if in doubt."""
    for repaired in _repairs(text):
        digits = repaired.isascii() and repaired.isdecimal()
        if digits and 0 < shape.length - len(repaired) <= MOST_ZEROS:
            repaired = repaired.zfill(shape.length)
        if shape.fits(repaired):
            return repaired
    return text


def repair_phone(text: str, is_phone: Callable[[str], bool]) -> str:
    """Return the phone number that the text was; the text if in doubt."""
    return next((one for one in _repairs(text) if is_phone(one)), text)


def mark_invisible(text: str) -> str:
    """Return the text with a mark in place of each invisible character."""
    return "".join(
        "\ufffd" if unicodedata.category(c) == INVISIBLE else c for c in text
    )


def _repairs(text: str) -> list[str]:
    """Return the text with one damage after the other undone."""
    visible = "".join(c for c in text if unicodedata.category(c) != INVISIBLE)
    typed = " ".join(visible.split()).lstrip(APOSTROPHES).strip()
    if DAY.fullmatch(typed):
        return [typed]
    cut = DECIMALS.fullmatch(typed)
    whole = cut[1] if cut else typed
    grouped = GROUPED.fullmatch(whole)
    ungrouped = whole.replace(grouped[1], "") if grouped else whole
    spaceless = ungrouped.replace(" ", "")
    return [typed, whole, ungrouped, spaceless, spaceless.replace("-", "")]
