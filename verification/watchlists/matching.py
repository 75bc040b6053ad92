"""Score how similar a subject and an entry of a list are, from 0 to 1.

Lists and clients spell names in many ways. The score therefore ignores the order of
words, uses one spelling for each name, and compares letters. Another date of birth or
another country lowers it. A company's rare words weigh more than "Trading", which many
companies of a list have. docs/client/checks.md has the rules and their figures.

`names_score` compares two names. `name_index.py` finds the entries with a high score
without comparing all of them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from rapidfuzz.distance import OSA, JaroWinkler

from verification.providers.name_comparison import (
    ALSO_NAMED,
    FORMS_ABROAD,
    HOME,
    company_words,
    normalize_spelling,
    person_words,
    without_particles,
)

# Least likeness of two words, and the least share of letters in common: "Kamau" only
# begins like "Kamande". Words with different first letters may differ by one slip.
SAME_WORD, SAME_LETTERS = 0.86, 0.7
# Loss for each word that only one name has, and the most for all such words.
MISSING, MOST_MISSING = 0.05, 0.15
# One name in common proves little.
SINGLE = 0.6
INITIAL = 0.4
SAME_BIRTH, OTHER_YEAR, NEXT_YEAR, OTHER_COUNTRY = 0.1, 0.6, 0.85, 0.05
# A listed date that cannot be read: every birth is in it.
ANY_YEAR = "0000/9999"

# Marks two words of a name written as one. They fit that one word alone, and without
# it the other name is compared with the two words.
JOINED = "+"
# Letters of other alphabets that are written in several ways: Aleksandr and Alexander,
# Khalaf and Qalaf, Gaddafi and Gadhafi.
WRITTEN = {"x": "ks", "q": "k", "kh": "k", "gh": "g", "dh": "d"}
_WRITTEN = re.compile("|".join(WRITTEN))
_HAN = re.compile("[\u3400-\u9fff]")

# Stated word -> listed word -> likeness. A missing pair has likeness 0.
WordScores = Mapping[str, Mapping[str, float]]
# Word -> how much it tells of a company.
Weight = Callable[[str], float]


# The names of a list repeat many words.
@lru_cache(20_000)
def _spelt(word: str) -> str:
    return _WRITTEN.sub(lambda found: WRITTEN[found[0]], normalize_spelling(word))


# What a company of Kenya may add to the name of its owner abroad.
HOME_WORDS = frozenset(
    map(_spelt, HOME | {"ea", "east", "eastern", "africa", "african"})
)


def words_of(name: str, *, is_company: bool) -> list[str]:
    if is_company:
        # Chinese has no spaces: each character is a word.
        words = company_words(_HAN.sub(r" \g<0> ", name))
        found = [word for word in words if word not in FORMS_ABROAD] or words
    else:
        found = without_particles(person_words(name))
    return [_spelt(word) for word in found]


def stated_words(name: str, *, is_company: bool) -> list[list[str]]:
    """Return the words of a name in each form to search.

    One form keeps particles: "Al Hassan" may be a slip of "Ali Hassan". A company that
    is named twice, "Juma Ali t/a Mfano Traders", has a form of each name.
    """
    usual = words_of(name, is_company=is_company)
    if is_company:
        parts = [words_of(part, is_company=True) for part in ALSO_NAMED.split(name)]
        return list(filter(None, [usual, *parts] if parts[1:] else [usual]))
    if not usual:
        return []
    whole = [_spelt(word) for word in person_words(name)]
    return [usual, *([whole] if usual != whole else []), *_joined(name)]


def comparable_names(names: Iterable[str], *, is_company: bool) -> list[str]:
    """Return the names in each form of comparison, each once and none empty."""
    found = [
        " ".join(words)
        for name in names
        for words in [
            words_of(name, is_company=is_company),
            *([] if is_company else _joined(name)),
        ]
    ]
    return list(dict.fromkeys(filter(None, found)))


def _joined(name: str) -> Iterator[list[str]]:
    """Yield the words with neighbours joined: "Abu Bakr" may be "Abubakar"."""
    words = person_words(name)
    for i, (word, following) in enumerate(pairwise(words)):
        if len(word) > 1 and len(following) > 1:
            others = without_particles([*words[:i], *words[i + 2 :]])
            ones = map(_spelt, [word + following, _spelt(word) + _spelt(following)])
            for one in dict.fromkeys(ones):
                yield [JOINED + one, *map(_spelt, others)]


def _equally(word: str) -> float:
    return 1.0


def names_score(
    stated: str, listed: Iterable[str], *, is_company: bool, weight: Weight = _equally
) -> float:
    """Return the best score over an entry's names, which come from comparable_names."""
    return max(
        (
            companies_score(ours, theirs, weight)
            if is_company
            else people_score(ours, theirs)
            for ours in stated_words(stated, is_company=is_company)
            for theirs in map(str.split, listed)
        ),
        default=0.0,
    )


def most_similar_name(
    stated: str, names: Iterable[str], *, is_company: bool, weight: Weight = _equally
) -> str:
    """Return the first of the most similar names."""

    def score(name: str) -> float:
        listed = comparable_names([name], is_company=is_company)
        return names_score(stated, listed, is_company=is_company, weight=weight)

    return max(names, key=score)


