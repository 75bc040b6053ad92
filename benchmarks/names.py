"""Names as they occur in Kenya, the common ones common: a few make up most people."""

from __future__ import annotations

import tomllib
from itertools import accumulate
from pathlib import Path
from random import Random

LISTS = tomllib.loads(Path(__file__).with_name("names.toml").read_text("utf-8"))
GIVEN, FAMILY, PLACES, TRADES, SYLLABLES = (
    LISTS[name].split() for name in ("given", "family", "places", "trades", "syllables")
)
# So many, in a million, have a name that nobody else has a part of.
RARE, RARE_SHARE = "Quillfeather", 12 / 1_000_000


class Names:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._given, self._family = _falling(len(GIVEN)), _falling(len(FAMILY))

    def person(self) -> str:
        """Given, middle and family name; one family in five is not of the list."""
        chance = self._random
        given, middle = chance.choices(GIVEN, cum_weights=self._given, k=2)
        if chance.random() < 0.5:
            middle = chance.choices(FAMILY, cum_weights=self._family)[0]
        return f"{given} {middle} {self._family_name()}"

    def company(self) -> str:
        chance = self._random
        words = chance.choice(PLACES), self._family_name(), chance.choice(TRADES)
        return f"{' '.join(words)} Limited"

    def _family_name(self) -> str:
        chance = self._random
        if chance.random() < RARE_SHARE:
            return RARE
        if chance.random() < 0.2:
            return "".join(
                chance.choices(SYLLABLES, k=chance.choice((2, 3, 4)))
            ).title()
        return chance.choices(FAMILY, cum_weights=self._family)[0]


def _falling(count: int) -> list[float]:
    """Weights of which the first is the largest, as names have."""
    return list(accumulate(1 / (rank + 5) for rank in range(count)))
