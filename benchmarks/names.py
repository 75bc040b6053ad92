"""Random Kenyan names; as in Kenya, most people have one of a few common names."""

from __future__ import annotations

import tomllib
from itertools import accumulate
from pathlib import Path
from random import Random

LISTS = tomllib.loads(Path(__file__).with_name("names.toml").read_text("utf-8"))
GIVEN, FAMILY, PLACES, TRADES, SYLLABLES = (
    LISTS[name].split() for name in ("given", "family", "places", "trades", "syllables")
)
# A rare name, and its share: 12 in a million.
RARE, RARE_SHARE = "Quillfeather", 12 / 1_000_000


class Names:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._given, self._family = _falling(len(GIVEN)), _falling(len(FAMILY))

    def person(self) -> str:
        """Return given, middle and family name; one family name in five is made up."""
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
    """Return cumulative weights that fall from name to name."""
    return list(accumulate(1 / (rank + 5) for rank in range(count)))
