from collections.abc import Iterator
from datetime import date, timedelta
from itertools import permutations
from typing import Any

import pytest
from django.core.management import CommandError
from django.utils.timezone import now

from tests.watchlists.files import EU, FILES, OFAC, UK
from verification.watchlists.list_formats import Entry, read_entries
from verification.watchlists.management.commands import load_watchlist
from verification.watchlists.models import (
    Edition,
    ListEntry,
    ListName,
    check_lists,
    check_settings,
)

PERSON, COMPANY = "PERSON", "COMPANY"
# List -> reference, kind, names, dates of birth, countries of its entries.
WANTED = {
    "UN": [
        (
            "QDi.999",
            PERSON,
            ["ABDALLA TESTI MFANO", "Abu Testi", "Abdullah Testy"],
            ["1971-01-02", "1960/1965", "1979/1981"],
            ["SO"],
        ),
        (
            "QDe.999",
            COMPANY,
            ["MFANO TRADING COMPANY", "Mfano General Trading"],
            [],
            ["CD"],
        ),
    ],
    "OFAC": [
        (
            "7800",
            PERSON,
            ["Juma TESTWALA", "JUMA WA MFANO"],
            ["1960-12-07", "1964/1966", "1970-03", "1975/1978", "1982/1983"],
            ["KE", "IR"],
        ),
        ("9000", COMPANY, ["MFANO SHIPPING LLC"], [], ["RU"]),
    ],
    "UK": [
        (
            "TST0001",
            PERSON,
            ["MWANAMKE WA TESTI", "Mwana Mfano", "مفانو تيستي"],
            ["1945", "1958-03", "1959-03-01"],
            ["AF"],
        ),
        ("TST0002", COMPANY, ["Mfano Bank"], [], ["SY"]),
    ],
    "EU": [
        (
            "EU.27.28",
            PERSON,
            ["Testo Mfanowicz", "T. Mfano"],
            ["1937-04-28", "1938/1940", "1940/1942"],
            ["RU"],
        ),
        ("EU.1.1", COMPANY, ["Mfano JSC"], [], ["BY"]),
    ],
}
BOMB = """<?xml version="1.0"?>
<!DOCTYPE CONSOLIDATED_LIST [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>
<CONSOLIDATED_LIST><ENTITIES><ENTITY><FIRST_NAME>&b;</FIRST_NAME></ENTITY></ENTITIES>
</CONSOLIDATED_LIST>"""
LOCAL = BOMB.replace('<!ENTITY a "aaaa">', '<!ENTITY a SYSTEM "file:///etc/hostname">')


@pytest.mark.parametrize("name", FILES)
def test_load_stores_the_entries_of_a_file(load, name: str):
    assert "2 entries" in load(name)

    fields = ("reference", "kind", "names", "birth_dates", "countries")
    assert list(ListEntry.objects.order_by("pk").values_list(*fields)) == WANTED[name]
    edition = Edition.objects.get()
    assert (edition.list, edition.published_on) == (name, date(2026, 11, 20))
    assert (edition.entry_count, edition.is_current) == (2, True)


def test_newer_file_replaces_entries_and_keeps_the_edition(load):
    load("EU")
    load("EU", EU.replace("Testo Mfanowicz", "Testina Mfanowicz"))

    newest, older = Edition.objects.order_by("-pk")
    assert (newest.is_current, older.is_current) == (True, False)
    assert set(ListEntry.objects.values_list("edition", flat=True)) == {newest.pk}
    assert ListEntry.objects.filter(names__contains=["Testina Mfanowicz"]).exists()


def test_same_file_confirms_the_edition(load):
    load("EU")
    Edition.objects.update(confirmed_at=now() - timedelta(days=30))

    assert "loaded before" in load("EU")

    edition = Edition.objects.get()
    assert now() - edition.confirmed_at < timedelta(minutes=1)
    assert ListEntry.objects.count() == 2


