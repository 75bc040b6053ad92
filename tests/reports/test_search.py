import pytest
from django.db import connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from tests.world.clients import Api, company, erase, person
from verification.privacy.people import fill_further_ids
from verification.reports import queries
from verification.reports.models import Report, SearchEntry
from verification.reports.queries import Filters, list_reports


def search_names(api: Api, text: str) -> set[str]:
    where = api.workspace.pk, api.environment
    found = list_reports(*where, Filters(search=text), page=0, size=200)
    assert found.total == len(found.rows)
    return {report.subject_name for report in found.rows}


NAMES = [
    "Wanjiku Kamau Njeri",
    "Otieno Odhiambo",
    "José Ñandú",
    "100% Pure_Water",
    "100 Pure Water",
    "Back\\slash",
    "Straße Handels GmbH",
    "محمد علي",
    "王小明",
    "Zoe\u0308 🦁",
    "O'Brien",
    "İstanbul",
    "Achieng  Atieno\nOpiyo",
    "Ng’ang’a Njoroge",  # noqa: RUF001
]


@pytest.fixture
def named_api(api: Api) -> Api:
    api.create(*[company(fullName=name) for name in NAMES], draft=True)
    return api


FOUND = [
    ("Wanjiku Kamau Njeri", {"Wanjiku Kamau Njeri"}),
    ("wanjiku", {"Wanjiku Kamau Njeri"}),
    ("WANJIKU", {"Wanjiku Kamau Njeri"}),
    ("anji", {"Wanjiku Kamau Njeri"}),
    ("ku Ka", {"Wanjiku Kamau Njeri"}),
    ("njeri", {"Wanjiku Kamau Njeri"}),
    (" njeri ", {"Wanjiku Kamau Njeri"}),
    ("dhi", {"Otieno Odhiambo"}),
    ("dh", {"Otieno Odhiambo"}),
    ("wan njeri", set()),
    ("kamauu", set()),
    ("José", {"José Ñandú"}),
    ("JOSÉ ñ", {"José Ñandú"}),
    ("jose\u0301", {"José Ñandú"}),
    ("Ñ", {"José Ñandú"}),
    ("100%", {"100% Pure_Water"}),
    ("%", {"100% Pure_Water"}),
    ("_", {"100% Pure_Water"}),
    ("e_w", {"100% Pure_Water"}),
    ("0% p", {"100% Pure_Water"}),
    ("\\", {"Back\\slash"}),
    ("k\\s", {"Back\\slash"}),
    ("strasse", {"Straße Handels GmbH"}),
    ("STRASSE", {"Straße Handels GmbH"}),
    ("ß", {"Straße Handels GmbH"}),
    ("محمد", {"محمد علي"}),
    ("小", {"王小明"}),
    ("王小明", {"王小明"}),
    ("zoë", {"Zoe\u0308 🦁"}),
    ("🦁", {"Zoe\u0308 🦁"}),
    ("o'b", {"O'Brien"}),
    ("'b", {"O'Brien"}),
    ("ng'ang`a", {"Ng’ang’a Njoroge"}),  # noqa: RUF001
    ("o’b", {"O'Brien"}),  # noqa: RUF001
    ("İst", {"İstanbul"}),
    ("achieng atieno  opiyo", {"Achieng  Atieno\nOpiyo"}),
    ("q", set()),
]


def test_search_finds_any_part_of_a_name(named_api: Api):
    assert [(text, search_names(named_api, text)) for text, _ in FOUND] == FOUND


