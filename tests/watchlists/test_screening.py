from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils.timezone import now

from tests.checks.conftest import paying_api as paying_api
from tests.checks.engine import only_result
from tests.providers.asking import ask, codes, inquiry
from tests.providers.test_sandbox import ask as sandbox
from tests.providers.test_sandbox import subject_of
from tests.world.clients import ATTESTED, company, person
from tests.world.orders import told
from verification.checks.models import CheckDefinition
from verification.providers import registry
from verification.providers.base import Refused, Unavailable
from verification.watchlists.models import Edition, ListEntry
from verification.watchlists.source import WatchLists

CHECK = "AML_SCREENING"
PATH = "verification.watchlists.source.WatchLists"


def found(name: str | None, *lists: str, **subject: Any):
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


def test_whoever_is_on_no_list_is_clear_of_those_that_were_searched(loaded):
    answer = found("Jane Wanjiku Kamau", "UN", "OFAC")

    assert (answer.score, answer.flags) == (5, [])
    assert answer.details == {
        "screenedName": "Jane Wanjiku Kamau",
        "lists": ["UN", "OFAC"],
        "algorithm": "words-v2",
        "threshold": 0.7,
        "hitCount": 0,
        "hits": [],
    }
    assert answer.provider_reference is not None
    assert answer.provider_reference.startswith("UN 2026-11-20 ")


def test_a_hit_has_its_list_and_its_score(loaded):
    answer = found("Mfano Abdallah Testi", dateOfBirth="1971-01-02", country="SO")

    assert (codes(answer), answer.score) == (["SANCTIONS_HIT"], 95)
    assert "UN (" in answer.flags[0].message
    (hit,) = answer.details["hits"]
    assert (hit["lists"], hit["entryId"]) == (["UN"], "QDi.999")
    assert hit["name"] == "ABDALLA TESTI MFANO"
    assert 0.9 < hit["score"] <= 1


def test_a_list_that_is_not_asked_for_is_not_searched(loaded):
    assert found("Abdalla Testi Mfano", "OFAC", "EU").flags == []


def test_of_another_age_a_namesake_is_no_hit(loaded):
    assert codes(found("Juma Testwala")) == ["SANCTIONS_HIT"]
    assert found("Juma Testwala", dateOfBirth="1999-12-31").flags == []


def test_companies_are_looked_for_among_companies(loaded):
    company = {"subjectType": "COMPANY"}

    assert codes(found("Mfano Shipping Ltd", **company)) == ["SANCTIONS_HIT"]
    assert found("Juma Testwala", **company).flags == []
    assert found("Mfano Shipping").flags == []


@pytest.mark.parametrize("name", ["UN", "OFAC"])
def test_nobody_is_clean_of_a_list_that_was_not_loaded(loaded, name):
    Edition.objects.filter(list=name).update(is_current=False)

    with pytest.raises(Unavailable, match=f"The {name} list has not been loaded"):
        found("Jane Wanjiku Kamau")


def test_nobody_is_clean_of_a_list_that_is_too_old(loaded):
    Edition.objects.filter(list="UN").update(confirmed_at=now() - timedelta(days=8))

    with pytest.raises(Unavailable, match="of this installation is too old"):
        found("Jane Wanjiku Kamau")


def test_a_list_that_is_replaced_meanwhile_finds_nobody_clean(
    loaded, load, monkeypatch
):
    """The entries go between the look at the editions and the look at them."""
    read = WatchLists._hits

    def replaced_first(self, *asked):
        edition = Edition.objects.get(list="UN", is_current=True)
        ListEntry.objects.filter(edition=edition).delete()
        Edition.objects.filter(pk=edition.pk).update(is_current=False)
        Edition.objects.create(list="UN", sha256="1" * 64, entry_count=1)
        return read(self, *asked)

    monkeypatch.setattr(WatchLists, "_hits", replaced_first)

    with pytest.raises(Unavailable, match="loaded just now"):
        found("Abdalla Testi Mfano")


@pytest.mark.parametrize("name", [None, "???", "Mr."])
def test_a_name_that_cannot_be_searched_is_refused(loaded, name):
    with pytest.raises(Refused):
        found(name)


def test_another_check_is_refused(loaded):
    with pytest.raises(Refused):
        WatchLists(["UN"]).ask(inquiry("IDENTITY", fullName="Jane Kamau"))


def test_until_staff_offer_it_nobody_orders_it(api):
    order = {**person(), "checksRequested": [CHECK], "consent": ATTESTED}

    assert told(api, order) == {"checksRequested/0": "inactive-check"}


def test_a_company_is_screened_by_its_name_and_needs_one(api):
    CheckDefinition.objects.filter(name=CHECK).update(active=True)
    order = {**company(), "checksRequested": [CHECK], "consent": ATTESTED}
    assert api.create(order)

    del order["subject"]["fullName"]
    order["subject"]["registrationNumber"] = "PVT-AB12CDE"
    assert told(api, order) == {"subject/fullName": "missing-input"}


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
def test_of_the_sandboxs_lists_1_finds_nobody_and_2_somebody_in_public_office(
    kind: str,
) -> None:
    nobody = sandbox("AML_SCREENING", subject_of(kind, 1))
    assert (nobody.score, nobody.flags, nobody.details["hits"]) == (5, [], [])

    somebody = sandbox("AML_SCREENING", subject_of(kind, 2))
    assert [flag.code for flag in somebody.flags] == ["PEP_HIT"]
    (hit,) = somebody.details["hits"]
    assert (hit["topics"], hit["score"]) == (["role.pep"], 0.91)
