"""Whether two people wrote the same employer, or the same job, in their own way.

Case, accents, punctuation, the order of words, legal forms of companies and usual
abbreviations make no difference, and neither does one slip in a long word. And whether
a register has somebody under the name that was stated: `names_alike`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from difflib import SequenceMatcher
from enum import IntEnum
from itertools import pairwise
from typing import Literal

from rapidfuzz.distance import OSA

Likeness = Literal["MATCH", "PARTIAL_MATCH", "NO_MATCH"]

LEGAL_FORMS = frozenset(
    {"limited", "ltd", "plc", "llc", "llp", "inc", "incorporated", "company", "co"}
    | {"corporation", "corp", "gmbh", "the", "and"}
)
SHORT_FORMS = {
    "sr": "senior",
    "snr": "senior",
    "jr": "junior",
    "jnr": "junior",
    "mgr": "manager",
    "asst": "assistant",
    "hr": "human resources",
    "it": "information technology",
    "ceo": "chief executive officer",
    "cfo": "chief financial officer",
}
SMALL_WORDS = frozenset({"of", "the", "and", "for", "in"})
TITLES = frozenset(
    {"mr", "mrs", "ms", "miss", "dr", "prof", "eng", "hon", "rev", "sir", "fr", "sr"}
)
# Between names, and left out as often as not.
PARTICLES = frozenset({"wa", "ole", "arap", "bin", "bint", "binti", "al", "el", "ibn"})
# One name that everybody writes otherwise; more than letters that sound alike.
SPELLINGS = {
    **dict.fromkeys(["muhamad", "mohamad", "muhamed", "mohd"], "mohamed"),
    **dict.fromkeys(["husein", "hussain", "husain"], "hussein"),
    "abdilahi": "abdulahi",
}
# Below this many letters a slip makes another word of most: "sales" and "dales".
LONG_WORD = 6
VOWELS = frozenset("aeiou")
ALIKE = 0.85


def employers_alike(stated: str, given: str) -> Likeness:
    """PARTIAL_MATCH where one name has all words of the other: a branch, a group."""
    ours, theirs = company_words(stated), company_words(given)
    if _same_words(ours, theirs):
        return "MATCH"
    shorter, longer = sorted([set(ours), set(theirs)], key=len)
    return "PARTIAL_MATCH" if shorter and shorter < longer else "NO_MATCH"


def jobs_alike(stated: str, given: str) -> Likeness:
    """Never partial: a word more makes a senior or an assistant of somebody."""
    return "MATCH" if _same_words(_job(stated), _job(given)) else "NO_MATCH"


class _Fit(IntEnum):
    """How well two words of names go together."""

    NOT = 0
    # As far as an initial, or a mask that hides all but one, can show.
    INITIAL = 1
    SLIP = 2
    SAME = 3


def names_alike(stated: str | None, given: str | None) -> Likeness | None:
    """Whether `given`, a register's, is the name of the person that is `stated`.

    The order of words, accents, titles, particles and usual spellings make no
    difference. PARTIAL_MATCH where all that can be seen of one name is in the other,
    and some is missing: names left out, initials, masks that show a letter, one slip.
    One name in common is nothing: brothers have two.
    """
    ours, theirs = person_words(stated or ""), person_words(given or "")
    # Where all of it is hidden there is nothing to compare.
    if not ours or not "".join(theirs).strip("*"):
        return None
    verdicts = [
        _people_alike(without_particles(ours), without_particles(theirs)),
        *(
            _people_alike(mine, without_particles(theirs), joined=True)
            for mine in _joined(ours)
        ),
        *(
            _people_alike(without_particles(ours), other, joined=True)
            for other in _joined(theirs)
        ),
    ]
    return max(verdicts, key=["NO_MATCH", "PARTIAL_MATCH", "MATCH"].index)


def companies_alike(stated: str | None, given: str | None) -> Likeness | None:
    """The same of companies, whose names may be masked as well."""
    if not stated or not given:
        return None
    if "*" in given:
        visible = [word for word in company_words(given) if not _hides_legal_form(word)]
        return _people_alike(company_words(stated), visible)
    return employers_alike(stated, given)


def person_words(name: str) -> list[str]:
    """A person's names as they are compared: without titles, in plain letters."""
    # Unlike those of companies, initials are words: "J.W. Kamau".
    parted = re.sub(r"[`\u00b4\u2018\u02bc]", "'", name).replace(".", " ")
    return [word for word in words_of(parted) if word not in TITLES]


def without_particles(words: list[str]) -> list[str]:
    return [word for word in words if word not in PARTICLES] or words


def spelt(word: str) -> str:
    """So that usual spellings of a name are one."""
    single = re.sub(r"(.)\1+", r"\1", word.replace("ph", "f").replace("y", "i"))
    return SPELLINGS.get(single, single)


