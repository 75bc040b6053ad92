from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pytest
from django.db import connection

from tests.world.clients import Api, company, error_codes, person
from tests.world.orders import create_report_with_status, two_checks
from verification.db import base
from verification.db.base import FAR
from verification.reports import queries
from verification.reports.models import Report

SUMMARY = {
    "id",
    "subjectName",
    "subjectType",
    "status",
    "reference",
    "riskScore",
    "riskLevel",
    "package",
    "checksCount",
    "completedChecksCount",
    "createdAt",
    "completedAt",
}


def page(api: Api, **query) -> dict:
    answer = api.get("/reports", **query)
    assert answer.status_code == 200, answer.content
    return answer.json()


def ids(api: Api, **query) -> list[str]:
    return [report["id"] for report in page(api, size=200, **query)["content"]]


def set_created_at(report_id: str, at: datetime) -> None:
    Report.objects.filter(pk=report_id).update(created_at=at)


def test_empty_list_is_one_empty_page(api: Api):
    assert page(api) == {
        "page": 0,
        "size": 20,
        "totalElements": 0,
        "totalPages": 0,
        "first": True,
        "last": True,
        "totalIsExact": True,
        "content": [],
    }


def test_summary_shows_progress(api: Api):
    item = {**two_checks(idNumber="90000008", kraPin="A900000000Z"), "reference": "A-1"}
    created = api.create(item)
    api.work()

    (summary,) = page(api)["content"]
    report = api.report(created["id"])
    assert set(summary) == SUMMARY
    assert (summary["checksCount"], summary["completedChecksCount"]) == (2, 1)
    for member in SUMMARY & report.keys():
        assert summary[member] == report[member]
    assert summary["subjectName"] == report["subject"]["fullName"]


def test_pages_have_no_gap_or_overlap(api: Api, monkeypatch):
    reports = api.create(*[company()] * 23, draft=True)

    for far in (0, FAR):
        monkeypatch.setattr(base, "FAR", far)
        pages = [page(api, page=n, size=5) for n in range(6)]

        content = [report["id"] for one in pages for report in one["content"]]
        assert content == [one["id"] for one in reversed(reports)]
        assert [len(one["content"]) for one in pages] == [5, 5, 5, 5, 3, 0]
        assert {(one["totalElements"], one["totalPages"]) for one in pages} == {(23, 5)}
        assert [one["first"] for one in pages] == [True, *[False] * 5]
        assert [one["last"] for one in pages] == [*[False] * 4, True, True]


def test_totals_follow_what_happens_to_old_and_new_reports(api: Api):
    def totals() -> list[int]:
        queries = (
            {},
            {"status": "READY"},
            {"subjectType": "INDIVIDUAL"},
            {"to": "2025-01-01"},
        )
        return [page(api, size=1, **query)["totalElements"] for query in queries]

    drafts = [create_report_with_status(api, "DRAFT") for _ in range(2)]
    create_report_with_status(api, "READY")
    api.create(company(), draft=True)
    Report.objects.update(created_at=datetime(2025, 1, 1, tzinfo=UTC))
    assert totals() == [4, 1, 3, 4]

    create_report_with_status(api, "READY")
    create_report_with_status(api, "DRAFT")
    assert totals() == [6, 2, 5, 4]

    assert api.post(f"/reports/{drafts[0]}/launch").status_code == 200
    api.work()
    assert totals() == [6, 3, 5, 4]


def test_full_last_page_is_the_last(api: Api):
    api.create(*[company()] * 10, draft=True)

    last = page(api, page=1, size=5)

    assert (last["last"], last["totalPages"], last["totalElements"]) == (True, 2, 10)


def test_search_counts_only_so_many_reports(api: Api, monkeypatch):
    monkeypatch.setattr(queries, "COUNTED_REPORTS", 3)
    reports = api.create(*[company(fullName="Baobab Ltd")] * 5, draft=True)

    def found() -> list[dict]:
        pages = [page(api, search="baobab", page=n, size=2) for n in range(4)]
        content = [report["id"] for one in pages for report in one["content"]]
        assert content == [one["id"] for one in reversed(reports)]
        return pages

    # The index finds these few.
    assert [one["totalElements"] for one in found()] == [5] * 4
    monkeypatch.setattr(queries, "MAX_IDS", 0)
    pages = found()
    assert [one["totalIsExact"] for one in pages] == [False, False, True, False]
    assert [one["totalElements"] for one in pages] == [4, 5, 5, 4]
    assert [one["totalPages"] for one in pages] == [2, 3, 3, 2]
    assert [one["last"] for one in pages] == [False, False, True, True]
    listed = page(api, size=2)
    assert (listed["totalElements"], listed["totalIsExact"]) == (5, True)


def test_page_past_the_end_is_empty(api: Api):
    api.create(company(), draft=True)

    far = page(api, page=1_000_000_000, size=200)

    assert far["content"] == []
    assert (far["totalElements"], far["last"]) == (1, True)


def test_reports_of_the_same_time_have_an_order(api: Api):
    reports = api.create(*[company()] * 30, draft=True)
    Report.objects.update(created_at=datetime(2026, 1, 1, tzinfo=UTC))

    assert ids(api) == sorted((one["id"] for one in reports), reverse=True)


def test_list_is_newest_first(api: Api):
    reports = api.create(company(), company(), company(), draft=True)
    set_created_at(reports[2]["id"], datetime(2025, 1, 1, tzinfo=UTC))

    assert ids(api) == [reports[n]["id"] for n in (1, 0, 2)]


