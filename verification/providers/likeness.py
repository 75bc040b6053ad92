"""Whether two people wrote the same employer, or the same job, in their own way.

Case, accents, punctuation, the order of words, legal forms of companies and usual
abbreviations make no difference, and neither does one slip in a long word.
"""

from __future__ import annotations

import re
import unicodedata
from difflib import SequenceMatcher
from typing import Literal

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
# Below this many letters a slip makes another word of most: "sales" and "dales".
LONG_WORD = 6
ALIKE = 0.85


def employers_alike(stated: str, given: str) -> Likeness:
    """PARTIAL_MATCH where one name has all words of the other: a branch, a group."""
    ours, theirs = _employer(stated), _employer(given)
    if _same_words(ours, theirs):
        return "MATCH"
    shorter, longer = sorted([set(ours), set(theirs)], key=len)
    return "PARTIAL_MATCH" if shorter and shorter < longer else "NO_MATCH"


def jobs_alike(stated: str, given: str) -> Likeness:
    """Never partial: a word more makes a senior or an assistant of somebody."""
    return "MATCH" if _same_words(_job(stated), _job(given)) else "NO_MATCH"


def _employer(name: str) -> list[str]:
    words = _words(name)
    # One whose name is nothing else ("The Company Ltd") keeps it.
    return [word for word in words if word not in LEGAL_FORMS] or words


def _job(title: str) -> list[str]:
    written_out = " ".join(SHORT_FORMS.get(word, word) for word in _words(title))
    words = written_out.split()
    return [word for word in words if word not in SMALL_WORDS] or words


def _words(text: str) -> list[str]:
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(c for c in decomposed if not unicodedata.combining(c))
    # "A.B.C. Traders", "Wanjiku's" and "Coca-Cola" as others write them.
    joined = re.sub(r"(?<=\w)[.'\u2019](?=\w)", "", plain)
    return re.findall(r"\w+", joined)


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
