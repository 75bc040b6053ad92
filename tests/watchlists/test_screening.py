from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils.timezone import now

from tests.checks.conftest import paying_api as paying_api
from tests.checks.engine import only_result
from tests.providers.inquiries import ask, codes, inquiry
from tests.providers.test_sandbox import ask as sandbox
from tests.providers.test_sandbox import subject_of
from tests.watchlists.files import FILES
from tests.world.clients import ATTESTED, company, person
from tests.world.orders import fault_codes
from verification.checks.models import CheckDefinition
from verification.providers import registry
from verification.providers.base import Refused, Unavailable
from verification.watchlists import name_index
from verification.watchlists.models import Edition, EntryKind, ListEntry
from verification.watchlists.source import WatchLists

CHECK = "AML_SCREENING"
PATH = "verification.watchlists.source.WatchLists"


def finding_of(name: str | None, *lists: str, **subject: Any):
    adapter = WatchLists(lists or ("UN", "OFAC"))
    return ask(adapter, inquiry(CHECK, fullName=name, **subject))


@pytest.fixture
def screening() -> Iterator[None]:
    registry.configure(
        {"watchlists": (PATH, {"lists": ["UN"]})}, {CHECK: {"*": ["watchlists"]}}
    )
    yield
    registry.configure(settings.PROVIDERS, settings.SOURCE_ROUTES)


@pytest.fixture
def loaded(load) -> None:
    for name in ("UN", "OFAC", "UK", "EU"):
        load(name)


def test_unlisted_subject_is_clear(loaded):
    answer = finding_of("Jane Wanjiku Kamau", "UN", "OFAC")

    assert (answer.score, answer.flags) == (5, [])
    assert answer.details == {
        "screenedName": "Jane Wanjiku Kamau",
        "lists": ["UN", "OFAC"],
        "algorithm": "words-v4",
        "threshold": 0.7,
        "hitCount": 0,
        "hits": [],
    }
    assert answer.provider_reference is not None
    assert answer.provider_reference.startswith("UN 2026-11-20 ")


def test_hit_has_its_list_and_its_score(loaded):
    answer = finding_of("Mfano Abdallah Testi", dateOfBirth="1971-01-02", country="SO")

    assert (codes(answer), answer.score) == (["SANCTIONS_HIT"], 95)
    assert "UN (" in answer.flags[0].message
    (hit,) = answer.details["hits"]
    assert (hit["lists"], hit["entryId"]) == (["UN"], "QDi.999")
    assert hit["name"] == "ABDALLA TESTI MFANO"
    assert 0.9 < hit["score"] <= 1


@pytest.mark.parametrize(
    ("name", "kind", "primary", "matched"),
    [
        ("Testi Abu", "INDIVIDUAL", "ABDALLA TESTI MFANO", "Abu Testi"),
        ("Abdalla Mfano", "INDIVIDUAL", "ABDALLA TESTI MFANO", "ABDALLA TESTI MFANO"),
        ("Mfano General", "COMPANY", "MFANO TRADING COMPANY", "Mfano General Trading"),
    ],
)
def test_hit_has_the_name_that_is_most_similar(loaded, name, kind, primary, matched):
    answer = finding_of(name, "UN", subjectType=kind)

    (hit,) = answer.details["hits"]
    assert (hit["name"], hit["matchedName"]) == (primary, matched)


def test_only_the_configured_lists_are_searched(loaded):
    assert finding_of("Abdalla Testi Mfano", "OFAC", "EU").flags == []


def test_namesake_of_another_age_is_no_hit(loaded):
    assert codes(finding_of("Juma Testwala")) == ["SANCTIONS_HIT"]
    assert finding_of("Juma Testwala", dateOfBirth="1999-12-31").flags == []


@pytest.mark.parametrize(
    ("name", "written", "unread"),
    [
        ("UN", "<DATE>1971-01-02</DATE>", "<DATE>in the seventies</DATE>"),
        ("UN", "<DATE>1971-01-02</DATE>", "<NOTE>about 40 in 2001</NOTE>"),
        ("UN", "<FROM_YEAR>1960", "<FROM_YEAR>soon"),
        ("OFAC", "07 Dec 1960", "unknown"),
        ("UK", "01/03/1959", "dd/mm/yyyy"),
        ("EU", 'birthdate="1937-04-28" year="1937"', 'year="unknown"'),
    ],
)
def test_entry_with_an_unreadable_date_excludes_nobody(load, name, written, unread):
    load(name, FILES[name].replace(written, unread))
    listed = ListEntry.objects.get(kind=EntryKind.PERSON)

    answer = finding_of(listed.names[0], name, dateOfBirth="1999-12-31")

    (hit,) = answer.details["hits"]
    assert len(hit["birthDates"]) == len(listed.birth_dates) - 1
    assert all(each[0] in "12" for each in hit["birthDates"])


