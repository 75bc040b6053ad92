"""All Kiswahili texts follow the vocabulary of `docs/engineer/kiswahili.md`."""

import re
from collections import defaultdict
from functools import cache
from hashlib import sha256
from itertools import chain
from pathlib import Path

import pytest
from babel.messages.catalog import Message
from babel.messages.pofile import read_po
from django.conf import settings
from django.utils.translation import gettext, override

from verification.consents.notices import DEFAULT_VERSION, FOLDER, VERSIONS
from verification.providers import registry
from verification.references.answers import FOLDER as REFEREES

ROOT = Path(settings.BASE_DIR)
GLOSSARY = (ROOT / "docs/engineer/kiswahili.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in GLOSSARY.splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| English"))
]
# SHA-256 of published notices for Kenya. Subjects have consented to these exact texts.
PUBLISHED = {
    "2026-11.en": "abc6d308e7aae77c7c3bb9572c2588977d816f67039905e96035f80268a85842",
    "2026-11.sw": "faad852d1854c7c14b007dae589f64f76f380c634c060c83ad87dd7bf12ccb3d",
    "2026-11b.en": "abc6d308e7aae77c7c3bb9572c2588977d816f67039905e96035f80268a85842",
    "2026-11b.sw": "a989401d1c42e6f3ff1a978feff97b1dfb7ad05e066e54d1d24ccdb740a34a9e",
    "2026-11c.en": "9435e007cdc8abcd17f12e8869c6ee2a39de413e4cfe76490b3121d99eab149e",
    "2026-11c.sw": "df57fd9a5e29e86f839ad9013d4d2e0dab4e0d01300b887bdb5c05a71bb84835",
    "2026-11d.en": "a5639eaf0e6adc87c59b6d5f5b015f02ba4f375a3c7fb0e055c7578400e63440",
    "2026-11d.sw": "dbaa0efa576da2dc696b61e2b0b8057a567799dc490caa4f6b0ef58305e311f9",
    "2026-11e.en": "c54137b934c12c28d2b52f8e238ffa5b9bb6038ffa4cf39c559fbe4acd6aec8b",
    "2026-11e.sw": "1a82cb76f55f495bd1e37b0d872e82fc29958fa942f672a8bd1323d703167642",
    "2026-11f.en": "9e77741ebda7c52fb4a056d1d2fd208b24142c9c8cb50701ae78668d7f3f7136",
    "2026-11f.sw": "5407a0f35c7d66c8b8c688a1a7e8ae3b20df5368b757dcb8dfa8ff37ffe32c7e",
}


def listed(cell: str) -> list[str]:
    words = re.sub(r"\(.*?\)", "", cell).split(",")
    return [word.strip() for word in words if word.strip()]


@cache
def catalogues() -> dict[Path, list[Message]]:
    """Return the messages of each catalogue."""
    found = {}
    for path in ROOT.glob("verification/*/locale/sw/LC_MESSAGES/django.po"):
        with path.open("rb") as file:
            found[path] = [message for message in read_po(file) if message.id]
    return found


@cache
def kiswahili() -> dict[str, str]:
    """Return {file or source: Kiswahili text} of everything that people see."""
    texts = {
        str(path.relative_to(ROOT)): path.read_text()
        for folder in ("verification", "workspaces", "webhooks", "templates")
        for path in (ROOT / folder).rglob("*.sw.txt")
    }
    for path, messages in catalogues().items():
        texts[str(path.relative_to(ROOT))] = "\n".join(str(m.string) for m in messages)
    for path in (ROOT / "templates/pdf").glob("*.typ"):
        texts[path.name] = path.read_text().partition("  sw: (")[2]
    texts["recipients"] = "\n".join(
        re.findall(r'\bsw = "(.*?)"', registry.RECIPIENTS.read_text())
    )
    for version in {*VERSIONS.values(), DEFAULT_VERSION}:
        texts[version] = (FOLDER / f"{version}.sw.toml").read_text()
    for path in REFEREES.glob("*.sw.toml"):
        texts[path.name] = path.read_text()
    return texts


WORDS = [word for row in ROWS for word in listed(row[2])]


def test_texts_come_from_all_places():
    assert len(WORDS) > 15
    found = " ".join(kiswahili())
    for place in ("consent_request.email", "hosted/locale", "api/locale", ".typ"):
        assert place in found


def test_texts_avoid_rejected_words():
    rejected = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)

    used = {name: rejected.findall(text) for name, text in kiswahili().items()}
    assert {name: words for name, words in used.items() if words} == {}


def test_text_has_one_translation_in_all_catalogues():
    # Django merges the catalogues, so the one of another page would be shown.
    found: dict[object, set[object]] = defaultdict(set)
    for message in chain.from_iterable(catalogues().values()):
        found[message.context, message.id].add(message.string)

    assert {id: said for id, said in found.items() if len(said) > 1} == {}


@pytest.mark.parametrize(
    ("english", "kiswahili"),
    [("workspace", "kazi"), ("receiver", "kipoke"), ("finding", "matokeo")],
)
def test_text_names_a_thing_by_its_word(english: str, kiswahili: str):
    for message in chain.from_iterable(catalogues().values()):
        if re.search(rf"\b{english}", str(message.id)):
            assert kiswahili in str(message.string).lower(), message.id


def test_no_text_of_a_library_replaces_ours():
    with override("sw"):
        for messages in catalogues().values():
            said = {m.id: m.string for m in messages if not m.context}
            ours = {id: text for id, text in said.items() if isinstance(id, str)}
            assert {id: gettext(id) for id in ours} == ours


def test_texts_use_the_words_of_the_vocabulary():
    everything = "\n".join(kiswahili().values()).lower()

    for term in (term for row in ROWS for term in listed(row[1])):
        # Without the infinitive's prefix and the last vowel, which verbs change.
        stem = re.sub(r"^ku(?=\w{4})", "", term)[:-1]
        assert stem in everything, term


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_notice_is_unchanged(name):
    text = (FOLDER / f"ke-{name}.toml").read_bytes()

    assert sha256(text).hexdigest() == PUBLISHED[name]
