import tomllib
from collections import Counter
from pathlib import Path

import pytest
from django.conf import settings

from tests.world.processor import processor_seconds
from verification.providers import name_comparison
from verification.providers.name_comparison import (
    VERSION,
    companies_alike,
    compare_companies,
    compare_people,
    names_alike,
    normalize_spelling,
)

TABLE = Path(name_comparison.__file__).with_name("names.toml")

FOLDER = Path(__file__).parent
COMPARE = {"person": compare_people, "company": compare_companies}


def read_pairs(kind: str) -> list[tuple[bool, str, str]]:
    """Return (is the same, stated name, given name) for each pair."""
    pairs, same = [], True
    for line in (FOLDER / f"{kind}_pairs.txt").read_text().splitlines():
        if line.startswith("=="):
            same = line == "== same"
        elif line and not line.startswith("#"):
            stated, _, given = line.partition(" | ")
            pairs.append((same, stated, given))
    return pairs


def confusion(kind: str) -> dict[bool, Counter[str]]:
    """Count the verdicts, for pairs that are the same and for other pairs."""
    found: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for same, stated, given in read_pairs(kind):
        compared = COMPARE[kind](stated, given)
        assert compared, (stated, given)
        found[same][compared.likeness] += 1
    return found


def test_pairs_are_enough_for_a_measurement():
    pairs = {*read_pairs("person"), *read_pairs("company")}
    assert len(pairs) >= 600


@pytest.mark.parametrize("kind", COMPARE)
def test_verdicts_are_right_as_published_and_another_name_never_matches(kind: str):
    measured = confusion(kind)
    same, others = measured[True], measured[False]
    right = same["MATCH"] + same["PARTIAL_MATCH"] + others["NO_MATCH"]
    assert right >= 0.99 * (same.total() + others.total())
    assert others["MATCH"] == 0

    published = (Path(settings.BASE_DIR) / "docs/engineer/matching.md").read_text()
    for same, verdicts in measured.items():
        counts = (verdicts[v] for v in ("MATCH", "PARTIAL_MATCH", "NO_MATCH"))
        row = f"| {kind} | {'same' if same else 'different'} | " + " | ".join(
            map(str, counts)
        )
        assert row in published
    assert f"version {VERSION}" in published


@pytest.mark.parametrize("kind", COMPARE)
def test_order_of_arguments_makes_no_difference(kind: str):
    for _, stated, given in read_pairs(kind):
        if "*" not in given:
            one, other = COMPARE[kind](stated, given), COMPARE[kind](given, stated)
            assert one == other, (stated, given)


def test_masked_names_are_never_a_match():
    pairs = [("person", "Jane Kamau", "J**e K***u"), ("person", "Jo Ek", "J* Ek")]
    pairs += [("company", "Acacia Tea Ltd", "A****a T*a L*****d")]
    for kind, stated, given in pairs:
        compared = COMPARE[kind](stated, given)
        assert compared
        assert (compared.likeness, compared.reason) == ("PARTIAL_MATCH", "MASKED")


def test_each_spelling_is_on_one_line_only():
    first_of: dict[str, str] = {}
    for line in tomllib.loads(TABLE.read_text())["person_spellings"]:
        words = line.split()
        for word in words:
            sounds = normalize_spelling(word.replace("'", ""))
            assert first_of.setdefault(sounds, words[0]) == words[0]


def test_letters_and_apostrophes_of_all_keyboards_are_equal():
    for apostrophe in "'`\u00b4\u2018\u2019\u02bc\u2032":
        assert names_alike(f"Ng{apostrophe}ang{apostrophe}a Ole", "NGANGA OLE")
    assert names_alike("S\u00f8ren \u0141ukasz", "SOREN LUKASZ") == "MATCH"


def test_blank_name_has_no_verdict():
    for stated, given in [("", "A B"), ("A B", ""), (None, "A"), ("A", None)]:
        assert names_alike(stated, given) is None
    assert names_alike("Jane Kamau", "**** *****") is None
    assert names_alike("-", "...") is None


@pytest.mark.parametrize(
    ("given", "likeness"),
    [
        ("JANE WANJIKU KAMAU", "MATCH"),
        ("KAMAU WANJIKU JANE", "MATCH"),
        ("J**e W****u K***u", "PARTIAL_MATCH"),
        ("JANE KAMAU", "PARTIAL_MATCH"),
        ("J W KAMAU", "PARTIAL_MATCH"),
        ("J*** W****** K****", "PARTIAL_MATCH"),
        ("JANE WANJIIKKU KAMAO", "NO_MATCH"),
    ],
)
def test_verdict_follows_from_its_reason(given, likeness):
    assert names_alike("Jane Wanjiku Kamau", given) == likeness


@pytest.mark.parametrize(
    ("given", "likeness"),
    [
        ("ACACIA TEA LIMITED", "MATCH"),
        ("A****a T*a L*****d", "PARTIAL_MATCH"),
        ("A****a T*a LIMITED", "PARTIAL_MATCH"),
        ("A***** T** LTD", "PARTIAL_MATCH"),
        ("ACACIA TEA (KERICHO) LIMITED", "PARTIAL_MATCH"),
        ("BARAKA TEA LIMITED", "NO_MATCH"),
        ("", None),
    ],
)
def test_companies_are_compared_without_their_legal_forms(given, likeness):
    assert companies_alike("Acacia Tea Ltd", given) == likeness


def test_names_of_many_words_are_compared_at_once():
    syllables = " ".join(a + b for a in "kmnprst" for b in "aeiou")
    letters = " ".join("abcdefghijklmnopqrstuvwxyz" * 4)[:199]
    pairs = [(syllables, letters), (syllables, syllables[::-1])]

    seconds = processor_seconds(lambda: [names_alike(*pair) for pair in pairs], 1)

    assert seconds < 1
    assert names_alike(syllables, syllables) == "MATCH"
    assert names_alike(syllables, syllables[::-1]) == "NO_MATCH"


def test_employers_of_very_many_words_are_compared():
    # One letter that is four words
    stated, given = "\ufdfa" * 200, "\ufdfa" * 199
    assert companies_alike(stated, given) == "NO_MATCH"
    assert companies_alike(stated, stated) == "MATCH"