def test_same_file_is_loaded_again_when_its_dates_were_read_otherwise(load):
    load("EU")
    ListEntry.objects.filter(kind=PERSON).update(birth_dates=["1937-04-28"])

    assert "EU of 2026-11-20 loaded" in load("EU")

    entry = ListEntry.objects.get(kind=PERSON)
    assert len(entry.birth_dates) == 3


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("UN", EU, "begins with 'export'"),
        ("OFAC", UK, "begins with 'Designations'"),
        # A file that broke off.
        *((name, text[: len(text) // 2], "ParseError") for name, text in FILES.items()),
        ("OFAC", OFAC.replace(">3<", ">4<"), "says it has 4 entries, and has 3"),
        ("UN", "<CONSOLIDATED_LIST/>", "no person or company"),
        ("UK", "<html>Service unavailable</html>", "begins with 'html'"),
        ("UN", b"\x1f\x8b\x08 packed", "ParseError"),
        ("UN", "", "ParseError"),
        ("UN", BOMB, "DTDForbidden"),
        ("UN", LOCAL, "DTDForbidden"),
        ("UN", "<a>" * 100_000, ""),
    ],
)
def test_incomplete_file_changes_nothing(load, name, content, told):
    load(name)

    with pytest.raises(CommandError, match=told or None) as error:
        load(name, content)

    assert f"{name} was not loaded" in str(error.value)
    assert Edition.objects.get().is_current
    assert ListEntry.objects.count() == 2


def test_file_that_is_changed_while_it_is_read_is_refused(load, tmp_path, monkeypatch):
    """Findings name the edition by the digest of its file."""

    def read_changed(*arguments: Any) -> Iterator[Entry]:
        (tmp_path / "EU.xml").write_text(f"{EU}\n")
        yield from read_entries(*arguments)

    monkeypatch.setattr(load_watchlist, "read_entries", read_changed)

    with pytest.raises(CommandError, match="was changed while it was read"):
        load("EU")

    assert not Edition.objects.exists()


def test_shrunken_list_needs_may_shrink(load):
    more = "".join(
        f'<sanctionEntity logicalId="{n}"><subjectType code="person"/>'
        f'<nameAlias wholeName="Nth {n}"/></sanctionEntity>'
        for n in range(5)
    )
    load("EU", EU.replace("</export>", more + "</export>"))

    with pytest.raises(CommandError, match="has 2 entries, and the one before had 7"):
        load("EU")
    assert ListEntry.objects.count() == 7

    load("EU", may_shrink=True)
    assert ListEntry.objects.count() == 2


@pytest.mark.parametrize(
    ("name", "written", "changed", "told"),
    [
        ("OFAC", "Entity", "Organisation", "0 companies, and the one before had 1"),
        ("EU", 'code="person"', 'code="human"', "0 people, and the one before had 1"),
        ("UN", "ALIAS_NAME", "OTHER_NAME", "2 names, and the one before had 5"),
    ],
)
def test_file_with_other_words_for_a_kind_is_refused(
    load, name, written, changed, told
):
    load(name)

    with pytest.raises(CommandError, match=told):
        load(name, FILES[name].replace(written, changed))

    assert ListEntry.objects.count() == 2


@pytest.mark.parametrize(
    ("name", "older", "newer"),
    [
        ("UN", "2026-11-20", "2026-12-01"),
        ("OFAC", "11/20/2026", "12/01/2026"),
        ("UK", "20/11/2026", "01/12/2026"),
        ("EU", "2026-11-20", "2026-12-01"),
    ],
)
def test_older_file_is_refused(load, name, older, newer):
    load(name)
    load(name, FILES[name].replace(older, newer))

    with pytest.raises(CommandError, match="is of 2026-11-20, and the one before of"):
        load(name)

    current = Edition.objects.get(is_current=True)
    assert current.published_on == date(2026, 12, 1)
    load(name, may_shrink=True)


@pytest.mark.parametrize(
    ("name", "least"), [("UN", 400), ("OFAC", 7000), ("UK", 1500), ("EU", 2000)]
)
def test_first_file_is_refused_when_it_is_too_small(load, name, least):
    with pytest.raises(CommandError, match=f"has {least} at the very least"):
        load(name, may_shrink=False)

    assert not Edition.objects.exists()


@pytest.mark.parametrize(("name", "other"), [*permutations(FILES, 2)])
def test_file_of_another_publisher_is_refused_by_its_name(load, name, other):
    label = ListName(other).label

    with pytest.raises(CommandError, match=f"The file is that of {label}: it begins"):
        load(name, FILES[other])


def test_known_root_in_a_foreign_namespace_is_refused(load):
    foreign = "<sdnList xmlns='http://eu.europa.ec/fpi/fsd/export'></sdnList>"

    with pytest.raises(CommandError, match="is of no publisher: it begins"):
        load("OFAC", foreign)


def test_system_checks_report_settings_and_lists(load, settings):
    path = "verification.watchlists.source.WatchLists"
    given = {"lists": ["UN", "EU", "UK", "XX"], "threshold": 0.2, "days": 7}
    settings.PROVIDERS = {"AML_SCREENING": (path, given)}
    load("UN")
    load("UK")
    Edition.objects.filter(list="UK").update(confirmed_at=now() - timedelta(days=8))

    assert [told.id for told in check_settings()] == [
        "watchlists.E002",
        "watchlists.E001",
    ]
    assert [told.msg for told in check_lists(databases=["default"])] == [
        "The EU list has not been loaded.",
        "The UK list was not loaded for 7 days.",
        "The XX list has not been loaded.",
    ]
    assert check_lists() == []