def score_entry(
    score: float,
    *,
    birth: str | None,
    births: Sequence[str],
    country: str | None,
    countries: Sequence[str],
) -> float:
    """Adjust the score of the names by date of birth and country."""
    if birth and births:
        apart = min(_years_apart(birth, each) for each in births)
        # 1 January may stand for a year alone.
        if birth in births and not birth.endswith("-01-01"):
            score += SAME_BIRTH
        elif apart:
            score *= NEXT_YEAR if apart == 1 else OTHER_YEAR
    if country and countries and country not in countries:
        score -= OTHER_COUNTRY
    return max(0.0, min(1.0, score))


def people_score(
    ours: Sequence[str], theirs: Sequence[str], alike: WordScores | None = None
) -> float:
    """Compare the words of a stated name with those of a listed one, none empty.

    `alike` holds likenesses of their words that are computed already.
    """
    if alike is None:
        alike = {one: {each: words_alike(one, each) for each in theirs} for one in ours}
    is_ours = len(ours) <= len(theirs)
    fewer, more = (ours, theirs) if is_ours else (theirs, ours)
    unpaired, total, weight, common = list(more), 0.0, 0, 0
    for word in sorted(fewer, key=len, reverse=True):
        best, other = 0.0, ""
        for each in unpaired:
            likeness = alike[word].get(each) if is_ours else alike[each].get(word)
            if likeness and (likeness, each) > (best, other):
                best, other = likeness, each
        # The longer word of a pair gives the weight, so that an initial is little.
        weight += max(len(word), len(other))
        if best:
            total += best * max(len(word), len(other))
            unpaired.remove(other)
            common += 1
        elif word[0] == JOINED:
            return 0.0
    if not common or any(word[0] == JOINED for word in unpaired):
        return 0.0
    score = total / weight
    if common == 1 < len(more):
        return score * SINGLE
    return score - min((len(more) - len(fewer)) * MISSING, MOST_MISSING)


def companies_score(
    ours: Sequence[str],
    theirs: Sequence[str],
    weight: Weight,
    alike: WordScores | None = None,
) -> float:
    """Return the mean of two shares: of each name's weight, what the other one has.

    `alike` holds likenesses of their words that are computed already.
    """
    if alike is None:
        alike = {
            one: {each: letters_alike(one, each) for each in theirs} for one in ours
        }
    left, others = _weighed(ours, theirs, weight), _weighed(theirs, ours, weight)
    pairs = [
        (likeness, min(left[i][1], others[j][1]), i, j)
        for i, (word, _) in left.items()
        for j, (each, _) in others.items()
        if (likeness := float(word == each) or alike.get(word, {}).get(each))
    ]
    common = paired = 0.0
    for likeness, least, i, j in sorted(pairs, reverse=True):
        if i in left and j in others:
            del left[i], others[j]
            common += likeness * least
            paired += least
    if not paired:
        return 0.0
    rests = [sum(weight for _, weight in rest.values()) for rest in (left, others)]
    return sum(common / (paired + rest) for rest in rests) / 2


def _weighed(
    words: Sequence[str], others: Sequence[str], weight: Weight
) -> dict[int, tuple[str, float]]:
    """Return the words and their weights; "Sber Bank" is one word if `others` has it.

    Two words as one have the weight of both.
    """
    found: dict[int, tuple[str, float]] = {}
    joined = False
    for i, word in enumerate(words):
        following = words[i + 1] if i + 1 < len(words) else ""
        if joined:
            joined = False
        elif following and (one := as_one(word, following)) in others:
            found[i] = one, weight(word) + weight(following)
            joined = True
        else:
            found[i] = word, weight(word)
    return found


def as_one(word: str, following: str) -> str:
    """Return two words as one, spelt as _spelt does: no letter stands twice."""
    return word + following[word[-1] == following[0] :]


def letters_alike(one: str, other: str) -> float:
    """Return the share of letters in common of two similar words, else 0.

    A slip in a short word of a company is often another word: Simba and Sima.
    """
    if one == other or min(len(one), len(other)) == 1 or not words_alike(one, other):
        return float(one == other)
    return OSA.normalized_similarity(one, other)


def words_alike(one: str, other: str) -> float:
    if JOINED in {one[0], other[0]}:
        return float(JOINED + one == other or JOINED + other == one)
    if one == other:
        return 1.0
    if min(len(one), len(other)) == 1:
        return INITIAL if one[0] == other[0] else 0.0
    longer = max(len(one), len(other))
    changed = OSA.distance(one, other, score_cutoff=max_changed_letters(longer))
    if changed > max_changed_letters(longer) or (changed > 1 and one[0] != other[0]):
        return 0.0
    alike = JaroWinkler.similarity(one, other)
    # One slip leaves all letters but one, in short names as well.
    slip = 1 - 1 / longer if changed == 1 else 0.0
    return max(slip, alike if alike >= SAME_WORD else 0.0)


def max_changed_letters(longer: int) -> int:
    """Return how many letters may differ, for the length of the longer word."""
    return max(1, int(longer * (1 - SAME_LETTERS) + 1e-9))


def _years_apart(birth: str, listed: str) -> int:
    """Return the distance in years; 0 if the listed year or span has the birth."""
    year = int(birth[:4])
    first, _, last = listed.partition("/")
    low, high = int(first[:4]), int((last or first)[:4])
    return max(low - year, year - high, 0)
