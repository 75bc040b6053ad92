"""Compare names: whether two people wrote the same person, company, employer or job.

`compare_people` and `compare_companies` say how alike two names are, why, and how
strong that is. `names.toml` holds the words that they know; docs/engineer/matching.md
explains the rules and shows how often they are right. Raise VERSION when a verdict
can change.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import IntEnum, StrEnum
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Literal

from rapidfuzz.distance import OSA

from verification.values.public_text import APOSTROPHES

VERSION = "4"

Likeness = Literal["MATCH", "PARTIAL_MATCH", "NO_MATCH"]

_TABLE: dict[str, Any] = tomllib.loads(
    (Path(__file__).parent / "names.toml").read_text("utf-8")
)


class Reason(StrEnum):
    """The reason for the likeness of two names."""

    SAME = "SAME"
    # Both names have the same words in different order.
    OTHER_ORDER = "OTHER_ORDER"
    # Usual spellings or short forms of the same words.
    OTHER_SPELLING = "OTHER_SPELLING"
    # One name has words that the other leaves out.
    WORDS_LEFT_OUT = "WORDS_LEFT_OUT"
    INITIALS = "INITIALS"
    # One word differs as by a slip of the hand.
    SLIP = "SLIP"
    # The source hides letters.
    MASKED = "MASKED"
    DIFFERENT = "DIFFERENT"


# Strength of each reason, 0 to 100.
STRENGTHS = {
    Reason.SAME: 100,
    Reason.OTHER_ORDER: 95,
    Reason.OTHER_SPELLING: 90,
    Reason.WORDS_LEFT_OUT: 70,
    Reason.SLIP: 60,
    Reason.INITIALS: 50,
    Reason.MASKED: 40,
    Reason.DIFFERENT: 0,
}
WHOLE = {Reason.SAME, Reason.OTHER_ORDER, Reason.OTHER_SPELLING}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two names compared. `strength` is 0 to 100."""

    likeness: Likeness
    reason: Reason
    strength: int

    def as_evidence(self) -> dict[str, Any]:
        return {
            "matcherVersion": VERSION,
            "likeness": self.likeness,
            "reason": self.reason.value,
            "strength": self.strength,
        }


def _compared(*reasons: Reason, partial: bool = False) -> Comparison:
    """Make the comparison. The weakest reason decides; `partial` allows no MATCH."""
    weakest = min(reasons, key=STRENGTHS.__getitem__)
    likeness: Likeness = "PARTIAL_MATCH"
    if weakest == Reason.DIFFERENT:
        likeness = "NO_MATCH"
    elif weakest in WHOLE and not partial:
        likeness = "MATCH"
    return Comparison(likeness, weakest, STRENGTHS[weakest])


SAME, DIFFERENT = _compared(Reason.SAME), _compared(Reason.DIFFERENT)

# Shorter words become other words by one slip: "sales" and "dales".
LONG_WORD = 6
# Shorter names become other names by one letter: Mate and Mathe.
SHORT_WORD = 5
VOWELS = frozenset("aeiou")
# The most words that one of two names of people may have more than the other.
MOST_LEFT_OUT = 3
# Pairing the words of longer names would take up to a minute.
MOST_WORDS = 12
MOST_FIRM_WORDS = 50
# The least likeness of two words of job titles.
ALIKE = 0.85
SHORT_FORMS = {
    "sr": "senior",
    "snr": "senior",
    "jr": "junior",
    "jnr": "junior",
    "mgr": "manager",
    "mgt": "management",
    "asst": "assistant",
    "acct": "accountant",
    "administrative": "admin",
    "administrator": "admin",
    "dep": "deputy",
    "exec": "executive",
    "ops": "operations",
    "rep": "representative",
    "sec": "secretary",
    "hr": "human resources",
    "it": "information technology",
    "ict": "information technology",
    "hod": "head of department",
    "pa": "personal assistant",
    "gm": "general manager",
    "md": "managing director",
    "ceo": "chief executive officer",
    "cfo": "chief financial officer",
    "coo": "chief operating officer",
}
SMALL_WORDS = frozenset({"of", "the", "and", "for", "in"})
# "Abd al-Rahman" and "Abdur Rahman" are "Abdul Rahman".
ABD = re.compile(r"\babd( [aeu][lr]|u[rs])?(?= )")
# "Ng'ang'a" without its apostrophes; two parts are joined anyway.
NGANGA = re.compile(r"\bng ang a\b")
# Between two names of one company
ALSO_NAMED = re.compile(
    r"(?<=[\s(])(?:t/a|d/b/a|a/k/a|aka|a\.k\.a\.?|(?:trading|known) as|formerly)(?=\s)",
    re.IGNORECASE,
)
# Letters that Unicode does not decompose into a letter and an accent.
LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe"}
    | {"\u0131": "i", "ħ": "h", "ŋ": "ng", "ß": "ss"}
)


