"""Exports over the API: rows, files, masks, periods, limits, and the audit trail."""

import csv
import io
import json
from datetime import timedelta
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import User
from django.utils.timezone import now

from tests.world.clients import Api, approve_workspace, company, erase, person
from tests.world.console import ConsoleVisitor
from tests.world.decisions import (
    ADVERSE,
    APPROVE,
    DECLINE,
    create_ready_report,
    decide,
    deciding_api,
)
from tests.world.deliveries import SECRET, URL
from tests.world.members import create_member
from tests.world.rules import create_rule, raise_alert, top_up_account
from verification.api import export_kinds
from verification.api.authentication import EXPORTS_PER_MINUTE
from verification.api.exports import Export
from verification.backoffice.models import AuditEvent
from verification.checks.models import CheckResult
from verification.db.ids import uuid7
from verification.privacy.models import Disclosure
from verification.reports.models import Report
from webhooks.models import Delivery
from workspaces.models import Scope

KINDS = ["reports", "results", "decisions", "alerts", "audit-trail"]


def period(**query: str) -> dict[str, str]:
    today = f"{now():%Y-%m-%d}"
    return {"from": today, "to": today, **query}


def export(api: Api, kind: str, **query: str) -> bytes:
    if kind == "audit-trail":
        api = Api(api.workspace, api.environment, scopes=[Scope.AUDIT_READ])
    answer = api.get(f"/exports/{kind}", **period(**query))
    assert answer.status_code == 200, answer.content
    return b"".join(answer.streaming_content)


def lines(api: Api, kind: str, **query: str) -> list[dict]:
    text = export(api, kind, format="jsonl", **query).decode()
    return [json.loads(line) for line in text.splitlines()]


def cells(api: Api, kind: str, **query: str) -> list[dict[str, str]]:
    text = export(api, kind, **query).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_lines_are_the_reports_that_the_api_answers_with(api):
    made = [one["id"] for one in api.create(person(), company())]
    api.work()

    assert lines(api, "reports") == [api.report(one) for one in made]


def test_lines_of_results_name_their_report(api):
    made = api.create({**person(), "reference": "loan-7"})["id"]
    api.work()

    found = lines(api, "results")
    answered = api.report(made)["checkResults"]
    more = {"reportId": made, "reference": "loan-7"}
    assert found == [{**result, **more} for result in answered]


def test_lines_of_alerts_are_those_of_the_list(api):
    raise_alert(api)

    assert lines(api, "alerts") == api.get("/monitoring/alerts").json()["content"]
    # Programs may read columns by position, so a new one is the last.
    assert list(cells(api, "alerts")[0])[-2:] == ["createdAt", "reference"]


def test_lines_of_decisions_are_those_of_their_report(api):
    deciding = deciding_api(api)
    made = [create_ready_report(api), create_ready_report(api, ADVERSE)]
    decide(deciding, made[0], APPROVE)
    decide(deciding, made[1], DECLINE, note="Call her first")

    found = lines(api, "decisions")
    listed = [api.get(f"/reports/{one}/decisions").json()["content"][0] for one in made]
    assert found == listed
    assert [row["decision"] for row in lines(api, "reports")] == found
    assert cells(api, "decisions")[1]["reasonCodes"] == "ADVERSE_CREDIT"


def test_table_has_the_members_of_reports(api):
    made = api.create({**person(phone="+254712345678"), "reference": "loan-7"})["id"]
    api.work()

    (row,) = cells(api, "reports")
    report = api.report(made)
    assert row["id"] == made
    assert row["subject.fullName"] == "Wanjiku Kamau"
    assert row["checksRequested"] == "IDENTITY, KRA_PIN, CRB_SCORE"
    assert row["riskScore"] == str(report["riskScore"])
    assert row["createdAt"] == report["createdAt"]
    assert row["failure.code"] == ""


def test_table_has_flags_and_details_of_results(api):
    api.create(person(idNumber="90000002"))
    api.work()

    row = cells(api, "results")[0]
    assert "NAME_MISMATCH" in row["flags.code"]
    assert json.loads(row["details"])["idNumber"] == "90000002"