def test_company_is_compared_with_companies_only(loaded):
    company = {"subjectType": "COMPANY"}

    assert codes(finding_of("Mfano Shipping Ltd", **company)) == ["SANCTIONS_HIT"]
    assert finding_of("Juma Testwala", **company).flags == []
    assert finding_of("Mfano Shipping").flags == []


def test_name_in_other_letters_is_found_but_never_clear(loaded):
    assert codes(finding_of("مفانو تيستي", "UK", "OFAC")) == ["SANCTIONS_HIT"]
    for name in ("Владимир Мфано", "بشار الأسد", "Jane W\u0430njiku Kamau"):
        with pytest.raises(Refused, match="in Latin letters"):
            finding_of(name, "UK", "OFAC")
    assert (
        finding_of(
            "Wanjik\u0169 Ng\u02bcang\u2019a \u0106osi\u0107", "UK", "OFAC"
        ).flags
        == []
    )


@pytest.mark.parametrize("name", ["UN", "OFAC"])
def test_missing_list_is_unavailable(loaded, name):
    Edition.objects.filter(list=name).update(is_current=False)

    with pytest.raises(Unavailable, match=f"The {name} list has not been loaded"):
        finding_of("Jane Wanjiku Kamau")


def test_old_list_is_unavailable(loaded):
    Edition.objects.filter(list="UN").update(confirmed_at=now() - timedelta(days=8))

    with pytest.raises(Unavailable, match="of this installation is too old"):
        finding_of("Jane Wanjiku Kamau")


def test_list_replaced_during_the_search_is_unavailable(loaded, load, monkeypatch):
    """Another load deletes the entries after the search has read the editions."""
    read = WatchLists._hits

    def replaced_first(self, *asked):
        edition = Edition.objects.get(list="UN", is_current=True)
        ListEntry.objects.filter(edition=edition).delete()
        Edition.objects.filter(pk=edition.pk).update(is_current=False)
        Edition.objects.create(list="UN", sha256="1" * 64, entry_count=1)
        return read(self, *asked)

    monkeypatch.setattr(WatchLists, "_hits", replaced_first)

    with pytest.raises(Unavailable, match="loaded just now"):
        finding_of("Abdalla Testi Mfano")


def test_edition_dropped_by_another_thread_is_searched(loaded, monkeypatch):
    class DroppedAtOnce(dict):
        def __setitem__(self, edition, names):
            pass

    monkeypatch.setattr(name_index, "_indexes", DroppedAtOnce())

    assert codes(finding_of("Abdalla Testi Mfano")) == ["SANCTIONS_HIT"]


@pytest.mark.parametrize("name", [None, "???", "Mr."])
def test_name_without_letters_is_refused(loaded, name):
    with pytest.raises(Refused):
        finding_of(name)


def test_another_check_is_refused(loaded):
    with pytest.raises(Refused):
        WatchLists(["UN"]).ask(inquiry("IDENTITY", fullName="Jane Kamau"))


def test_screening_is_not_for_sale_until_staff_offer_it(api):
    order = {**person(), "checksRequested": [CHECK], "consent": ATTESTED}

    assert fault_codes(api, order) == {"checksRequested/0": "inactive-check"}


def test_company_is_screened_by_its_name_and_needs_one(api):
    CheckDefinition.objects.filter(name=CHECK).update(active=True)
    order = {**company(), "checksRequested": [CHECK], "consent": ATTESTED}
    assert api.create(order)

    del order["subject"]["fullName"]
    order["subject"]["registrationNumber"] = "PVT-AB12CDE"
    assert fault_codes(api, order) == {"subject/fullName": "missing-input"}


@pytest.mark.parametrize(
    ("lists", "name", "ends"),
    [
        (["UN"], "Abdalla Testi Mfano", ("COMPLETED", 95)),
        (["UN"], "Jane Wanjiku Kamau", ("COMPLETED", 5)),
        ([], "Jane Wanjiku Kamau", ("RUNNING", None)),
    ],
)
def test_production_is_screened_by_the_engine(
    paying_api, screening, load, lists, name, ends
):
    for each in lists:
        load(each)
    CheckDefinition.objects.filter(name=CHECK).update(active=True)
    order = {**person(fullName=name), "checksRequested": [CHECK], "consent": ATTESTED}

    paying_api.create(order)
    paying_api.work()

    result = only_result()
    assert (result.status, result.score) == ends


@pytest.mark.parametrize("kind", ["INDIVIDUAL", "COMPANY"])
def test_sandbox_numbers_1_and_2_have_their_screening_outcomes(
    kind: str,
) -> None:
    nobody = sandbox("AML_SCREENING", subject_of(kind, 1))
    assert (nobody.score, nobody.flags, nobody.details["hits"]) == (5, [], [])

    somebody = sandbox("AML_SCREENING", subject_of(kind, 2))
    assert [flag.code for flag in somebody.flags] == ["PEP_HIT"]
    (hit,) = somebody.details["hits"]
    assert (hit["topics"], hit["score"]) == (["role.pep"], 0.91)