# Several parameters of a query that break different rules
INVALID_FILTERS: list[dict[str, tuple[Any, str]]] = [
    {
        "page": (-1, "out-of-range"),
        "size": (0, "out-of-range"),
        "status": ("ready", "invalid-choice"),
        "subjectType": ("PERSON", "invalid-choice"),
        "from": ("2026-02-30", "invalid-format"),
        "to": ("2026-1-1", "invalid-format"),
        "search": ("", "required"),
    },
    {
        "page": (1_000_000_001, "out-of-range"),
        "size": (201, "out-of-range"),
        "status": ("PROCESSING", "invalid-choice"),
        "from": ("", "required"),
        "to": ("2026-01-01T00:00:00Z", "invalid-format"),
        "search": ("  ", "required"),
    },
    {
        "page": ("9" * 5000, "out-of-range"),
        "size": ("1e1", "invalid-type"),
        "status": ("", "invalid-choice"),
        "search": ("x" * 201, "too-long"),
    },
    {"page": ("two", "invalid-type")},
    {"page": ("", "invalid-type")},
    {
        "status": (["READY", "FAILED"], "duplicate"),
        "search": ("a\x00b", "invalid-format"),
        "Status": ("READY", "unknown-parameter"),
        "subject_type": ("COMPANY", "unknown-parameter"),
        "from_": ("2026-01-01", "unknown-parameter"),
        "state": ("READY", "unknown-parameter"),
    },
    {"page": ("1_0", "invalid-type")},
    {"page": ("1.0", "invalid-type")},
]


def test_all_faults_of_an_invalid_filter_are_listed(api: Api):
    for filters in INVALID_FILTERS:
        answer = api.get("/reports", **{k: value for k, (value, _) in filters.items()})

        assert answer.status_code == 400, answer.content
        codes = {name: code for name, (_, code) in filters.items()}
        assert error_codes(answer.json()) == codes


@pytest.fixture
def varied_reports(api: Api) -> dict[str, dict]:
    """Create reports that differ in every filter; return the facts about each by id."""
    truth = {}
    for kind, item in (("INDIVIDUAL", two_checks()), ("COMPANY", company())):
        for draft in (True, False):
            for day in ("2026-03-01", "2026-03-02", "2026-03-03"):
                for name in ("Amina Said", "Jua Solar"):
                    item["subject"]["fullName"] = name
                    report = api.create(item, draft=draft)
                    set_created_at(
                        report["id"], datetime.fromisoformat(f"{day}T12:00:00Z")
                    )
                    truth[report["id"]] = {
                        "subjectType": kind,
                        "status": "DRAFT" if draft else "RUNNING",
                        "day": day,
                        "search": name,
                    }
    return truth


FILTERS = {
    "status": "RUNNING",
    "subjectType": "COMPANY",
    "from": "2026-03-02",
    "to": "2026-03-02",
    "search": "solar",
}


def matches(truth: dict, name: str, value: str) -> bool:
    match name:
        case "from":
            return truth["day"] >= value
        case "to":
            return truth["day"] <= value
        case "search":
            return value in truth["search"].lower()
    return truth[name] == value


def test_filters_work_alone_and_combined(api: Api, varied_reports: dict):
    for count in (0, 1, 2, len(FILTERS)):
        for names in combinations(FILTERS, count):
            query = {name: FILTERS[name] for name in names}
            expected = {
                report
                for report, truth in varied_reports.items()
                if all(matches(truth, *filter) for filter in query.items())
            }
            found = page(api, size=200, **query)
            assert {r["id"] for r in found["content"]} == expected, query
            assert found["totalElements"] == len(expected)
            if count < 2:
                far = page(api, size=1, page=1, **query)
                assert far["totalElements"] == len(expected)


def test_day_filters_are_utc_and_inclusive(api: Api):
    report = api.create(company(), draft=True)
    for moment, first in [
        ("2026-03-01T00:00:00Z", "2026-03-01"),
        ("2026-03-01T23:59:59.999999Z", "2026-03-01"),
        ("2026-03-01T01:00:00+03:00", "2026-02-28"),
        ("2024-02-29T12:00:00Z", "2024-02-29"),
    ]:
        set_created_at(report["id"], datetime.fromisoformat(moment))
        day = datetime.fromisoformat(first)
        before, after = (str((day + timedelta(days=n)).date()) for n in (-1, 1))

        assert ids(api, **{"from": first, "to": first}) == [report["id"]], moment
        assert ids(api, **{"from": after}) == ids(api, to=before) == [], moment


def test_day_filters_accept_the_whole_calendar(api: Api):
    report = api.create(company(), draft=True)

    assert ids(api, **{"from": "0001-01-01", "to": "9999-12-31"}) == [report["id"]]
    assert ids(api, **{"from": "9999-12-31", "to": "0001-01-01"}) == []


def test_list_shows_only_the_clients_reports(api: Api, another_api, live_api):
    api.create(company(), draft=True)

    assert page(another_api)["totalElements"] == page(live_api)["totalElements"] == 0
    assert page(another_api, search="Baobab")["totalElements"] == 0
    assert page(live_api, search="Baobab")["totalElements"] == 0


def test_list_shows_each_reports_score(api: Api):
    report = api.create(person(idNumber="90000003"))
    api.work()

    (summary,) = page(api)["content"]
    assert summary["riskScore"] == api.report(report["id"])["riskScore"] >= 70


def test_list_is_planned_for_its_status(api: Api):
    """A plan for a common status would be slow for a rare one."""
    for _ in range(10):
        api.get("/reports?status=DRAFT")
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements")
        assert not [sql for (sql,) in cursor.fetchall() if '"status" =' in sql]
