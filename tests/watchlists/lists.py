"""A list of many people and companies, and slips of one letter."""

from random import Random
from xml.sax.saxutils import quoteattr

from benchmarks.names import Names

# The most common words of names in sanctions lists, and syllables for other words.
COMMON = """
Mohammed Ahmad Ali Hassan Hussein Abdul Omar Ibrahim Yusuf Khalid Said Salim Juma Sergei
Vladimir Alexander Ivan Petrov Kim Jong Chol Pak Ri Li Wang Chen Un Nur
"""
SYLLABLES = "ka ro mi sha de lu van ger to zi ba ne ri sol mar ku ti pe ng ov an el"
TRADES = "Trading Shipping Bank General Company Holding Oil Energy Group Air"
KENYAN = 0.05
LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Lists:
    def __init__(self, seed: int) -> None:
        self.random, self.kenyan = Random(seed), Names(seed)

    def person(self) -> str:
        if self.random.random() < KENYAN:
            return self.kenyan.person()
        return " ".join(self._word() for _ in range(self.random.randint(2, 4)))

    def company(self) -> str:
        if self.random.random() < KENYAN:
            return self.kenyan.company()
        trades = self.random.sample(TRADES.split(), k=self.random.randint(1, 2))
        return " ".join([self._made_up(), *trades, "LLC"])

    def _word(self) -> str:
        chance = self.random
        return (
            chance.choice(COMMON.split()) if chance.random() < 0.4 else self._made_up()
        )

    def _made_up(self) -> str:
        syllables = self.random.choices(SYLLABLES.split(), k=self.random.randint(1, 4))
        return "".join(syllables).title()

    def slip(self, name: str) -> str:
        """Return a word with one letter added, removed or changed, or two swapped."""
        chance = self.random
        at = chance.choice([i for i, letter in enumerate(name) if letter.isalpha()])
        letter = chance.choice(LETTERS)
        return chance.choice(
            [
                name[:at] + letter + name[at:],
                name[:at] + name[at + 1 :],
                name[:at] + letter + name[at + 1 :],
                name[:at] + name[at : at + 2][::-1] + name[at + 2 :],
            ]
        )

    def file(self, *, people: int, companies: int) -> str:
        """Return a file in the EU's form; each entry has up to four names."""
        entries = [
            *(self._entry("person", self.person) for _ in range(people)),
            *(self._entry("enterprise", self.company) for _ in range(companies)),
        ]
        return (
            '<export xmlns="http://eu.europa.ec/fpi/fsd/export"'
            f' generationDate="2026-11-20">{"".join(entries)}</export>'
        )

    def _entry(self, kind, name) -> str:
        names = [name() for _ in range(self.random.randint(1, 4))]
        aliases = "".join(f"<nameAlias wholeName={quoteattr(one)}/>" for one in names)
        number = self.random.randrange(10**9)
        return (
            f'<sanctionEntity logicalId="{number}"><subjectType code="{kind}"/>'
            f"{aliases}</sanctionEntity>"
        )
