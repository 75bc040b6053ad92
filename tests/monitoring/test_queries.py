import uuid
from typing import Any

import pytest

from monitoring.models import Alert, Rule
from tests.world.clients import Api, error_codes
from tests.world.rules import list_alerts, raise_alert, store_rule


def rules(api: Api, **query: Any) -> dict[str, Any]:
    answer = api.get("/monitoring", **query)
    assert answer.status_code == 200, answer.content
    return answer.json()


def ids(page: dict[str, Any]) -> list[str]:
    return [row["id"] for row in page["content"]]


@pytest.fixture
def five(api: Api) -> list[str]:
    """Store five rules, two of them at the same moment; return ids, newest first."""
    made = [store_rule(api, id_number=str(20000000 + n)) for n in range(5)]
    same = Rule.objects.filter(pk__in=[made[1].pk, made[2].pk])
    same.update(created_at=made[1].created_at)
    return [str(r.pk) for r in Rule.objects.order_by("-created_at", "-id")]


def test_rules_are_listed_newest_first(api: Api, five: list[str]):
    assert ids(rules(api)) == five
    pages = [rules(api, page=number, size=2) for number in range(4)]
    assert [one for page in pages for one in ids(page)] == five


def test_rules_are_found_by_status(api: Api, five: list[str]):
    api.post(f"/monitoring/{five[1]}/pause")

    assert ids(rules(api, status="PAUSED")) == [five[1]]
    assert rules(api, status="ACTIVE")["totalElements"] == 4