def _words(key: str) -> frozenset[str]:
    return frozenset(_TABLE[key].split())


TITLES, PARTICLES = _words("titles"), _words("particles")
HOME, PLACES, PARTS, TRADES = map(_words, ("home", "places", "parts", "trades"))
LEGAL_FORMS = _words("legal_forms") | {"the", "and"}
FORMS_ABROAD = _words("forms_abroad")
FILLERS = _words("fillers")


# Names that may be the same person's
ACCEPTED_LIKENESSES = {"MATCH", "PARTIAL_MATCH"}


def names_alike(stated: str | None, given: str | None) -> Likeness | None:
    compared = compare_people(stated, given)
    return compared.likeness if compared else None


def companies_alike(stated: str | None, given: str | None) -> Likeness | None:
    compared = compare_companies(stated, given)
    return compared.likeness if compared else None


# --- People ---


class _Fit(IntEnum):
    """The likeness of two words of names."""

    NOT = 0
    # One word is an initial, or a mask that shows one letter, and fits the other.
    INITIAL = 1
    SLIP = 2
    SPELT = 3
    SAME = 4


REASONS = {
    _Fit.INITIAL: Reason.INITIALS,
    _Fit.SLIP: Reason.SLIP,
    _Fit.SPELT: Reason.OTHER_SPELLING,
    _Fit.SAME: Reason.SAME,
}


def compare_people(stated: str | None, given: str | None) -> Comparison | None:
    """Compare a stated name with a register's; return None if either is blank.

    The order of words, accents, titles, particles and usual spellings make no
    difference. The likeness is partial if one name contains the other and something is
    missing: omitted names, initials, masked letters, one slip. One name in common
    proves nothing: brothers have two.
    """
    ours, theirs = person_words(stated or ""), person_words(given or "")
    # The register may mask the whole name.
    if not ours or not "".join(theirs).strip("*"):
        return None
    mine, other = without_particles(ours), without_particles(theirs)
    found = [_people(mine, other)]
    # A mask would fit almost any two joined words.
    if "*" not in "".join(ours + theirs):
        found += [_people(each, other, joined=True) for each in _joined(ours)]
        found += [_people(mine, each, joined=True) for each in _joined(theirs)]
        if "".join(ours) == "".join(theirs):
            found.append(_compared(Reason.OTHER_SPELLING))
    return max(found, key=lambda each: (each.likeness == "MATCH", each.strength))


def person_words(name: str) -> list[str]:
    """Return the words of a person's name, in plain letters and without titles."""
    # Initials of people are words ("J.W. Kamau"); those of companies are not.
    parted = re.sub(f"[{APOSTROPHES}]", "'", name).replace(".", " ")
    words = " ".join(word for word in words_of(parted) if word not in TITLES)
    return ABD.sub("abdul", NGANGA.sub("nganga", words)).split()


def without_particles(words: list[str]) -> list[str]:
    return [word for word in words if word not in PARTICLES] or words


def normalize_spelling(word: str) -> str:
    """Return one spelling for all usual spellings of a name."""
    sounds = _sounds(word)
    return SPELLINGS.get(sounds, sounds)


def _sounds(word: str) -> str:
    return re.sub(r"(.)\1+", r"\1", word.replace("ph", "f").replace("y", "i"))