def test_no_cell_is_a_formula(api):
    formulas = [f"{start}cmd|' /C calc'!A0" for start in "=+-@\t\uff1d"]
    api.create(*[{**person(), "purpose": one, "reference": one} for one in formulas])

    rows = cells(api, "reports")
    assert len(rows) == len(formulas)
    for cell in (row[name] for row in rows for name in ("purpose", "reference")):
        assert cell.endswith("cmd|' /C calc'!A0")
        assert cell[0] not in "=+-@\t\r\n\uff1d"


def test_rows_are_complete_over_pages(api, monkeypatch):
    item = {"checksRequested": ["IDENTITY"]}
    made = api.create(*[person(idNumber=f"1234567{n}") | item for n in range(3)])
    api.work()
    # As if they were made at once
    Report.objects.update(created_at=now())
    deciding = deciding_api(api)
    for one in made:
        decide(deciding, one["id"], APPROVE)
    wholes = [export(api, kind) for kind in KINDS]
    monkeypatch.setattr(export_kinds, "PAGE_SIZE", 2)

    for kind, whole in zip(KINDS, wholes, strict=True):
        paged = export(api, kind)
        # Exports are in the audit trail themselves.
        is_same = paged.startswith if kind == "audit-trail" else paged.__eq__
        assert is_same(whole), kind


def test_days_of_the_period_count_in_utc(api):
    for days in range(3):
        made = api.create(person(idNumber=f"1234567{days}"))["id"]
        at = now().replace(hour=23, minute=59) - timedelta(days=days + 1)
        Report.objects.filter(pk=made).update(created_at=at)
    first, last = (f"{now() - timedelta(days=days):%Y-%m-%d}" for days in (2, 1))

    assert len(lines(api, "reports", **{"from": first, "to": last})) == 2
    assert len(lines(api, "reports", **{"from": last, "to": last})) == 1


def test_wrong_period_or_format_is_refused(api):
    for query in (
        {"from": "2026-02-02", "to": "2026-02-01"},
        {"from": "2025-01-01", "to": "2026-01-02"},
        {"from": "2026-02-30", "to": "2026-03-01"},
        {"from": "2026-02-01"},
        {},
        {"from": "2026-02-01", "to": "2026-02-01", "format": "xlsx"},
        {"from": "2026-02-01", "to": "2026-02-01", "page": "1"},
    ):
        answer = api.get("/exports/reports", **query)

        refusal = (answer.status_code, answer.json()["code"])
        assert refusal == (400, "validation-failed"), query


def test_period_may_have_a_leap_year(api):
    answer = api.get("/exports/reports", **{"from": "2024-01-01", "to": "2024-12-31"})

    assert answer.status_code == 200
    assert len(b"".join(answer.streaming_content).splitlines()) == 1


def test_years_before_ids_had_times_are_empty(api):
    query = {"from": "1969-12-01", "to": "1969-12-31"}

    for kind in ("reports", "decisions"):
        assert api.get(f"/exports/{kind}", **query).status_code == 200


def test_unknown_kind_is_not_found(api):
    assert api.get("/exports/secrets", **period()).status_code == 404


def test_rows_of_others_are_not_exported(api, another_api, live_api):
    top_up_account(live_api, 1_000)
    for other in (another_api, live_api):
        decide(deciding_api(other), create_ready_report(other))
        raise_alert(other)
        assert all(lines(other, kind) for kind in KINDS[:-1])
    # The audit trail is that of both environments.
    foreign = {line["id"] for line in lines(another_api, "audit-trail")}
    assert foreign

    for kind in KINDS[:-1]:
        assert lines(api, kind) == []
    assert foreign.isdisjoint(line["id"] for line in lines(api, "audit-trail"))


