"""Countries as sanctions lists write them, as ISO codes of two letters."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pycountry

# Names that are not those of ISO 3166. What is not known is left out: a country that
# is missing counts against nobody.
NAMES = {
    "burma": "MM",
    "congo, democratic republic of the": "CD",
    "cote d ivoire": "CI",
    "democratic republic of the congo": "CD",
    "iran (islamic republic of)": "IR",
    "ivory coast": "CI",
    "korea, north": "KP",
    "korea, south": "KR",
    "kosovo": "XK",
    "north korea": "KP",
    "occupied palestinian territories": "PS",
    "palestinian": "PS",
    "russia": "RU",
    "turkey": "TR",
    "west bank": "PS",
}


def codes_of(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(code for name in names if (code := _code(name))))


@cache
def _code(name: str) -> str:
    plain = " ".join(name.replace("'", " ").split()).casefold()
    if found := NAMES.get(plain):
        return found
    try:
        return str(pycountry.countries.lookup(name.strip()).alpha_2)
    except LookupError:
        return ""