def _respell(word: str) -> str:
    """Return one spelling for names that are written by ear, known or not.

    "Noah" is "Noa", "Stacie" is "Stacy", "Vicky" is "Viki", "Naseem" is "Nasim" and
    "Mahmood" is "Mahmud".
    """
    for written, heard in (("ee", "i"), ("oo", "u"), ("ck", "k")):
        word = word.replace(written, heard)
    word = _sounds(word)
    return re.sub(r"(?<=[aeiou])h$|(?<=i)e$", "", word)


def _joined(words: list[str]) -> Iterator[list[str]]:
    """Yield the words with neighbours joined: "Abdi Rahman" is "Abdirahman"."""
    for i, (word, following) in enumerate(pairwise(words)):
        if len(word) > 1 and len(following) > 1:
            # "Fatma Zahra" may be "Fatmazahra" or "Fatumazahra".
            usual = normalize_spelling(word) + normalize_spelling(following)
            for one in dict.fromkeys([word + following, usual]):
                yield without_particles([*words[:i], one, *words[i + 2 :]])


def _people(ours: list[str], theirs: list[str], *, joined: bool = False) -> Comparison:
    fewer, more = sorted([ours, theirs], key=len)
    if len(more) > MOST_WORDS:
        return SAME if ours == theirs else DIFFERENT
    fits = _pairs(fewer, more)
    # A joined word is so long that a slip of one letter proves nothing.
    if _Fit.NOT in fits or (joined and _Fit.SLIP in fits):
        return DIFFERENT
    reasons = [REASONS[fit] for fit in fits]
    is_whole = len(fewer) == len(more)
    if not is_whole:
        reasons.append(Reason.WORDS_LEFT_OUT)
    elif joined:
        reasons.append(Reason.OTHER_SPELLING)
    elif [normalize_spelling(word) for word in ours] != [
        normalize_spelling(word) for word in theirs
    ]:
        reasons.append(Reason.OTHER_ORDER)
    hides = any("*" in word for word in ours + theirs)
    if hides:
        reasons.append(Reason.MASKED)
    if is_whole and min(fits) >= _Fit.SPELT:
        return _compared(*reasons)
    if len(more) - len(fewer) > MOST_LEFT_OUT:
        return DIFFERENT
    # Letters that the register masks raise no doubt; initials alone prove nothing.
    visible = sum(fit > _Fit.INITIAL for fit in fits)
    all_masked = all("*" in word for word in theirs) and is_whole
    enough = visible and len(fewer) > 1 and fits.count(_Fit.SLIP) < 2
    return _compared(*reasons) if enough or all_masked else DIFFERENT


def _pairs(fewer: list[str], more: list[str]) -> list[_Fit]:
    """Return the best fits, the surest first; each word has one partner."""
    unpaired, candidates = list(fewer), list(more)
    fits = []
    while unpaired:
        fit, mine, other = max(
            ((_fit(a, b), a, b) for a in unpaired for b in candidates),
            key=lambda t: t[0],
        )
        fits.append(fit)
        unpaired.remove(mine)
        candidates.remove(other)
    return fits


def _fit(ours: str, theirs: str) -> _Fit:
    if "*" in ours + theirs:
        return _masked_fit(*sorted([ours, theirs], key=lambda word: "*" in word))
    if ours == theirs:
        return _Fit.SAME
    mine, other = normalize_spelling(ours), normalize_spelling(theirs)
    if mine == other:
        return _Fit.SPELT
    if min(len(mine), len(other)) == 1:
        return _Fit.INITIAL if mine[0] == other[0] else _Fit.NOT
    if mine in KNOWN_PEOPLE and other in KNOWN_PEOPLE:
        return _Fit.NOT
    if _respell(ours) == _respell(theirs):
        return _Fit.SPELT
    # A slip may happen in any usual spelling: "Elizabteh" is no slip of "Elisabeth".
    is_long = min(len(ours), len(theirs)) >= LONG_WORD
    return (
        _Fit.SLIP
        if any(
            _is_variant(*sorted([a, b], key=len), is_long=is_long)
            for a in USUAL.get(mine, {ours, _sounds(ours)})
            for b in USUAL.get(other, {theirs, _sounds(theirs)})
        )
        else _Fit.NOT
    )