def test_every_page_has_the_exact_total(api: Api, five: list[str]):
    for size in [2, 5, 6]:
        for number in range(-(-5 // size) + 2):
            page = rules(api, page=number, size=size)
            assert page["totalElements"] == 5
            assert page["totalPages"] == -(-5 // size)
            assert page["first"] is (number == 0)
            assert page["last"] is (number >= page["totalPages"] - 1)
            assert ids(page) == five[number * size : (number + 1) * size]


def test_wrong_parameter_is_named(api: Api):
    for query, code in [
        ({"page": -1}, "out-of-range"),
        ({"size": 0}, "out-of-range"),
        ({"size": 201}, "out-of-range"),
        ({"page": "x"}, "invalid-type"),
        ({"search": "s" * 201}, "too-long"),
        ({"status": "active"}, "invalid-choice"),
        ({"cadence": "DAILY"}, "unknown-parameter"),
    ]:
        answer = api.get("/monitoring", **query)
        assert error_codes(answer.json()) == {next(iter(query)): code}


@pytest.fixture
def wanted(api: Api, another_api: Api, live_api: Api) -> Rule:
    """Store the rule to find, and other rules in this and another workspace."""
    for other in (another_api, live_api):
        store_rule(other, subject=SUBJECT, reference="loan-4711")
    store_rule(api, id_number="33333333")
    return store_rule(api, subject=SUBJECT, reference="loan-4711")


SUBJECT = {
    "subjectType": "INDIVIDUAL",
    "fullName": "Atieno Nyambura Ochieng",
    "idNumber": "23456789",
    "email": "Atieno@example.com",
    "phone": "+254712345678",
}


SEARCHES = [
    "Nyambura",
    "nyam",
    "ATIENO NYAMBURA",
    "a o",
    "23456789",
    "2345 6789",
    "2345-6789",
    "atieno@example.com",
    "+254712345678",
    "0712 345 678",
    "loan-4711",
    "  Ochieng ",
]


def test_rule_is_found_by(api: Api, wanted: Rule):
    for text in SEARCHES:
        found = rules(api, search=text)
        assert (ids(found), found["totalElements"]) == ([str(wanted.pk)], 1), text


def test_rule_is_found_by_its_id(api: Api, wanted: Rule):
    assert ids(rules(api, search=str(wanted.pk))) == [str(wanted.pk)]


def test_rule_is_not_found_by(api: Api, wanted: Rule):
    for text in [
        "2345678",
        "atieno@example",
        "+254712345679",
        "loan-471",
        "Kimani",
        "%",
        "_",
        "\\",
        "'",
    ]:
        assert ids(rules(api, search=text)) == []


def test_rule_shows_its_newest_ten_alerts(api: Api):
    made, other = store_rule(api), store_rule(api, id_number="33333333")
    report = raise_alert(api, other).report_id
    newest = [raise_alert(api, made, report_id=report) for _ in range(13)][:2:-1]

    shown = api.get(f"/monitoring/{made.pk}").json()["recentAlerts"]

    assert [alert["id"] for alert in shown] == [str(alert.pk) for alert in newest]
    in_list = {row["id"]: row["recentAlerts"] for row in rules(api)["content"]}
    assert in_list[str(made.pk)] == shown
    assert len(in_list[str(other.pk)]) == 1


def test_long_lists_cost_the_same_as_short_ones(
    api: Api, django_assert_max_num_queries
):
    for _ in range(12):
        made = store_rule(api)
        raise_alert(api, made)
    for path in ("/monitoring", "/monitoring/alerts"):
        # Key, rate, rows, total, alerts, and two statements around each plan.
        with django_assert_max_num_queries(9):
            assert api.get(path, size=10).json()["totalElements"] == 12


@pytest.fixture
def various(api: Api, another_api: Api, live_api: Api) -> list[Alert]:
    """Store alerts in this and another workspace; return ours, newest first."""
    raise_alert(another_api), raise_alert(live_api)
    made = store_rule(api)
    ours = [
        raise_alert(api, severity="INFO", read=True),
        raise_alert(api, made, severity="WARNING"),
        raise_alert(api, made, severity="CRITICAL"),
        raise_alert(api, made, severity="INFO", actioned=True),
    ]
    return ours[::-1]


FILTERS = [
    ({}, [0, 1, 2, 3]),
    ({"read": "false"}, [0, 1, 2]),
    ({"read": "true"}, [3]),
    ({"severity": "INFO"}, [0, 3]),
    ({"severity": "INFO", "read": "true"}, [3]),
    ({"severity": "CRITICAL", "read": "true"}, []),
    ({"page": 1, "size": 3}, [3]),
    ({"page": 9}, []),
]


def test_alerts_are_filtered_and_counted(api: Api, various: list[Alert]):
    for query, expected in FILTERS:
        page = api.get("/monitoring/alerts", **query).json()

        assert ids(page) == [str(various[number].pk) for number in expected], query
        total = {**query, "page": 0, "size": 200}
        assert page["totalElements"] == len(list_alerts(api, **total)), query
    of_rule = list_alerts(api, ruleId=various[0].rule_id)
    assert [one["id"] for one in of_rule] == [str(alert.pk) for alert in various[:3]]


def test_wrong_alert_filter_is_named(api: Api):
    for query, code in [
        ({"read": "yes"}, "invalid-choice"),
        ({"severity": "info"}, "invalid-choice"),
        ({"ruleId": "x"}, "invalid-format"),
        ({"search": "x"}, "unknown-parameter"),
    ]:
        answer = api.get("/monitoring/alerts", **query)
        assert error_codes(answer.json()) == {next(iter(query)): code}


def test_read_all_marks_only_own_alerts(
    api: Api, another_api: Api, live_api: Api, various: list[Alert]
):
    answer = api.patch("/monitoring/alerts/read-all")

    assert (answer.status_code, answer.content) == (204, b"")
    assert list_alerts(api, read="false") == []
    assert len(list_alerts(api, read="true")) == 4
    assert len(list_alerts(api, severity="INFO")) == 2
    for other in (another_api, live_api):
        assert len(list_alerts(other, read="false")) == 1
    assert api.put("/monitoring/alerts/read-all").status_code == 204


def test_read_all_refuses_bodies_and_other_methods(api: Api):
    for method in ["patch", "put"]:
        answer = getattr(api, method)("/monitoring/alerts/read-all", {"read": True})
        assert answer.status_code == 400
        assert api.post("/monitoring/alerts/read-all").status_code == 405


def test_alert_is_marked_and_unmarked(api: Api):
    made = raise_alert(api)
    path = f"/monitoring/alerts/{made.pk}"

    assert [api.get(path).json()] == list_alerts(api)
    assert api.patch(path, {"read": True}).json()["read"] is True
    marked = api.patch(path, {"actioned": True}).json()
    assert (marked["read"], marked["actioned"]) == (True, True)
    unmarked = api.patch(path, {"read": False}).json()
    assert (unmarked["read"], unmarked["actioned"]) == (False, True)
    assert api.patch(path, {}).json() == unmarked
    assert list_alerts(api) == [unmarked]


def test_other_members_of_an_alert_cannot_be_edited(api: Api):
    made = raise_alert(api)
    for body, code in [
        ({"read": "true"}, {"#/read": "invalid-type"}),
        ({"actioned": 1}, {"#/actioned": "invalid-type"}),
        ({"title": "x"}, {"#/title": "unknown-member"}),
    ]:
        answer = api.patch(f"/monitoring/alerts/{made.pk}", body)
        assert error_codes(answer.json()) == code
        made.refresh_from_db()
        assert (made.read, made.actioned) == (False, False)


def test_unknown_alert_is_not_found(api: Api):
    path = f"/monitoring/alerts/{uuid.uuid4()}"
    assert api.patch(path, {"read": True}).status_code == 404
    assert api.get(path).status_code == 404
