"""Exports in the console: masks, permissions, forms."""

import json
from datetime import timedelta
from itertools import product

import pytest
from django.utils.timezone import now

from tests.world.clients import HOSTED, person
from tests.world.rules import raise_alert
from tests.world.staff import CHANGE
from verification.backoffice.models import AuditEvent
from verification.values.local_time import NAIROBI

DETAILS = ("Wanjiku", "12345678", "wanjiku@", "712345678", "Loan application")


def fields(**more: str) -> dict[str, str]:
    today = f"{now().astimezone(NAIROBI):%Y-%m-%d}"
    given = {"kind": "reports", "first": today, "last": today, "format": "csv"}
    return {**given, **more}


def export(visitor, **more: str) -> str:
    answer = visitor.post("exports", fields(**more))
    assert answer.status_code == 200
    assert answer["Content-Disposition"].startswith("attachment"), answer.content
    assert answer["Cache-Control"] == "no-store"
    return b"".join(answer.streaming_content).decode()


@pytest.fixture
def ordered(api):
    made = api.create(
        person(email="wanjiku@kamau.test", phone="+254712345678"),
        {**person(email="wanjiku@kamau.test"), "consent": HOSTED},
    )
    api.work()
    return made


def test_spreadsheet_reads_names_of_all_languages(owner, api):
    api.create(person(fullName="Njũgũna wa Kĩmani"))

    table = export(owner, in_full="on", reason="Loan book audit")

    # The mark by which spreadsheets know UTF-8
    assert table.startswith("\ufeffid,")
    assert "Njũgũna wa Kĩmani" in table
    assert not export(owner, format="jsonl").startswith("\ufeff")


def test_form_begins_with_the_last_thirty_days(owner):
    today = now().astimezone(NAIROBI)

    html = owner.page("exports")

    assert f'name="first" value="{today - timedelta(days=29):%Y-%m-%d}"' in html
    assert f'name="last" value="{today:%Y-%m-%d}"' in html


def test_details_about_people_are_masked(viewer, ordered):
    for kind, format in product(["reports", "results"], ["csv", "jsonl"]):
        text = export(viewer, kind=kind, format=format)

        assert ordered[0]["id"] in text
        for detail in DETAILS:
            assert detail not in text, (kind, format)


def test_masked_lines_keep_states_and_open_no_page(viewer, ordered):
    rows = [json.loads(line) for line in export(viewer, format="jsonl").splitlines()]

    assert [row["status"] for row in rows] == ["READY", "PENDING_CONSENT"]
    assert rows[0]["subject"]["subjectType"] == "INDIVIDUAL"
    assert rows[0]["checkResults"][0]["status"] == "COMPLETED"
    assert rows[1]["consentState"]["consentUrl"] is None


def test_masked_alerts_say_that_something_changed(viewer, api):
    raise_alert(api, changes=[CHANGE])

    (row,) = map(json.loads, export(viewer, kind="alerts", format="jsonl").splitlines())
    assert row["title"]
    assert set(row["message"]) == {"•"}
    (change,) = row["changes"]
    assert "•" in change["new"]
    assert CHANGE["new"] not in change["new"]


def test_owner_exports_in_full_with_a_reason(owner, ordered):
    text = export(owner, in_full="on", reason="Loan book audit")

    assert "Wanjiku Kamau" in text
    event = AuditEvent.objects.get(action="export.started")
    assert event.reason.endswith("csv, in full: Loan book audit")
    assert event.actor == owner.member.user.username


def test_export_in_full_needs_a_reason(owner, ordered):
    answer = owner.post("exports", fields(in_full="on"))

    assert "<title>Error:" in answer.content.decode()


def test_viewer_cannot_export_in_full(viewer, ordered):
    assert 'name="in_full"' not in viewer.page("exports")
    text = export(viewer, in_full="on", reason="Curious")

    assert "Wanjiku" not in text
    assert "masked" in AuditEvent.objects.get(action="export.started").reason


def test_wrong_form_exports_nothing(owner):
    for wrong in (
        {"kind": "keys"},
        {"format": "xlsx"},
        {"first": ""},
        {"first": "2020-01-01"},
        {"first": "2999-01-01"},
    ):
        answer = owner.post("exports", fields(**wrong))

        assert "<title>Error:" in answer.content.decode(), wrong
    assert not AuditEvent.objects.filter(action="export.started").exists()


def test_third_export_at_once_is_told_to_wait_for_an_end(owner):
    under_way = [owner.post("exports", fields()) for _ in range(2)]

    refused = owner.post("exports", fields()).content.decode()

    assert [answer.streaming for answer in under_way] == [True, True]
    assert "Start the next when one has ended." in refused


def test_suspended_workspace_still_exports(owner, ordered):
    owner.workspace.suspend("Unpaid")

    assert ordered[0]["id"] in export(owner)
