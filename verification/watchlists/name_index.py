"""Keep the names of an edition in memory, so that a search compares few of them.

    get_name_index(edition, EntryKind.PERSON).search("Jane Kamau", 0.7)  # {id: score}

A search finds exactly the entries for which `matching.names_score` is high enough. Each
process keeps the current editions, about 3 KB for each entry.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from math import log
from sys import intern
from uuid import UUID

from rapidfuzz.distance import OSA
from rapidfuzz.process import extract

from verification.watchlists.matching import (
    HOME_WORDS,
    JOINED,
    SINGLE,
    WordScores,
    as_one,
    companies_score,
    comparable_names,
    letters_alike,
    max_changed_letters,
    most_similar_name,
    people_score,
    stated_words,
    words_alike,
)
from verification.watchlists.models import Edition, EntryKind

# Margin for floating point, and for scores close to SINGLE.
CLOSE = 0.001
# Share of its weight that a word of Kenya or East Africa has.
HOME_SHARE = 0.25
# Number of stated words whose similar words are cached.
CACHE_SIZE = 20_000


class EditionReplaced(Exception):
    """A newer edition has replaced this one, and its entries are gone."""


class Vocabulary:
    """Finds the words of an edition that resemble a stated one."""

    def __init__(
        self, words: Iterable[str], likeness: Callable[[str, str], float]
    ) -> None:
        self._words, self._likeness = frozenset(words), likeness
        # First letter and length -> words; all but the first letter -> words.
        self._alphabetical: dict[str, dict[int, list[str]]] = {}
        self._by_rest: dict[str, list[str]] = {}
        for word in self._words:
            if word[0] == JOINED:
                continue
            by_length = self._alphabetical.setdefault(word[0], {})
            by_length.setdefault(len(word), []).append(word)
            self._by_rest.setdefault(word[1:], []).append(word)
        self._remembered: dict[str, dict[str, float]] = {}

    def alike(self, word: str) -> dict[str, float]:
        """Return the words that resemble this one, and how much."""
        found = self._remembered.get(word)
        if found is None:
            likeness = self._likeness
            near = self._near(word)
            found = {each: score for each in near if (score := likeness(word, each))}
            if len(self._remembered) >= CACHE_SIZE:
                self._remembered.clear()
            self._remembered[word] = found
        return found

    def _near(self, word: str) -> Iterator[str]:
        """Yield all words for which `words_alike` may be above 0."""
        # Two words written as one; the way back leaves out its first letter.
        if JOINED + word in self._words:
            yield JOINED + word
        for length, words in self._alphabetical.get(word[0], {}).items():
            most = max_changed_letters(max(length, len(word)))
            if min(length, len(word)) == 1:
                yield from words
            elif abs(length - len(word)) <= most:
                near = extract(
                    word, words, scorer=OSA.distance, score_cutoff=most, limit=None
                )
                yield from (each for each, _, _ in near)
        # The first letter may be changed, left out, added or swapped.
        for rest in (word[1:], word):
            yield from self._by_rest.get(rest, ())
        for each in (word[1:], word[1:2] + word[:1] + word[2:]):
            if each in self._words:
                yield each


class PersonNameIndex:
    """Compares names that share two words with the stated one.

    A name of one word needs one common word.
    """

    def __init__(self, entries: Iterable[tuple[int, Sequence[str]]]) -> None:
        self._names, self._entries = _places(entries, is_company=False)
        self._single = {at for at, words in enumerate(self._names) if len(words) == 1}
        self._having: dict[str, list[int]] = {}
        for place, words in enumerate(self._names):
            # A name with two words as one is found by that word alone.
            for word in words[:1] if words[0][0] == JOINED else set(words):
                self._having.setdefault(word, []).append(place)
        self._vocabulary = Vocabulary(self._having, words_alike)

    def search(self, stated: str, least: float) -> dict[int, float]:
        """Return the entries with a score of at least `least`, and their scores."""
        found: dict[int, float] = {}
        for ours in stated_words(stated, is_company=False):
            alike = {word: self._vocabulary.alike(word) for word in ours}
            for place in self._candidates(ours, alike, least):
                score = people_score(ours, self._names[place], alike)
                if score < least:
                    continue
                for entry in self._entries[place]:
                    found[entry] = max(score, found.get(entry, 0.0))
        return found

    def most_similar(self, stated: str, names: Iterable[str]) -> str:
        return most_similar_name(stated, names, is_company=False)

    def _candidates(self, ours: list[str], alike: WordScores, least: float) -> set[int]:
        joined = {
            place
            for word in ours
            for each in alike[word]
            if JOINED in {word[0], each[0]}
            for place in self._having[each]
        }
        if ours[0][0] == JOINED:
            return joined
        once: set[int] = set()
        twice: set[int] = set()
        for word in ours:
            places = set(chain.from_iterable(self._having[w] for w in alike[word]))
            twice |= once & places
            once |= places
        # If one word of several is common, the score stays below SINGLE; only a name of
        # one word reaches it.
        if least <= SINGLE - CLOSE or (len(ours) == 1 and least <= SINGLE + CLOSE):
            return once
        return twice | (once & self._single) | joined


class CompanyNameIndex:
    """Compares names that share words of enough weight with the stated one."""

    def __init__(self, entries: Iterable[tuple[int, Sequence[str]]]) -> None:
        self._names, self._entries = _places(entries, is_company=True)
        self._having: dict[str, list[int]] = {}
        # Two neighbours written as one -> names.
        self._joined: dict[str, list[int]] = {}
        having: dict[str, set[int]] = {}
        for place, words in enumerate(self._names):
            for word in set(words):
                self._having.setdefault(word, []).append(place)
                having.setdefault(word, set()).update(self._entries[place])
            for word, following in pairwise(words):
                self._joined.setdefault(as_one(word, following), []).append(place)
        count = len(set(chain.from_iterable(self._entries)))
        # An unknown word weighs as if half an entry had it: one of two words is too
        # little for a hit.
        self._unknown = log((count + 1) / 0.5)
        self._weights = {
            word: log((count + 1) / len(found)) for word, found in having.items()
        }
        for word in HOME_WORDS:
            self._weights[word] = HOME_SHARE * self.weight(word)
        self._vocabulary = Vocabulary(self._having, letters_alike)

    def weight(self, word: str) -> float:
        """Return a weight that falls with the number of entries that have the word."""
        return self._weights.get(word, self._unknown)

    def search(self, stated: str, least: float) -> dict[int, float]:
        """Return the entries with a score of at least `least`, and their scores."""
        found: dict[int, float] = {}
        for ours in stated_words(stated, is_company=True):
            alike = {word: self._vocabulary.alike(word) for word in ours}
            for place in self._candidates(ours, alike, least):
                score = companies_score(ours, self._names[place], self.weight, alike)
                if score < least:
                    continue
                for entry in self._entries[place]:
                    found[entry] = max(score, found.get(entry, 0.0))
        return found

    def most_similar(self, stated: str, names: Iterable[str]) -> str:
        return most_similar_name(stated, names, is_company=True, weight=self.weight)

    def _candidates(self, ours: list[str], alike: WordScores, least: float) -> set[int]:
        places = {
            place
            for word, following in pairwise(ours)
            for place in self._having.get(as_one(word, following), ())
        }
        # The other share is 1 at most, so that this one is at least so much. Names with
        # only the commonest words fall short of it.
        spare = (2 * least - 1 - CLOSE) * sum(map(self.weight, ours))
        for word in sorted(ours, key=self.weight):
            spare -= self.weight(word)
            if spare < 0:
                places.update(self._joined.get(word, ()))
                places.update(chain.from_iterable(self._having[w] for w in alike[word]))
        return places


def _places(
    entries: Iterable[tuple[int, Sequence[str]]], *, is_company: bool
) -> tuple[list[tuple[str, ...]], list[list[int]]]:
    """Return each name once, and the entries of each: many may share a name."""
    of: dict[str, list[int]] = {}
    for entry, names in entries:
        for name in comparable_names(names, is_company=is_company):
            of.setdefault(name, []).append(entry)
    return [tuple(map(intern, name.split())) for name in of], list(of.values())


NameIndex = PersonNameIndex | CompanyNameIndex
# Edition -> kind of entry -> their names.
_indexes: dict[UUID, dict[str, NameIndex]] = {}


def get_name_index(edition: Edition, kind: EntryKind) -> NameIndex:
    """Return the names of an edition. Raises EditionReplaced if it is not current."""
    found = _indexes.get(edition.pk)
    if found is None:
        _drop_replaced()
        # Another thread may drop it again at once.
        found = _indexes[edition.pk] = _build_indexes(edition)
    return found[kind]


def _drop_replaced() -> None:
    current = set(Edition.objects.filter(is_current=True).values_list("pk", flat=True))
    for pk in set(_indexes) - current:
        _indexes.pop(pk, None)


def _build_indexes(edition: Edition) -> dict[str, NameIndex]:
    rows = list(edition.entries.values_list("kind", "pk", "names"))
    if len(rows) != edition.entry_count:
        raise EditionReplaced
    of: dict[str, list[tuple[int, Sequence[str]]]] = {kind: [] for kind in EntryKind}
    for kind, pk, names in rows:
        of[kind].append((pk, names))
    return {
        EntryKind.PERSON: PersonNameIndex(of[EntryKind.PERSON]),
        EntryKind.COMPANY: CompanyNameIndex(of[EntryKind.COMPANY]),
    }