def _masked_fit(word: str, mask: str) -> _Fit:
    """Match a word with a mask; stars stand for any number of letters."""
    pattern = ".*".join(re.escape(part) for part in re.split(r"\*+", mask))
    if "*" in word or not re.fullmatch(pattern, word):
        return _Fit.NOT
    return _Fit.SAME if len(mask.replace("*", "")) > 1 else _Fit.INITIAL


def _is_variant(shorter: str, longer: str, *, is_long: bool) -> bool:
    """Return whether two spellings of names may be one name that is written otherwise.

    Names of five letters or more may differ by a silent h after a consonant, by c and
    k, and by a vowel that Kiswahili adds at the end: "Marta", "Klara", "Salimu". An a
    at the end makes a woman's name of a man's. Long names may differ by a slip, too.
    """
    if len(shorter) < SHORT_WORD:
        return False
    # The ch of "Gachau" is a sound of its own.
    if re.sub("c(?!h)", "k", shorter) == re.sub("c(?!h)", "k", longer):
        return True
    if OSA.distance(shorter, longer) != 1:
        return False
    if len(shorter) == len(longer):
        return is_long and _is_swap_or_vowel(shorter, longer)
    # The one letter that only the longer name has.
    at = next((i for i, c in enumerate(shorter) if c != longer[i]), len(shorter))
    letter, before = longer[at], longer[at - 1]
    if at == 0:
        return False
    if letter == "h" and before not in VOWELS and before not in "cs":
        return True
    if at == len(shorter) and letter in VOWELS:
        return letter != "a" and before not in VOWELS
    return is_long


def _is_swap_or_vowel(ours: str, theirs: str) -> bool:
    """Return whether two letters are swapped, or a vowel inside is another one."""
    changed = [
        i for i, pair in enumerate(zip(ours, theirs, strict=True)) if len({*pair}) > 1
    ]
    # Two changed letters are a swap.
    if len(changed) > 1:
        return True
    at = changed[0]
    return 0 < at < len(ours) - 1 and {ours[at], theirs[at]} <= VOWELS


# --- Companies ---


def compare_companies(stated: str | None, given: str | None) -> Comparison | None:
    """Compare a stated company name with a register's; return None if either is blank.

    Legal forms make no difference; the order of words does. If one side has two names
    ("Juma Ali t/a Mfano"), one suffices; if both have, both must agree. A trade or a
    place counts less than the company's own word: "Bata" is part of "Bata Shoe
    (Kenya)", but "Kenya" is no part of "Kenya Airways".
    """
    if not stated or not given:
        return None
    if "*" in stated + given:
        return _masked_companies(stated, given)
    ours, theirs = _firm_words(stated), _firm_words(given)
    if not ours or not theirs:
        return DIFFERENT
    if ours == theirs:
        same = company_words(stated) == company_words(given)
        return _compared(Reason.SAME if same else Reason.OTHER_SPELLING)
    # "Safari Com" and "Safaricom"
    if "".join(ours) == "".join(theirs):
        return _compared(Reason.OTHER_SPELLING)
    if _without_home(ours) == _without_home(theirs) != "":
        return _compared(Reason.WORDS_LEFT_OUT)
    if sorted(ours) == sorted(theirs):
        return _compared(Reason.OTHER_ORDER, partial=True)
    if _is_acronym(stated, given) or _is_acronym(given, stated):
        return _compared(Reason.INITIALS)
    names = ALSO_NAMED.split(stated), ALSO_NAMED.split(given)
    # An owner may have two businesses: if both have two names, both are compared.
    pairs, suffices = (
        (zip(*names, strict=True), all)
        if len(names[0]) == len(names[1])
        else (product(*names), any)
    )
    if max(map(len, names)) > 1 and suffices(
        companies_alike(*pair) in ACCEPTED_LIKENESSES for pair in pairs
    ):
        return _compared(Reason.WORDS_LEFT_OUT)
    return _aligned(ours, theirs)


def company_words(name: str) -> list[str]:
    """Return the words of a company's name without its legal form."""
    words = words_of(name)
    # "The Company Ltd" has no other words, so it keeps them.
    return [word for word in words if word not in LEGAL_FORMS] or words


