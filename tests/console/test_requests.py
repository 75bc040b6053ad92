"""The console's list of API requests: records, filters, pages, and the purge."""

import re
from datetime import datetime, timedelta

import pytest
from django.db import connection
from prometheus_client import REGISTRY

from tests.world.clients import ATTESTED, HOSTED, Api, person
from tests.world.console import ConsoleVisitor
from tests.world.logs import log_lines as log_lines
from verification.db.ids import first_id_at, time_of_id, uuid7
from verification.values.clock import now
from verification.values.local_time import NAIROBI
from verification.web.request_records import RecordWriter, writer
from workspaces import keys
from workspaces.api_requests import AHEAD, RETENTION, purge_api_requests
from workspaces.models import ApiRequest

DROPPED = "verification_request_records_dropped_total"
UNKNOWN = "vrf_test_0123456789ABCDEFGHIJKLMNOPQRSTUV0SEUbx"
ROW = re.compile(r"<tr[^>]*>\s*<th scope=\"row\".*?</tr>", re.DOTALL)


@pytest.fixture(autouse=True)
def no_earlier_records(db: None) -> None:
    writer.clear()


def order(api, item) -> str:
    """Order a report by a request, which is recorded; return its id."""
    answer = api.post("/reports", {"reports": [item]})
    assert answer.status_code == 201
    return answer.json()["reports"][0]["id"]


def recorded() -> list[ApiRequest]:
    """Write what waits, as the thread of a web process does; return all rows."""
    writer.flush()
    return list(ApiRequest.objects.order_by("id"))


def shown(visitor: ConsoleVisitor, **query: str) -> list[str]:
    """Return the rows of the page."""
    writer.flush()
    return ROW.findall(visitor.page("requests", query=query))


def test_request_is_recorded_with_its_facts(api):
    made = order(api, person())
    answer = api.get(f"/reports/{made}")

    created, read = recorded()
    assert (created.method, created.address, created.status) == (
        "POST",
        "/api/v1/reports",
        201,
    )
    assert (read.address, str(read.report_id)) == ("/api/v1/reports/{reportId}", made)
    assert read.key_id == api.key.pk
    assert read.request_id == answer["X-Request-Id"]
    assert read.problem == ""
    assert abs(now() - read.received_at) < timedelta(minutes=1)


def test_refusal_is_recorded_with_the_codes_of_its_faults(api):
    wrong = {**person(idNumber=None), "purpse": "Loan"}
    api.refused("/reports", {"reports": [wrong]})

    (row,) = recorded()
    assert (row.status, row.problem) == (400, "validation-failed")
    assert set(row.reasons) >= {"unknown-member", "missing-input"}


def test_refused_launch_is_recorded_with_its_reasons(api):
    draft = {**person(email="wanjiku@kamau.test"), "consent": HOSTED}
    made = api.create(draft, draft=True)["id"]
    api.refused(f"/reports/{made}/launch")

    row = recorded()[-1]
    assert (row.problem, row.reasons) == (
        "report-not-launchable",
        ["CONSENT_OUTSTANDING", "DRAFT"],
    )


def test_record_holds_nothing_that_the_client_sent(api):
    sent = person(fullName="Wanjiku Canary", idNumber="31415926")
    sent["consent"] = {**ATTESTED, "evidenceReference": "canary-consent"}
    order(api, sent)
    api.get("/reports", search="Wanjiku Canary")
    api.get("/reports/31415926")
    api.refused("/reports", {"reports": [{**sent, "canary": "31415926"}]})

    recorded()
    with connection.cursor() as cursor:
        cursor.execute("SELECT string_agg(r::text, ' ') FROM workspaces_apirequest r")
        (text,) = cursor.fetchone()
    assert "anary" not in text
    assert "31415926" not in text


def test_ended_key_is_recorded_and_an_unknown_one_is_not(api):
    keys.revoke(api.key)
    api.get("/reports")
    api._http.get("/api/v1/reports", headers={"Authorization": f"Bearer {UNKNOWN}"})

    (row,) = recorded()
    assert (row.key_id, row.problem) == (api.key.pk, "invalid-api-key")


def test_member_sees_why_a_request_was_refused(owner, api):
    api.refused("/reports", {"reports": []})

    (row,) = shown(owner)
    assert 'href="/problems/validation-failed"' in row
    assert "The request breaks a rule" in row
    assert "too-few" in row
    assert "POST /api/v1/reports" in row


def test_viewer_sees_requests(viewer, api):
    api.get("/reports")

    assert len(shown(viewer)) == 1


@pytest.fixture
def answered(api: Api) -> Api:
    """Make four requests, two of which are refused, and one with another key."""
    made = order(api, person())
    api.get(f"/reports/{made}")
    api.get("/reports", status="WRONG")
    api.refused(f"/reports/{made}/launch")
    Api(api.workspace, "sandbox").get("/reports")
    return api


FILTERED = [
    ({"outcome": "2", "since": "1969-01-01T00:00", "until": "9999-12-31T23:59"}, 3),
    ({"problem": "validation-failed"}, 1),
    ({"route": "api/v1/reports/<uuid:reportId>/launch"}, 1),
    ({"since": "2999-01-01T00:00"}, 0),
    ({"until": "2020-01-01T00:00"}, 0),
    ({"before": "no id"}, 5),
]


