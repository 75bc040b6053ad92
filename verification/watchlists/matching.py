"""How like an entry of a list is to a subject, from 0 to 1: light, and explainable.

A list spells names in many ways, and so does whoever gives them: words are taken in any
order, spelt alike, and compared by letters. What else is known takes away from that: a
date of birth that is another, a country that is another. It is documented, with its
figures, in docs/checks.md.

`names_score` compares two names. `index.py` finds the entries for which it is high
without comparing with all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from rapidfuzz import fuzz
from rapidfuzz.distance import OSA, JaroWinkler

from verification.providers.name_comparison import (
    company_words,
    normalize_spelling,
    person_words,
    without_particles,
)

# Words less alike than this are other words; so are those of which more is to be
# changed than that leaves, as one that only begins like the other. Another first letter
# is one slip or another word.
SAME_WORD, SAME_LETTERS = 0.86, 0.7
# For each word that one of the names has more, and all of them together at most.
MISSING, MOST_MISSING = 0.05, 0.15
# One name in common is next to nothing.
SINGLE = 0.6
INITIAL = 0.4
SAME_BIRTH, OTHER_YEAR, NEXT_YEAR, OTHER_COUNTRY = 0.1, 0.6, 0.85, 0.05

# Lists repeat the words of names.
_spelt = lru_cache(20_000)(normalize_spelling)

# Stated word -> listed word -> how alike they are; 0 where it is missing.
WordScores = Mapping[str, Mapping[str, float]]


def words_of(name: str, *, is_company: bool) -> list[str]:
    found = company_words(name) if is_company else without_particles(person_words(name))
    return [_spelt(word) for word in found]


def stated_words(name: str, *, is_company: bool) -> list[list[str]]:
    """The words of a name in each way in which they are searched.

    With particles as well: "Al Hassan" may be a slip of "Ali Hassan".
    """
    usual = words_of(name, is_company=is_company)
    if is_company or not usual:
        return [usual] if usual else []
    whole = [_spelt(word) for word in person_words(name)]
    return [usual] if usual == whole else [usual, whole]


def comparable_names(names: Iterable[str], *, is_company: bool) -> list[str]:
    """Names as they are compared, each once; without those that have no words."""
    found = (" ".join(words_of(name, is_company=is_company)) for name in names)
    return list(dict.fromkeys(filter(None, found)))


def names_score(stated: str, listed: Iterable[str], *, is_company: bool) -> float:
    """The best over all names of an entry, which are `plain`."""
    compare = companies_score if is_company else people_score
    return max(
        (
            compare(ours, theirs.split())
            for ours in stated_words(stated, is_company=is_company)
            for theirs in listed
        ),
        default=0.0,
    )


def score_entry(
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


def people_score(
    ours: list[str], theirs: list[str], alike: WordScores | None = None
) -> float:
    """Compare the words of a stated name with those of a listed one, none of them
    empty. `alike` holds what is known of their words already."""
    if alike is None:
        alike = {one: {each: words_alike(one, each) for each in theirs} for one in ours}
    is_ours = len(ours) <= len(theirs)
    fewer, more = (ours, theirs) if is_ours else (theirs, ours)
    left, total, weight, common = list(more), 0.0, 0, 0
    for word in sorted(fewer, key=len, reverse=True):
        best, other = 0.0, ""
        for each in left:
            of = alike[word].get(each) if is_ours else alike[each].get(word)
            if of and (of, each) > (best, other):
                best, other = of, each
        # A name weighs as it is written out: an initial is little of it.
        weight += max(len(word), len(other))
        if best:
            total += best * max(len(word), len(other))
            left.remove(other)
            common += 1
    if not common:
        return 0.0
    score = total / weight
    if common == 1 < len(more):
        return score * SINGLE
    return score - min((len(more) - len(fewer)) * MISSING, MOST_MISSING)


def companies_score(ours: list[str], theirs: list[str]) -> float:
    return fuzz.ratio(sorted_text(ours), sorted_text(theirs)) / 100


def sorted_text(words: Iterable[str]) -> str:
    return " ".join(sorted(words))


def words_alike(one: str, other: str) -> float:
    if one == other:
        return 1.0
    if min(len(one), len(other)) == 1:
        return INITIAL if one[0] == other[0] else 0.0
    longer = max(len(one), len(other))
    changed = OSA.distance(one, other, score_cutoff=max_changed_letters(longer))
    if changed > max_changed_letters(longer) or (changed > 1 and one[0] != other[0]):
        return 0.0
    alike = JaroWinkler.similarity(one, other)
    # One slip leaves all letters but one, also of a name that is short.
    slip = 1 - 1 / longer if changed == 1 else 0.0
    return max(slip, alike if alike >= SAME_WORD else 0.0)


def max_changed_letters(longer: int) -> int:
    """How many letters may differ between a word of so many letters and another that
    is no longer."""
    return max(1, int(longer * (1 - SAME_LETTERS) + 1e-9))


def _years_apart(birth: str, listed: str) -> int:
    """0 where the year of birth is, or lies within, the one that is listed."""
    year = int(birth[:4])
    first, _, last = listed.partition("/")
    low, high = int(first[:4]), int((last or first)[:4])
    return max(low - year, year - high, 0)