def _firm_words(name: str) -> list[str]:
    """Return the words to compare, each in one form."""
    written = re.sub(
        r"\(\s*(k|ke)\s*\)|\bk(?=[\s.]+(ltd|limited)\b)",
        " kenya ",
        name,
        flags=re.IGNORECASE,
    )
    text = " ".join(words_of(written))
    # Two rounds, because a short form may be part of a longer one.
    for _ in range(2):
        text = PHRASES.sub(lambda found: PHRASE[found[0]], text)
    words = text.split()
    return [
        _singular(word) for word in words if word not in LEGAL_FORMS | FILLERS
    ] or words


def _singular(word: str) -> str:
    """Return the singular of a word, if it may be a plural: of "Express" it is not.

    "Securities" deals in shares, and "Security" guards.
    """
    is_none = word in PARTS | PLACES | {"securities"} or word.endswith(("ss", "us"))
    if is_none or len(word) < SHORT_WORD:
        return word
    return re.sub(r"(?<=ch|sh|ss)es$|s$", "", re.sub("ies$", "y", word))


def _without_home(words: list[str]) -> str:
    return "".join(word for word in words if word not in HOME)


def _aligned(ours: list[str], theirs: list[str]) -> Comparison:
    if max(len(ours), len(theirs)) > MOST_FIRM_WORDS:
        return DIFFERENT
    pairs = _longest_alignment(ours, theirs)
    slips = sum(fit == _Fit.SLIP for _, _, fit in pairs)
    only_ours = _left_over(ours, {i for i, _, _ in pairs})
    only_theirs = _left_over(theirs, {j for _, j, _ in pairs})
    extra = only_ours or only_theirs
    if (only_ours and only_theirs) or slips > 1:
        return DIFFERENT
    # "Toyota Kenya" is not "Toyota Uganda".
    if HOME & {*ours} ^ HOME & {*theirs} and PLACES & {*extra}:
        return DIFFERENT
    shared = [ours[i] for i, _, _ in pairs]
    own = sum(_is_own(word) for word in shared)
    if own:
        # "Kamau" is not "Kamau Otieno"; "Coca Cola" may be "Coca Cola Sabco".
        is_enough = 2 * sum(map(_is_own, extra)) <= own
    else:
        # "National Bank" and "Kenya Power", in one piece; not "Kenya" alone.
        is_enough = any(word in TRADES for word in shared) and len(shared) > 1
        is_enough = is_enough and _is_piece(*sorted([ours, theirs], key=len))
    if not is_enough:
        return DIFFERENT
    reasons = [Reason.WORDS_LEFT_OUT] if len(ours) != len(theirs) else []
    return _compared(
        *reasons, *([Reason.SLIP] if slips else []), Reason.OTHER_SPELLING, partial=True
    )


def _longest_alignment(
    ours: Sequence[str], theirs: Sequence[str]
) -> list[tuple[int, int, _Fit]]:
    """Return the pairs of words that fit, in the order of both names."""
    best: dict[tuple[int, int], list[tuple[int, int, _Fit]]] = {}

    def longest(i: int, j: int) -> list[tuple[int, int, _Fit]]:
        if i == len(ours) or j == len(theirs):
            return []
        if (i, j) not in best:
            ways = [longest(i + 1, j), longest(i, j + 1)]
            fit = _firm_fit(ours[i], theirs[j])
            if fit != _Fit.NOT:
                ways.append([(i, j, fit), *longest(i + 1, j + 1)])
            best[i, j] = max(ways, key=lambda way: sum(fit for _, _, fit in way))
        return best[i, j]

    return longest(0, 0)


def _firm_fit(ours: str, theirs: str) -> _Fit:
    if ours == theirs:
        return _Fit.SAME
    if not (ours + theirs).isalpha():
        return _Fit.NOT
    return _Fit.SLIP if _is_slip(ours, theirs) else _Fit.NOT


def _is_slip(ours: str, theirs: str) -> bool:
    """Return whether two long words of companies differ by a slip.

    A slip is one letter too many, two swapped letters, or another vowel, all inside the
    word. Two known words are no slips of each other.
    """
    if min(len(ours), len(theirs)) < LONG_WORD or OSA.distance(ours, theirs) != 1:
        return False
    if ours in KNOWN_WORDS and theirs in KNOWN_WORDS:
        return False
    if ours[0] != theirs[0] or ours[-1] != theirs[-1]:
        return False
    return len(ours) != len(theirs) or _is_swap_or_vowel(ours, theirs)