def test_requests_are_filtered(owner, answered):
    for query, number in FILTERED:
        assert len(shown(owner, **query)) == number, query


def test_requests_are_filtered_by_key_and_request_id(owner, answered):
    last = recorded()[-1]

    assert len(shown(owner, key=str(answered.key.pk))) == 4
    assert len(shown(owner, request_id=last.request_id)) == 1


def test_request_is_found_by_the_id_that_its_client_sent(owner, api):
    for given in ("of-ours.1", "0b9cf2a4-8b4f-4c62-9d0e-6a1f2c3d4e5f"):
        api._http.get("/api/v1/reports", headers={"X-Request-Id": given})

        (row,) = shown(owner, request_id=given)
        assert given in row


def test_requests_of_this_minute_are_in_its_interval(owner, answered):
    minute = f"{now().astimezone(NAIROBI):%Y-%m-%dT%H:%M}"

    assert len(shown(owner, since=minute, until=minute)) >= 4


def test_wrong_filters_show_errors(owner):
    query = {"since": "yesterday"}

    assert "<title>Error:" in owner.page("requests", query=query)


def test_further_page_continues_after_the_first(owner, api, monkeypatch):
    monkeypatch.setattr("verification.console.api_requests.PAGE_SIZE", 2)
    for _ in range(3):
        api.get("/reports")
    writer.flush()

    first = owner.page("requests", query={"outcome": "2"})
    (older,) = re.findall(r'href="(\?[^"]*)" rel="next"', first)
    second = owner.http.get(owner.url("requests") + older.replace("&amp;", "&"))
    rows = ROW.findall(second.content.decode())
    assert len(ROW.findall(first)) == 2
    assert len(rows) == 1
    assert not set(rows) & set(ROW.findall(first))


def test_requests_of_others_are_not_listed(owner, stranger, api, live_api):
    api.get("/reports")
    live_api.get("/reports")

    assert len(shown(owner)) == 1
    assert shown(stranger) == []
    assert shown(stranger, key=str(api.key.pk)) == []


def test_requests_older_than_the_retention_are_not_listed(owner, api):
    api.get("/reports")
    (row,) = recorded()
    old = first_id_at(now() - RETENTION - timedelta(seconds=1))
    keep_weeks(since=time_of_id(old))
    ApiRequest.objects.filter(pk=row.pk).update(id=old)
    api.get("/reports")

    assert len(shown(owner)) == 1


def keep_weeks(since: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT keep_api_requests(%s, %s)", [since, now() + AHEAD])


def number_of_weeks() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_inherits "
            "WHERE inhparent = 'workspaces_apirequest'::regclass"
        )
        return int(cursor.fetchone()[0])


def test_purge_drops_the_weeks_before_the_retention(api):
    oldest = now() - RETENTION
    week_before = oldest - timedelta(days=7)
    keep_weeks(since=week_before)
    for moment in (week_before, oldest):
        ApiRequest.objects.create(**row_of(api.key.pk) | {"id": first_id_at(moment)})

    purge_api_requests()

    (left,) = ApiRequest.objects.all()
    assert left.received_at == time_of_id(first_id_at(oldest))


def test_purge_makes_the_weeks_to_come(api):
    keep_weeks(since=now() + timedelta(days=60))
    assert number_of_weeks() == 0
    in_two_weeks = row_of(api.key.pk) | {"id": first_id_at(now() + AHEAD)}

    purge_api_requests()

    assert ApiRequest.objects.create(**in_two_weeks).received_at > now()


def row_of(key_id: object) -> dict[str, object]:
    return {
        "id": uuid7(),
        "key_id": key_id,
        "method": "GET",
        "route": "api/v1/reports",
        "report_id": None,
        "status": 200,
        "problem": "",
        "reasons": ["a", "b"],
        "duration_ms": 3,
        "given_id": "r",
    }


@pytest.mark.parametrize("number", [1, 150, 450])
def test_batches_of_any_size_are_written(api, number):
    ours = RecordWriter()
    for _ in range(number):
        ours.add(row_of(api.key.pk))

    ours.flush()

    assert ApiRequest.objects.filter(reasons=["a", "b"]).count() == number


def test_full_buffer_drops_and_counts(api, monkeypatch):
    monkeypatch.setattr("verification.web.request_records.MAX_WAITING", 2)
    before = REGISTRY.get_sample_value(DROPPED)
    ours = RecordWriter()

    for _ in range(4):
        ours.add(row_of(api.key.pk))

    assert REGISTRY.get_sample_value(DROPPED) == before + 2


@pytest.mark.django_db(transaction=True)
def test_records_that_the_database_refuses_are_dropped_and_logged_once(api, log_lines):
    ours = RecordWriter()

    for route in ("x" * 101, "x" * 101, "api/v1/reports", "x" * 101):
        ours.add({**row_of(api.key.pk), "route": route})
        ours.flush()

    lines = [line["message"] for line in log_lines() if "records" in line["message"]]
    assert lines == [
        "records of requests are dropped: DataError",
        "records of requests are written again",
        "records of requests are dropped: DataError",
    ]
    assert ApiRequest.objects.count() == 1