@pytest.mark.usefixtures("new_minute")
def test_key_may_export_ten_times_a_minute(api):
    statuses = []
    for _ in range(EXPORTS_PER_MINUTE + 3):
        answer = api.get("/exports/alerts", **period())
        if answer.streaming:
            b"".join(answer.streaming_content)
        statuses.append(answer.status_code)

    assert statuses == [200] * EXPORTS_PER_MINUTE + [429] * 3
    assert api.get("/reports").status_code == 200


def test_workspace_has_two_exports_at_once(api, another_api):
    one, two = (api.get("/exports/reports", **period()) for _ in range(2))

    refused = api.get("/exports/alerts", **period())

    assert (refused.status_code, refused["Retry-After"]) == (429, "60")
    for other in (another_api, Api(api.workspace, "production")):
        assert other.get("/exports/alerts", **period()).status_code == 200
    b"".join(one.streaming_content)
    assert api.get("/exports/alerts", **period()).status_code == 200
    assert not two.closed


def test_exports_that_begin_together_count(api, monkeypatch):
    asked, record = [], Export._record

    def ask_for_another(self, act, *more):
        if act == "export.started":
            asked.append(api.get("/exports/reports", **period()).status_code)
        record(self, act, *more)

    monkeypatch.setattr(Export, "_record", ask_for_another)

    assert api.get("/exports/reports", **period()).status_code == 200
    assert asked == [429, 200]


def test_export_that_cannot_begin_does_not_count(api, monkeypatch):
    kept = []
    with monkeypatch.context() as broken:
        broken.setattr(Export, "_record", Mock(side_effect=ConnectionError))
        for _ in range(2):
            with pytest.raises(ConnectionError) as e:
                api.get("/exports/reports", **period())
            # A traceback keeps the answer that was not sent.
            kept.append(e)

    assert api.get("/exports/reports", **period()).status_code == 200


def test_export_is_in_the_audit_trail(api):
    api.create(person(), company())
    today = f"{now():%Y-%m-%d}"

    export(api, "reports", format="jsonl")

    started, ended = AuditEvent.objects.filter(action__startswith="export.").order_by(
        "id"
    )
    assert (started.action, ended.action) == ("export.started", "export.ended")
    assert (started.actor_kind, started.actor) == ("KEY", str(api.key))
    assert started.workspace_id == api.workspace.pk
    assert started.reason == f"reports, {today} to {today}, jsonl, in full"
    assert ended.reason == f"{started.reason}, 2 rows"
    assert started.request_id == ended.request_id != ""


def test_acts_of_a_key_are_in_the_audit_trail(api):
    api = deciding_api(api)
    rule = f"/monitoring/{create_rule(api)['id']}"
    for _ in range(2):
        api.post(f"{rule}/pause")
    for _ in range(2):
        api.post(f"{rule}/resume", {})
    api.delete(rule)
    receiver = {"url": URL, "enabled": True, "enabledEvents": ["report.created"]}
    for changes in ({"secret": SECRET}, {}, {"secret": "another-secret-of-16"}):
        answer = api.post("/webhooks/config", {**receiver, **changes})
        assert answer.status_code == 200, answer.content
    report = create_ready_report(api)
    delivery = Delivery.objects.get(event__report_id=report)
    api.post(f"/webhooks/deliveries/{delivery.pk}/redeliver")
    api.post("/webhooks/recover", {"since": f"{now():%Y-%m-%dT%H:%M:%SZ}"})
    api.delete("/webhooks/config")
    decide(api, report, APPROVE)

    found = AuditEvent.objects.order_by("id")
    assert list(found.values_list("action", "fields")) == [
        ("rule.created", []),
        ("rule.paused", []),
        ("rule.resumed", []),
        ("rule.deleted", []),
        ("configuration.changed", ["url", "enabled", "enabled_events", "secret"]),
        ("configuration.changed", []),
        ("configuration.changed", ["secret"]),
        ("delivery.redelivered", []),
        ("deliveries.recovered", []),
        ("configuration.removed", []),
        ("decision.made", []),
    ]
    for event in found:
        assert (event.actor_kind, event.actor) == ("KEY", str(api.key)), event.action
        assert (event.workspace_id, event.address) == (api.workspace.pk, "127.0.0.1")


