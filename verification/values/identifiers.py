"""The shapes of numbers that identify a subject: one for each member and country.

A country's shape is the published one of its authority or of the sources. If that is
missing or in doubt, the wide shape applies. No shape allows commas or invisible
characters.
"""

import re
from dataclasses import dataclass

ANY_COUNTRY = ""


@dataclass(frozen=True, slots=True)
class NumberShape:
    pattern: re.Pattern[str]
    # The shape in words, for problems and documents
    form: str
    # The number of digits, if it is fixed and the number has digits alone
    length: int = 0

    def fits(self, text: str) -> bool:
        return self.pattern.fullmatch(text.strip()) is not None


def _shape(pattern: str, form: str) -> NumberShape:
    return NumberShape(re.compile(pattern, re.ASCII | re.IGNORECASE), form)


def _digits(length: int) -> NumberShape:
    pattern = re.compile(rf"[0-9]{{{length}}}")
    return NumberShape(pattern, f"{length} digits", length)


# Most numbers of other countries: a letter or digit, then these and some punctuation. A
# whole number with decimals comes from a spreadsheet.
_WIDE = r"(?!\d+\.0+$)[^\W_](?:[^\W_]|[ ./{signs}-])*"
_WIDE_PERSON = NumberShape(
    re.compile(r"(?=.*\d)" + _WIDE.format(signs="")),
    "letters and digits, one digit at least, and between them spaces and . / -",
)
_WIDE_COMPANY = NumberShape(
    re.compile(_WIDE.format(signs="()&:#")),
    "letters and digits, and between them spaces and . / - ( ) & : #",
)
KRA_PIN = _shape(
    r"[A-Z]\d{9}[A-Z]", "a letter, nine digits and a letter, as A012345678Z"
)
SHAPES: dict[str, dict[str, NumberShape]] = {
    "idNumber": {
        "KE": _shape(r"\d{1,9}", "1 to 9 digits"),
        "NG": _digits(11),
        "ZA": _digits(13),
        "UG": _shape(r"[A-Z\d]{14}", "14 letters and digits"),
        "GH": _shape(r"GHA-?[A-Z\d]{9}-?[A-Z\d]", "as GHA-123456789-0"),
        ANY_COUNTRY: _WIDE_PERSON,
    },
    "kraPin": {ANY_COUNTRY: KRA_PIN},
    "registrationNumber": {ANY_COUNTRY: _WIDE_COMPANY},
}


def shape_of(member: str, country: str) -> NumberShape | None:
    """Return the shape of this member of a subject of the country, if it has one."""
    shapes = SHAPES.get(member, {})
    return shapes.get(country) or shapes.get(ANY_COUNTRY)