def _left_over(words: list[str], paired: Iterable[int]) -> list[str]:
    """Return the words without a partner; most names leave out the home country."""
    taken = set(paired)
    return [w for i, w in enumerate(words) if i not in taken and w not in HOME]


def _is_own(word: str) -> bool:
    """Return whether the word is a company's own, not a trade or a place."""
    return word not in HOME | PLACES | PARTS | TRADES


def _is_piece(shorter: list[str], longer: list[str]) -> bool:
    inner = [word for word in shorter if word not in HOME] or shorter
    return any(
        longer[i : i + len(inner)] == inner for i in range(len(longer))
    ) and not (inner == shorter and len(inner) < 2)


def _is_acronym(short: str, name: str) -> bool:
    """Return whether `short` is one word of the initials of `name`: "KCB"."""
    words = [word for word in company_words(short) if word not in FILLERS]
    if len(words) != 1 or not (3 <= len(words[0]) <= 6):
        return False
    # "MOH" has the "of" of the Ministry of Health; "CBK" has none.
    named = [word for word in words_of(name) if word not in LEGAL_FORMS]
    spoken = [word for word in words_of(name) if word not in FILLERS]
    bare = [word for word in named if word not in FILLERS]
    letters = {"".join(word[0] for word in each) for each in (named, spoken, bare)}
    return len(named) > 2 and words[0] in letters


def _masked_companies(stated: str, given: str) -> Comparison:
    # A mask may hide a legal form.
    visible = [
        word
        for word in company_words(given)
        if "*" not in word
        or all(_masked_fit(form, word) != _Fit.SAME for form in LEGAL_FORMS)
    ]
    return _people(company_words(stated), visible)


# --- Employers and jobs, as referees type them ---


def employers_alike(stated: str, given: str) -> Likeness:
    return companies_alike(stated, given) or "NO_MATCH"


def jobs_alike(stated: str, given: str) -> Likeness:
    """Compare job titles. One word more ("senior", "assistant") is another job."""
    return "MATCH" if _same_words(_job(stated), _job(given)) else "NO_MATCH"


def _job(title: str) -> list[str]:
    written_out = " ".join(SHORT_FORMS.get(word, word) for word in words_of(title))
    words = written_out.split()
    return [word for word in words if word not in SMALL_WORDS] or words


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


# --- Words ---


def words_of(text: str) -> list[str]:
    """Return the words of a text in plain lower case: "Ng'ang'a" is "nganga"."""
    plain = unicodedata.normalize("NFKD", text.casefold()).translate(LETTERS)
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    # "A.B.C. Traders", "Wanjiku's" and "Int'l" lose their dots and apostrophes.
    joined = re.sub(rf"(?<=\w)[.{APOSTROPHES}](?=\w)", "", plain)
    return re.findall(r"[\w*]+", joined)


# Usual spelling -> first spelling of its line, both as they sound.
SPELLINGS = {
    _sounds(word.replace("'", "")): _sounds(line.split()[0])
    for line in _TABLE["person_spellings"]
    for word in line.split()
}
# First spelling of a line, as it sounds -> all its spellings, as written and as they
# sound.
USUAL = {
    _sounds(line.split()[0]): {
        form for word in line.replace("'", "").split() for form in (word, _sounds(word))
    }
    for line in _TABLE["person_spellings"]
}
KNOWN_PEOPLE = frozenset(
    {normalize_spelling(word) for word in _words("person_names")}
    | set(SPELLINGS.values())
)
PHRASE = {
    phrase.strip(): kept.strip()
    for kept, _, others in (line.partition("=") for line in _TABLE["company_phrases"])
    for phrase in others.split(",")
}
TRADES |= {_singular(word) for word in TRADES}
# Longer phrases come first.
PHRASES = re.compile(
    r"\b(" + "|".join(sorted(map(re.escape, PHRASE), key=len, reverse=True)) + r")\b"
)
KNOWN_WORDS = frozenset(
    _words("person_names")
    | {word for line in _TABLE["person_spellings"] for word in line.split()}
    | _words("company_words")
    | PLACES
    | PARTS
    | TRADES
)
