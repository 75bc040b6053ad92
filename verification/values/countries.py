"""The names of countries in the reader's language."""

from functools import cache
from unicodedata import normalize

import pycountry
from babel import Locale


def country_name(code: str, language: str) -> str:
    """Return the name of an ISO 3166-1 code, or the code if it is none."""
    return Locale(language).territories.get(code, code)


@cache
def country_choices(language: str) -> list[tuple[str, str]]:
    """Return (code, name) of every country, by name."""
    codes = [country.alpha_2 for country in pycountry.countries]
    named = [(code, country_name(code, language)) for code in codes]
    # By letters without their accents: Åland is found under A.
    return sorted(named, key=lambda one: normalize("NFKD", one[1]))