def test_export_that_its_client_left_is_in_the_audit_trail(api, monkeypatch):
    monkeypatch.setattr(export_kinds, "PAGE_SIZE", 1)
    api.create(person(), company(), company(registrationNumber="PVT-777"))

    answer = api.get("/exports/reports", **period(format="jsonl"))
    next(iter(answer.streaming_content))
    # As the test client does when its response is closed.
    answer._iterator.close()

    ended = AuditEvent.objects.get(action="export.ended")
    assert ended.reason.endswith("left after 1 rows")


@pytest.mark.parametrize("kind", ["reports", "results"])
def test_export_is_a_disclosure_of_findings(api, kind):
    made = api.create({**person(), "checksRequested": ["IDENTITY"]})["id"]
    api.work()
    # Without a finding
    api.create({**person(), "consent": {"mode": "SERVICE_HOSTED"}})

    export(api, kind)

    found = Disclosure.objects.filter(channel="API")
    assert [str(one.report_id) for one in found] == [made]


def test_export_of_a_finding_without_a_score_is_a_disclosure(api):
    made = api.create({**person(), "checksRequested": ["IDENTITY"]})["id"]
    api.work()
    CheckResult.objects.update(score=None, risk_level="UNKNOWN")
    Report.objects.update(risk_score=None, risk_level="UNKNOWN")

    export(api, "reports")

    assert str(Disclosure.objects.get(channel="API").report_id) == made


def test_erased_report_is_a_skeleton(api):
    made = api.create(person())["id"]
    api.work()
    erase(api, made)

    assert "Wanjiku" not in export(api, "reports").decode()
    (line,) = lines(api, "reports")
    assert line["subject"] is None
    assert line["erasureId"]


def test_audit_trail_names_members_and_no_staff(api):
    owner = ConsoleVisitor(create_member(api.workspace, "OWNER"))
    # Sign-up makes such user names.
    User.objects.filter(pk=owner.member.user_id).update(username=uuid7().hex)
    made = api.create(person())["id"]
    owner.get("reports-detail", report=made)
    AuditEvent.objects.create(
        actor_kind="STAFF",
        actor="grace",
        action="report.revealed",
        object_type="reports.report",
        object_id=made,
        workspace_id=api.workspace.pk,
        reason="An internal note",
        address="192.0.2.7",
    )

    text = export(api, "audit-trail").decode()
    found = {line["action"]: line for line in lines(api, "audit-trail")}
    assert found["report.opened"]["actor"] == owner.member.user.email
    assert found["report.opened"]["objectId"] == made
    assert found["report.revealed"]["actor"] == "staff"
    for hidden in ("grace", "An internal note", "192.0.2.7"):
        assert hidden not in text


def test_audit_trail_shows_no_address_of_a_member_who_left(api):
    left = ConsoleVisitor(create_member(api.workspace, "ADMIN"))
    left.get("reports-detail", report=api.create(person())["id"])
    left.member.delete()
    User.objects.filter(pk=left.member.user_id).update(first_name="Amina Said")

    (line,) = (one for one in lines(api, "audit-trail") if one["actorKind"] == "MEMBER")

    assert line["actor"] == "Amina Said"


def test_test_key_gets_the_audit_trail_of_a_live_workspace_masked(api, live_api):
    approve_workspace(api.workspace)
    owner = ConsoleVisitor(create_member(api.workspace, "OWNER"))
    owner.get("reports-detail", report=api.create(person())["id"])
    name = owner.member.user.email

    assert name not in export(api, "audit-trail").decode()
    assert name in export(live_api, "audit-trail").decode()


def test_accept_may_name_the_format(api):
    for accept, status in (("text/csv", 200), ("application/json", 200), ("a/b", 406)):
        answer = api._http.get(
            "/api/v1/exports/alerts", period(), headers={"Accept": accept}
        )
        assert answer.status_code == status, accept
