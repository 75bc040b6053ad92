"""How like an entry of a list is to a subject, from 0 to 1: light, and explainable.

A list spells names in many ways, and so does whoever gives them: words are taken in any
order, spelt alike, and compared by letters. What else is known takes away from that: a
date of birth that is another, a country that is another. It is documented, with its
figures, in docs/checks.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rapidfuzz import fuzz
from rapidfuzz.distance import OSA, JaroWinkler

from verification.providers.likeness import (
    company_words,
    person_words,
    spelt,
    without_particles,
)

# Words less alike than this are other words; so are those of which more is to be
# changed than that leaves, as one that only begins like the other.
SAME_WORD, SAME_LETTERS = 0.86, 0.7
# For each word that one of the names has more, and all of them together at most.
MISSING, MOST_MISSING = 0.05, 0.15
# One name in common is next to nothing.
SINGLE = 0.6
INITIAL = 0.4
SAME_BIRTH, OTHER_YEAR, NEXT_YEAR, OTHER_COUNTRY = 0.1, 0.6, 0.85, 0.05
VOWELS = re.compile("[aeiou]")
# Pieces of words by which they are found.
PIECE = 4


def words_of(name: str, *, is_company: bool) -> list[str]:
    found = company_words(name) if is_company else without_particles(person_words(name))
    return [spelt(word) for word in found]


def keys_of(names: Iterable[str], *, is_company: bool) -> list[str]:
    """By its consonants a word is found with other vowels; by its beginning or its end,
    with a slip in the other half."""
    keys: set[str] = set()
    for name in names:
        for word in words_of(name, is_company=is_company):
            skeleton = word[:1] + VOWELS.sub("", word[1:])
            keys |= {f"={skeleton[:50]}", f"<{word[:PIECE]}", f">{word[-PIECE:]}"}
    return sorted(keys)


def plain(names: Iterable[str], *, is_company: bool) -> list[str]:
    """Names as they are compared, each once; without those that have no words."""
    found = (" ".join(words_of(name, is_company=is_company)) for name in names)
    return list(dict.fromkeys(filter(None, found)))


def names_score(stated: str, listed: Iterable[str], *, is_company: bool) -> float:
    """The best over all names of an entry, which are `plain`."""
    ours = words_of(stated, is_company=is_company)
    compare = _companies if is_company else _people
    scores = [compare(ours, theirs.split()) for theirs in listed]
    return max(scores, default=0.0) if ours else 0.0


def weigh(
    score: float,
    *,
    birth: str | None,
    births: Sequence[str],
    country: str | None,
    countries: Sequence[str],
) -> float:
    """The score of the names with what else is known of both."""
    if birth and births:
        apart = min(_years_apart(birth, each) for each in births)
        if birth in births:
            score += SAME_BIRTH
        elif apart:
            score *= NEXT_YEAR if apart == 1 else OTHER_YEAR
    if country and countries and country not in countries:
        score -= OTHER_COUNTRY
    return max(0.0, min(1.0, score))


def _people(ours: list[str], theirs: list[str]) -> float:
    fewer, more = sorted([ours, theirs], key=len)
    left, total, weight = list(more), 0.0, 0
    for word in sorted(fewer, key=len, reverse=True):
        alike, other = max((_word(word, each), each) for each in left)
        # A name weighs as it is written out: an initial is little of it.
        letters = max(len(word), len(other)) if alike else len(word)
        total += alike * letters
        weight += letters
        if alike:
            left.remove(other)
    score = total / weight
    extra = len(more) - len(fewer)
    if len(fewer) == 1 and extra:
        return score * SINGLE
    return score - min(extra * MISSING, MOST_MISSING)


def _companies(ours: list[str], theirs: list[str]) -> float:
    return fuzz.token_sort_ratio(" ".join(ours), " ".join(theirs)) / 100


def _word(one: str, other: str) -> float:
    if one == other:
        return 1.0
    if min(len(one), len(other)) == 1:
        return INITIAL if one[0] == other[0] else 0.0
    if OSA.normalized_similarity(one, other) < SAME_LETTERS:
        return 0.0
    alike = JaroWinkler.similarity(one, other)
    return alike if alike >= SAME_WORD else 0.0


def _years_apart(birth: str, listed: str) -> int:
    """0 where the year of birth is, or lies within, the one that is listed."""
    year = int(birth[:4])
    first, _, last = listed.partition("/")
    low, high = int(first[:4]), int((last or first)[:4])
    return max(low - year, year - high, 0)