def test_name_of_an_older_version_is_found_once_it_is_folded(api: Api, monkeypatch):
    api.create(company(fullName="Ng’ang’a  Njoroge"), draft=True)  # noqa: RUF001
    Report.objects.update(search_name="ng’ang’a  njoroge")  # noqa: RUF001
    SearchEntry.objects.update(further_ids=None, terms=[])
    assert not search_names(api, "ng'ang'a njoroge")

    with monkeypatch.context() as killed:
        killed.setattr(QuerySet, "bulk_update", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            fill_further_ids()
    fill_further_ids()

    assert len(search_names(api, "ng'ang'a njoroge")) == 1


def test_search_by_one_letter_finds_every_such_name(named_api: Api):
    assert search_names(named_api, "w") == {n for n in NAMES if "w" in n.lower()}
    assert search_names(named_api, "ú") == {"José Ñandú"}


def test_search_matches_only_the_whole_text(api: Api, monkeypatch):
    referenced = {**company(fullName="Other"), "reference": "abcab"}
    api.create(company(fullName="abcabd"), company(fullName="abdabc"), draft=True)
    api.create(referenced, draft=True)

    for inline, most, sample in [
        (1_000, 7_500, 500),
        (0, 7_500, 500),
        (0, 0, 500),
        (1_000, 7_500, 10),
    ]:
        monkeypatch.setattr(queries, "MAX_INLINE_IDS", inline)
        monkeypatch.setattr(queries, "MAX_IDS", most)
        monkeypatch.setattr(queries, "SAMPLE", sample)
        assert search_names(api, "abcab") == {"abcabd", "Other"}
        assert search_names(api, "cabd") == {"abcabd"}


def test_common_name_needs_no_index_though_the_oldest_reports_are_erased(
    api: Api, monkeypatch
):
    monkeypatch.setattr(queries, "SAMPLE", 1)
    oldest = api.create(person(fullName="Wanjiku Kamau", idNumber="31234561"))
    api.create(person(fullName="Wanjiku Kamau", idNumber="31234562"))
    api.work()
    erase(api, oldest["id"])

    with CaptureQueriesContext(connection) as captured:
        assert search_names(api, "wanjiku") == {"Wanjiku Kamau"}
    assert "@>" not in " ".join(query["sql"] for query in captured)


@pytest.fixture
def identified_id(api: Api) -> str:
    number, email = "AB-123 456", "Wan.Jiku@acacia.test"
    item = person(fullName="Wanjiku Kamau", country="TZ", idNumber=number, email=email)
    return api.create({**item, "reference": "Loan 4711/B"}, draft=True)["id"]


IDENTIFIERS = [
    "AB-123 456",
    "ab123456",
    "AB 123-456",
    "Wan.Jiku@acacia.test",
    "wan.jiku@ACACIA.test",
    "Loan 4711/B",
    "loan 4711/b",
    " Loan 4711/B ",
]
PARTS = [
    "AB-123",
    "123 456",
    "acacia.test",
    "Wan.Jiku",
    "Loan",
    "4711/B",
    "AB-123 4567",
]


def test_search_finds_whole_identifiers_only(api: Api, identified_id: str):
    ids = [identified_id, identified_id.upper(), f" {identified_id}"]

    for text in (*IDENTIFIERS, *ids):
        assert search_names(api, text) == {"Wanjiku Kamau"}, text
    for text in PARTS:
        assert search_names(api, text) == set(), text


def test_search_finds_a_company_by_number(api: Api):
    api.create(company(fullName=None, registrationNumber="PVT-AB12CDE"), draft=True)

    assert search_names(api, "pvtab12cde") == {"PVT-AB12CDE"}
    # It has no name: its number stands for one.
    assert search_names(api, "b12") == {"PVT-AB12CDE"}


def test_search_finds_a_phone_number(api: Api):
    api.create(company(fullName="Baobab", phone="+254712345678"), draft=True)

    for text in ("+254712345678", "0712 345 678", "254712345678"):
        assert search_names(api, text) == {"Baobab"}, text
    assert search_names(api, "0712 345 67") == set()


def test_identifiers_are_hashed_in_the_index(api: Api, identified_id: str):
    entry = SearchEntry.objects.get()

    assert entry.report.search_name == "wanjiku kamau"
    assert all(isinstance(term, int) for term in entry.terms)


def test_terms_differ_between_workspaces(api, another_api):
    api.create(company(), draft=True)
    another_api.create(company(), draft=True)

    first, second = SearchEntry.objects.all()
    assert not set(first.terms) & set(second.terms)