def _joined(words: list[str]) -> Iterator[list[str]]:
    """With two neighbours as one: "Abdi Rahman" is "Abdirahman"."""
    for i, (word, following) in enumerate(pairwise(words)):
        if len(word) > 1 and len(following) > 1 and "*" not in word + following:
            yield without_particles([*words[:i], word + following, *words[i + 2 :]])


def _people_alike(
    ours: list[str], theirs: list[str], *, joined: bool = False
) -> Likeness:
    fewer, more = sorted([ours, theirs], key=len)
    fits = _pairs(fewer, more)
    # Two names made one are so long that one letter proves nothing.
    if _Fit.NOT in fits or (joined and _Fit.SLIP in fits):
        return "NO_MATCH"
    if len(fewer) == len(more) and set(fits) == {_Fit.SAME}:
        return "MATCH"
    # What the register hides is no doubt of ours; initials alone prove nothing.
    seen = sum(fit > _Fit.INITIAL for fit in fits)
    masked = all("*" in word for word in theirs) and len(ours) == len(theirs)
    enough = seen and len(fewer) > 1 and fits.count(_Fit.SLIP) < 2
    return "PARTIAL_MATCH" if enough or masked else "NO_MATCH"


def _pairs(fewer: list[str], more: list[str]) -> list[_Fit]:
    """The best fit for each of `fewer`, the surest first; a word is used once."""
    left, fits = list(more), []
    waiting = list(fewer)
    while waiting:
        fit, mine, other = max(
            ((_fit(a, b), a, b) for a in waiting for b in left), key=lambda t: t[0]
        )
        fits.append(fit)
        waiting.remove(mine)
        left.remove(other)
    return fits


def _fit(ours: str, theirs: str) -> _Fit:
    if "*" in ours + theirs:
        return _masked_fit(*sorted([ours, theirs], key=lambda word: "*" in word))
    ours, theirs = spelt(ours), spelt(theirs)
    if ours == theirs:
        return _Fit.SAME
    if min(len(ours), len(theirs)) == 1:
        return _Fit.INITIAL if ours[0] == theirs[0] else _Fit.NOT
    return _Fit.SLIP if _is_slip(ours, theirs) else _Fit.NOT


def _masked_fit(word: str, mask: str) -> _Fit:
    """Stars stand for any number of letters: not all sources print one for each."""
    pattern = ".*".join(re.escape(part) for part in re.split(r"\*+", mask))
    if "*" in word or not re.fullmatch(pattern, word):
        return _Fit.NOT
    return _Fit.SAME if len(mask.replace("*", "")) > 1 else _Fit.INITIAL


def _hides_legal_form(word: str) -> bool:
    return "*" in word and any(
        _masked_fit(form, word) == _Fit.SAME for form in LEGAL_FORMS
    )


def _is_slip(ours: str, theirs: str) -> bool:
    """One letter too many or swapped, or another vowel, inside a long word.

    Not another consonant, and not at either end: Wanjiku and Wanjiru, Otieno and
    Atieno, Njeri and Njeru are different people.
    """
    if min(len(ours), len(theirs)) < LONG_WORD or OSA.distance(ours, theirs) != 1:
        return False
    if ours[0] != theirs[0] or ours[-1] != theirs[-1]:
        return False
    if len(ours) != len(theirs):
        return True
    changed = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    # Two of them are a swap.
    return len(changed) > 1 or {*changed[0]} <= VOWELS


def company_words(name: str) -> list[str]:
    """A company's name as it is compared: without its legal form."""
    words = words_of(name)
    # One whose name is nothing else ("The Company Ltd") keeps it.
    return [word for word in words if word not in LEGAL_FORMS] or words


def _job(title: str) -> list[str]:
    written_out = " ".join(SHORT_FORMS.get(word, word) for word in words_of(title))
    words = written_out.split()
    return [word for word in words if word not in SMALL_WORDS] or words


def words_of(text: str) -> list[str]:
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(c for c in decomposed if not unicodedata.combining(c))
    # "A.B.C. Traders", "Wanjiku's" and "Coca-Cola" as others write them.
    joined = re.sub(r"(?<=\w)[.'\u2019](?=\w)", "", plain)
    return re.findall(r"[\w*]+", joined)


def _same_words(ours: list[str], theirs: list[str]) -> bool:
    if len(ours) != len(theirs):
        # "Data base administrator" and "database administrator"
        return bool(ours) and "".join(ours) == "".join(theirs)
    return all(map(_same_word, sorted(ours), sorted(theirs)))


def _same_word(ours: str, theirs: str) -> bool:
    if ours == theirs:
        return True
    if min(len(ours), len(theirs)) < LONG_WORD or not (ours + theirs).isalpha():
        return False
    return SequenceMatcher(None, ours, theirs, autojunk=False).ratio() >= ALIKE
