"""Comparison of runs, and the alerts that it raises."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.utils.timezone import now

from monitoring.alerts import (
    ComparisonFailed,
    _change_alert,
    compare_lost_runs,
    compare_runs,
    find_changes,
    message_of,
    snapshot_of,
    title_of,
)
from monitoring.models import Alert, Baseline, Cadence, Rule, Run
from monitoring.runs import change_rule, launch_due_runs
from tests.checks.engine import work_until_done
from tests.world.clients import Api
from tests.world.console import ConsoleVisitor
from tests.world.members import create_member
from tests.world.orders import REFUSED
from tests.world.orders import _the_ledger_adds_up as _the_ledger_adds_up
from tests.world.rules import (
    CHANGING,
    create_rule,
    end_runs,
    list_alerts,
    move_rules_back,
    run_rules,
)
from tests.world.staff import change_url, read_page
from verification.api.events import EVENTS
from verification.checks.models import CheckResult
from verification.jobs.models import Job
from verification.reports.models import Report
from webhooks.events import envelope
from webhooks.models import Event

DAY = timedelta(days=1)


def launch_next_run(api: Api) -> Run:
    """Launch the rule's run of the next day; its checks are still due."""
    move_rules_back(DAY)
    launch_due_runs()
    return Run.objects.latest("number")


def compare_reports(*runs: Run) -> None:
    compare_runs(*(str(run.report_id) for run in runs))


def complete_run(run: Run, **details: Any) -> None:
    """Complete the only check of the run with these details."""
    result = CheckResult.objects.get(report=run.report_id)
    result.finding = {"summary": "", "flags": [], "details": details}
    result.status, result.completed_at = "COMPLETED", now()
    result.next_attempt_at, result.risk_level = None, "LOW"
    result.save()
    Report.objects.filter(pk=run.report_id).update(status="READY", completed_at=now())


def set_id_number(run: Run, id_number: str) -> None:
    report = Report.objects.get(pk=run.report_id)
    report.subject = {**report.subject, "idNumber": id_number}
    report.save()


@pytest.fixture
def made(api: Api) -> dict[str, Any]:
    """Create a rule whose first run has completed."""
    rule = create_rule(api)
    run_rules(api)
    return rule


def test_changes_and_messages_are_sealed_in_the_database(
    api: Api, made: dict[str, Any], staff
):
    run = launch_next_run(api)
    complete_run(run)
    result = CheckResult.objects.get(report=run.report_id)
    flag = {"code": "ON_A_LIST", "severity": "HIGH", "message": ""}
    result.finding = {**result.finding, "flags": [flag]}
    result.save()
    compare_reports(run)

    (alert,) = list_alerts(api)
    assert "new flag ON_A_LIST" in alert["message"]
    assert "new flag ON_A_LIST" in read_page(staff, change_url(Alert.objects.get()))
    with connection.cursor() as cursor:
        cursor.execute("SELECT a::text, message FROM monitoring_alert a")
        row, message = cursor.fetchone()
    assert "ON_A_LIST" not in row
    assert b"ON_A_LIST" not in bytes(message)


def test_ended_report_schedules_the_comparison(api: Api, made: dict[str, Any]):
    run = launch_next_run(api)
    api.work()

    job = Job.objects.filter(function="monitoring.alerts.compare_runs").latest("id")
    assert job.arguments == [str(run.report_id)]


def test_run_compared_three_times_raises_one_alert(api: Api):
    create_rule(api, id_number=CHANGING)
    run_rules(api)
    run = launch_next_run(api)
    api.work()

    for _ in range(3):
        compare_reports(run)

    assert Alert.objects.count() == 1
    assert Event.objects.filter(name="monitoring.alert.created").count() == 1


def test_older_run_that_ends_late_raises_no_alert(api: Api, made):
    older = launch_next_run(api)
    end_runs()
    newer = launch_next_run(api)
    complete_run(newer, name="second")
    compare_reports(newer)

    complete_run(older, name="first")
    compare_reports(older)

    assert Alert.objects.count() == 0
    assert Baseline.objects.get().run_number == newer.number


def test_run_under_way_is_not_compared_with_an_earlier_one(api: Api, made):
    older = launch_next_run(api)
    complete_run(older, firstName="a")
    newer = launch_next_run(api)
    complete_run(newer, firstName="b")
    under_way = {"status": "RUNNING", "completed_at": None}
    Report.objects.filter(pk=newer.report_id).update(**under_way)

    compare_reports(older)

    assert Baseline.objects.get().run_number == older.number
    compare_reports(newer)
    assert Alert.objects.filter(report=newer.report_id).count() == 1


def test_runs_of_one_job_are_compared_in_their_order(api: Api, made):
    runs = []
    for name in ("a", "b", "a"):
        runs.append(launch_next_run(api))
        complete_run(runs[-1], firstName=name)
    first, second, third = runs
    Baseline.objects.all().delete()

    compare_reports(third, first, second)

    found = [alert["changes"][0] for alert in list_alerts(api)]
    assert [(c["old"], c["new"]) for c in found] == [("b", "a"), ("a", "b")]


# Answers of a source that tells whether the person lives, and of one that never does:
# risk level, flags, output fields, fields not told.
ALIVE = "LOW", {}, {"lifeStatus": None, "citizenship": "KE"}, []
DEAD = "HIGH", {"DECEASED": "HIGH"}, {"lifeStatus": "DECEASED", "citizenship": "KE"}, []
UNTOLD = ["lifeStatus", "citizenship"]
BLIND = "UNKNOWN", {}, {"lifeStatus": None, "citizenship": None}, UNTOLD
OTHER_NAME = "MEDIUM", {"NAME_MISMATCH": "MEDIUM"}, BLIND[2], UNTOLD
# Answers of sources that tell the state, and leave it open once.
ACTIVE = "LOW", {}, {"pinStatus": "ACTIVE"}, []
SUSPENDED = "HIGH", {"PIN_INACTIVE": "HIGH"}, {"pinStatus": "SUSPENDED"}, []
NO_STATE = "UNKNOWN", {}, {"pinStatus": None}, []
LISTED = "HIGH", {"ADVERSE_LISTING": "HIGH"}, {"listingStatus": "LISTED"}, []
NO_LISTING = "UNKNOWN", {}, {"listingStatus": None}, []
NO_RECORD = "MEDIUM", {"NO_CREDIT_RECORD": "MEDIUM"}, NO_LISTING[2], []
ENDED = {"companyStatus": "DISSOLVED", "directors": [{"fullName": "JANE KAMAU"}]}
GONE = "HIGH", {"COMPANY_DISSOLVED": "HIGH"}, ENDED, []
NO_STATUS = "UNKNOWN", {}, dict.fromkeys(ENDED), []
# Answers that give the name, that hide it, and that give it together with another flag.
NAMED = "LOW", {}, {"fullName": "JANE KAMAU", "nameMatch": "MATCH"}, []
OTHER = {"fullName": "PETER OUMA", "nameMatch": "NO_MATCH"}
MISNAMED = "MEDIUM", {"NAME_MISMATCH": "MEDIUM"}, OTHER, []
HIDDEN = {"fullName": "*** ***", "nameMatch": None}
NAMELESS = "UNKNOWN", {"NAME_NOT_COMPARED": "LOW"}, HIDDEN, []
DEAD_NAMELESS = "HIGH", {"NAME_NOT_COMPARED": "LOW", "DECEASED": "HIGH"}, HIDDEN, []
# A company that is monitored by its number alone
UNNAMED = "LOW", {}, {"registeredName": "ACACIA TEA", "nameMatch": None}, []
UNNAMED_OPEN = "UNKNOWN", *UNNAMED[1:]
NOBODY = "HIGH", {"ID_NOT_FOUND": "HIGH"}, dict.fromkeys(HIDDEN), []
MASKED = "LOW", {}, {"fullName": "J**e K***u", "nameMatch": "PARTIAL_MATCH"}, []
OTHER_MASKED = "LOW", {}, {"fullName": "P**r O**a", "nameMatch": "PARTIAL_MATCH"}, []
BORN = {"dateOfBirth": "1985-03-04", "dateOfBirthMatch": "NO_MATCH"}
MISBORN = "MEDIUM", {"DOB_MISMATCH": "MEDIUM"}, BORN, []
NO_BIRTH = "UNKNOWN", {}, dict.fromkeys(BORN), []
# Accounts in arrears, one of which has no known status once, and no accounts
ARREARS = {"openAccounts": 2, "nonPerformingAccounts": 1, "worstDaysInArrears": 95}
LATE = "HIGH", {"NON_PERFORMING_ACCOUNT": "HIGH"}, ARREARS, []
NO_FIGURES = *LATE[:2], dict.fromkeys(ARREARS), []
FREE = "LOW", {}, dict.fromkeys(ARREARS, 0), []
NO_BAD_ONE = "LOW", {}, dict.fromkeys(ARREARS), []


def result_of(answer: Any) -> CheckResult:
    level, flags, details, untold = answer
    finding = {
        "flags": [{"code": c, "severity": s} for c, s in flags.items()],
        "details": details,
        "evidence": {"fieldsNotTold": untold},
    }
    return CheckResult(risk_level=level, finding=finding)


@pytest.mark.parametrize(
    ("answers", "alerts"),
    [
        ([ALIVE, BLIND, ALIVE], []),
        ([DEAD, BLIND, DEAD], []),
        ([DEAD, BLIND, BLIND, ALIVE], [("INFO", "gone")]),
        ([ALIVE, BLIND, DEAD], [("CRITICAL", "new flag DECEASED")]),
        ([BLIND, DEAD], [("CRITICAL", "new flag DECEASED")]),
        ([DEAD, OTHER_NAME], [("WARNING", "IDENTITY: new flag NAME_MISMATCH.")]),
        ([ALIVE, OTHER_NAME], [("WARNING", "level went from LOW to MEDIUM")]),
        ([SUSPENDED, NO_STATE, SUSPENDED], []),
        ([SUSPENDED, NO_STATE, ACTIVE], [("INFO", "flag PIN_INACTIVE gone")]),
        ([LISTED, NO_LISTING, LISTED], []),
        ([LISTED, NO_RECORD], [("WARNING", "flag ADVERSE_LISTING gone")]),
        ([GONE, NO_STATUS, GONE], []),
        ([MISNAMED, NAMELESS, MISNAMED], []),
        ([MISNAMED, NAMELESS, NAMED], [("INFO", "flag NAME_MISMATCH gone")]),
        ([NAMED, NAMELESS, NAMED], []),
        ([NAMED, NAMELESS, MISNAMED], [("WARNING", "new flag NAME_MISMATCH")]),
        ([MISNAMED, DEAD_NAMELESS], [("CRITICAL", "to HIGH; new flag DECEASED.")]),
        ([MISNAMED, NOBODY], [("CRITICAL", "flag NAME_MISMATCH gone")]),
        ([NAMED, MASKED, NAMED], []),
        ([NAMED, OTHER_MASKED], [("INFO", "other values of fullName, nameMatch.")]),
        ([MISBORN, NO_BIRTH, MISBORN], []),
        ([LATE, NO_FIGURES, LATE], []),
        ([LATE, NO_FIGURES, FREE], [("INFO", "other values of")]),
        ([LATE, NO_BAD_ONE, LATE], []),
        ([UNNAMED, UNNAMED_OPEN], [("INFO", "level went from LOW to UNKNOWN.")]),
    ],
)
def test_what_a_source_does_not_tell_is_no_change(answers, alerts):
    found, before = [], None
    for answer in answers:
        after = snapshot_of(result_of(answer), before)
        if before and (changes := find_changes("IDENTITY", before, after)):
            found.append(_change_alert(changes))
        before = after

    assert [alert.severity for alert in found] == [severity for severity, _ in alerts]
    for alert, (_, words) in zip(found, alerts, strict=True):
        assert words in alert.message


def test_run_keeps_what_its_source_does_not_tell(api: Api, made):
    Baseline.objects.all().delete()
    for answer in (SUSPENDED, NO_STATE, SUSPENDED):
        run = launch_next_run(api)
        complete_run(run)
        result, told = CheckResult.objects.get(report=run.report_id), result_of(answer)
        result.finding, result.risk_level = told.finding, told.risk_level
        result.save()
        compare_reports(run)

    assert list_alerts(api) == []


def test_check_completed_by_a_retry_is_compared(api: Api):
    made = create_rule(api, id_number=CHANGING)
    run_rules(api)
    run = launch_next_run(api)
    set_id_number(run, REFUSED)
    api.work()
    compare_reports(run)
    assert api.report(str(run.report_id))["status"] == "FAILED"
    assert list_alerts(api) == []

    set_id_number(run, CHANGING)
    assert api.post(f"/reports/{run.report_id}/retry").status_code == 200
    api.work()
    compare_reports(run)

    (alert,) = list_alerts(api)
    assert (alert["monitoringId"], alert["reportId"]) == (
        made["id"],
        str(run.report_id),
    )
    result = CheckResult.objects.get(report=run.report_id)
    assert (result.status, result.attempt) == ("COMPLETED", 2)


def test_failed_run_leaves_the_baseline_as_it_is(api: Api, made):
    before = Baseline.objects.get().said
    run = launch_next_run(api)
    set_id_number(run, REFUSED)
    run_rules(api)
    assert api.report(str(run.report_id))["status"] == "FAILED"
    assert Baseline.objects.get().said == before

    launch_next_run(api)
    run_rules(api)

    assert list_alerts(api) == []
    assert Baseline.objects.get().run_number == 3


def test_sweep_compares_findings_of_a_cancelled_run(api: Api):
    create_rule(api, "IDENTITY", "KRA_PIN", id_number=CHANGING)
    run_rules(api)
    run = launch_next_run(api)
    late = CheckResult.objects.filter(report=run.report_id, name="KRA_PIN")
    late.update(next_attempt_at=now() + DAY, turn_at=now() + DAY)
    api.work()
    assert api.post(f"/reports/{run.report_id}/cancel").status_code == 200

    compare_lost_runs()
    assert list_alerts(api) == []
    long_ago = now() - timedelta(hours=1)
    Run.objects.update(created_at=long_ago)
    Report.objects.filter(completed_at__isnull=False).update(completed_at=long_ago)
    compare_lost_runs()

    (alert,) = list_alerts(api)
    assert {change["checkName"] for change in alert["changes"]} == {"IDENTITY"}


def test_sweep_compares_a_run_of_a_lost_job_once(api: Api):
    create_rule(api, id_number=CHANGING)
    run_rules(api)
    launch_next_run(api)
    api.work()
    long_ago = now() - timedelta(minutes=3)
    Run.objects.filter(compared_at=None).update(created_at=long_ago)
    Report.objects.update(completed_at=long_ago)

    compare_lost_runs()
    compare_lost_runs()

    assert Alert.objects.count() == 1
    assert not Run.objects.filter(compared_at=None).exists()


def test_erased_finding_is_no_change(api: Api, made):
    run = launch_next_run(api)
    api.work()
    CheckResult.objects.filter(report=run.report_id).update(finding=None)

    compare_reports(run)

    assert list_alerts(api) == []
    assert Baseline.objects.get().run_number == 1


def test_rule_deleted_during_its_run_raises_no_alert(api: Api):
    made = create_rule(api, id_number=CHANGING)
    run_rules(api)
    run = launch_next_run(api)
    assert api.delete(f"/monitoring/{made['id']}").status_code == 204

    api.work()
    compare_reports(run)
    compare_lost_runs()

    report = api.report(str(run.report_id))
    assert (report["status"], report["monitoringId"]) == ("READY", made["id"])
    assert list_alerts(api) == []
    assert Run.objects.count() == Baseline.objects.count() == 0


def test_alerts_stay_when_their_rule_is_deleted(api: Api):
    made = create_rule(api, id_number=CHANGING, reference="loan-4711")
    run_rules(api)
    move_rules_back(DAY)
    run_rules(api)
    (before,) = list_alerts(api)
    assert before["reference"] == "loan-4711"

    assert api.delete(f"/monitoring/{made['id']}").status_code == 204

    assert list_alerts(api) == [before]
    assert api.report(before["reportId"])["status"] == "READY"


def test_last_run_of_a_paused_rule_raises_its_alert(api: Api):
    made = create_rule(api, id_number=CHANGING)
    run_rules(api)
    launch_next_run(api)
    assert api.post(f"/monitoring/{made['id']}/pause").status_code == 200

    run_rules(api)

    assert len(list_alerts(api)) == 1


def test_unreadable_rule_stops_no_other(api: Api):
    broken = create_rule(api, id_number=CHANGING)
    create_rule(api, id_number=CHANGING, reference="well")
    run_rules(api)
    Baseline.objects.filter(rule=broken["id"]).update(said=b"nonsense")
    move_rules_back(DAY)
    launch_due_runs()
    api.work()
    runs = list(Run.objects.filter(compared_at=None))
    assert len(runs) == 2

    with pytest.raises(ComparisonFailed, match="1 of 2"):
        compare_reports(*runs)

    (alert,) = list_alerts(api)
    assert alert["monitoringId"] != broken["id"]
    long_ago = now() - timedelta(minutes=3)
    Run.objects.update(created_at=long_ago)
    Report.objects.update(completed_at=long_ago)
    compare_lost_runs()
    assert str(Run.objects.get(compared_at=None).rule_id) == broken["id"]


def test_one_alert_a_run_lists_the_changes_of_every_check(api: Api):
    create_rule(api, "IDENTITY", "CRB_SCORE", id_number=CHANGING)
    run_rules(api)
    move_rules_back(DAY)
    run_rules(api)

    (alert,) = list_alerts(api)
    assert {c["checkName"] for c in alert["changes"]} == {"IDENTITY", "CRB_SCORE"}
    assert alert["title"] == "2 checks changed"
    event = Event.objects.get(name="monitoring.alert.created")
    assert event.payload["alert"] | {"monitoringId": alert["monitoringId"]} == alert
    sent = json.loads(envelope(event))
    read = EVENTS[event.name].model_validate(sent)
    assert read.model_dump(mode="json", by_alias=True) == sent


# Numbers of the sandbox: its source refuses the first and answers the second.
SILENT, CLEAR = "90000008", "90000000"


def run_days(api: Api, times: int, days: int = 1) -> None:
    for _ in range(times):
        move_rules_back(days * DAY)
        run_rules(api)


def set_id_number_of_rule(number: str) -> None:
    rule = Rule.objects.get()
    rule.subject = {**rule.subject, "idNumber": number}
    rule.save()


def get_check_state(api: Api) -> dict[str, Any]:
    (rule,) = api.get("/monitoring").json()["content"]
    assert rule == api.get(f"/monitoring/{rule['id']}").json()
    (check,) = rule["checks"]
    return check


def test_rule_shows_when_each_check_last_completed(api: Api):
    made = create_rule(api, id_number=CLEAR)
    assert made["checks"] == [
        {"checkName": "IDENTITY", "lastCompletedAt": None, "runsWithoutAnswer": 0}
    ]
    run_rules(api)
    completed = get_check_state(api)["lastCompletedAt"]
    assert completed is not None

    set_id_number_of_rule(SILENT)
    run_days(api, 2)

    assert get_check_state(api) == {
        "checkName": "IDENTITY",
        "lastCompletedAt": completed,
        "runsWithoutAnswer": 2,
    }


def test_check_that_fails_in_three_daily_runs_raises_one_alert(api: Api):
    create_rule(api, id_number=CLEAR)
    run_rules(api)
    set_id_number_of_rule(SILENT)
    run_days(api, 2)
    assert list_alerts(api) == []

    run_days(api, 2)

    (alert,) = list_alerts(api)
    assert (alert["kind"], alert["severity"]) == ("NO_ANSWER", "WARNING")
    assert alert["title"] == "IDENTITY: no answer"
    assert (
        "could not be done in 3 runs in a row and last completed 20"
        in (alert["message"])
    )
    assert alert["changes"] == []
    (event,) = Event.objects.filter(name="monitoring.alert.created")
    assert event.payload["alert"]["kind"] == "NO_ANSWER"


def test_check_that_answers_again_may_raise_another_alert(api: Api):
    create_rule(api, id_number=SILENT, cadence="WEEKLY")
    run_rules(api)
    run_days(api, 1, 7)
    assert "last completed never" in list_alerts(api)[0]["message"]

    set_id_number_of_rule(CLEAR)
    run_days(api, 1, 7)
    assert get_check_state(api)["runsWithoutAnswer"] == 0
    set_id_number_of_rule(SILENT)
    run_days(api, 2, 7)

    assert [alert["kind"] for alert in list_alerts(api)] == ["NO_ANSWER"] * 2


@pytest.mark.parametrize(
    ("cadence", "days", "runs"), [("WEEKLY", 7, 2), ("MONTHLY", 31, 1)]
)
def test_longer_cadences_raise_no_answer_alerts_sooner(api: Api, cadence, days, runs):
    create_rule(api, id_number=SILENT, cadence=cadence)
    run_rules(api)
    run_days(api, runs - 1, days)

    assert [alert["kind"] for alert in list_alerts(api)] == ["NO_ANSWER"]


@pytest.mark.parametrize(
    ("before", "after", "runs"), [("DAILY", "MONTHLY", 3), ("WEEKLY", "DAILY", 2)]
)
def test_change_of_the_cadence_leaves_one_no_answer_alert(
    api: Api, before: str, after: Cadence, runs: int
):
    made = create_rule(api, id_number=SILENT, cadence=before)
    run_rules(api)
    run_days(api, 1, 7)

    change_rule(api._client(), UUID(made["id"]), after, None)
    run_days(api, 2, 31)

    (alert,) = list_alerts(api)
    assert f"IDENTITY could not be done in {runs} runs in a row" in alert["message"]


def test_run_compared_twice_counts_once(api: Api):
    made = create_rule(api, id_number=SILENT)
    run_rules(api)
    report = Rule.objects.get(pk=made["id"]).runs.get().report_id

    api.post(f"/reports/{report}/retry")
    work_until_done(api)
    run_rules(api)

    assert Baseline.objects.get().unanswered == 1


def test_failures_after_a_late_answer_still_count(api: Api):
    create_rule(api, id_number=SILENT)
    run_rules(api)
    run_days(api, 2)
    first = Run.objects.get(number=1)

    set_id_number(first, CLEAR)
    set_id_number_of_rule(CLEAR)
    api.post(f"/reports/{first.report_id}/retry")
    work_until_done(api)
    compare_reports(first)

    assert get_check_state(api)["runsWithoutAnswer"] == 2


def test_staff_and_members_see_checks_without_an_answer(api: Api, staff):
    create_rule(api, id_number=SILENT)
    run_rules(api)
    run_days(api, 2)

    assert "A check could not be done" in read_page(
        staff, change_url(Alert.objects.get())
    )
    page = read_page(staff, change_url(Rule.objects.get()))
    assert "runs without an answer since" in page
    owner = ConsoleVisitor(create_member(api.workspace, "OWNER"))
    page = owner.page("monitoring-rule", rule=Rule.objects.get().pk)
    assert "<dt>National identity</dt><dd>not completed yet" in page
    assert "no answer in the last 3 runs" in page
    page = owner.page("monitoring-alert", alert=Alert.objects.get().pk)
    assert "National identity gave no answer in 3 runs in a row" in page
    assert "<table" not in page


def snapshot(level: str = "LOW", flags: Any = (), **details: Any) -> dict[str, Any]:
    return {"riskLevel": level, "flags": dict(flags), "details": details}


def severities(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return [change.severity.value for change in find_changes("IDENTITY", old, new)]


@pytest.mark.parametrize(
    ("old", "new", "severity"),
    [
        ("LOW", "HIGH", "CRITICAL"),
        ("MEDIUM", "HIGH", "CRITICAL"),
        ("UNKNOWN", "HIGH", "CRITICAL"),
        ("LOW", "MEDIUM", "WARNING"),
        ("UNKNOWN", "MEDIUM", "WARNING"),
        ("HIGH", "MEDIUM", "INFO"),
        ("HIGH", "LOW", "INFO"),
        ("HIGH", "UNKNOWN", "INFO"),
        ("UNKNOWN", "LOW", "INFO"),
        ("LOW", "UNKNOWN", "INFO"),
    ],
)
def test_severity_of_a_level_change_follows_the_new_level(old, new, severity):
    assert severities(snapshot(old), snapshot(new)) == [severity]


@pytest.mark.parametrize(
    ("old", "new", "severity"),
    [
        ({}, {"DECEASED": "HIGH"}, "CRITICAL"),
        ({}, {"NAME_MISMATCH": "MEDIUM"}, "WARNING"),
        ({}, {"NAME_MISMATCH": "LOW"}, "WARNING"),
        ({"NAME_MISMATCH": "LOW"}, {"NAME_MISMATCH": "HIGH"}, "CRITICAL"),
        ({"NAME_MISMATCH": "LOW"}, {"NAME_MISMATCH": "MEDIUM"}, "WARNING"),
        ({"NAME_MISMATCH": "HIGH"}, {"NAME_MISMATCH": "LOW"}, "INFO"),
        ({"NAME_MISMATCH": "HIGH"}, {}, "INFO"),
        ({"DECEASED": "HIGH"}, {"NAME_MISMATCH": "LOW"}, "WARNING"),
    ],
)
def test_severity_of_a_flag_change_follows_the_new_flags(old, new, severity):
    assert severities(snapshot(flags=old), snapshot(flags=new)) == [severity]


def test_changed_field_has_severity_info():
    (change,) = find_changes(
        "IDENTITY", snapshot(status="ACTIVE"), snapshot(status="CLOSED")
    )

    assert change.as_json() == {
        "checkName": "IDENTITY",
        "field": "details.status",
        "old": "ACTIVE",
        "new": "CLOSED",
    }
    assert change.severity == "INFO"


@pytest.mark.parametrize(
    ("topics", "algorithm", "severity"),
    [
        (["sanction.linked"], "words-v4", "CRITICAL"),
        (["role.pep"], "words-v4", "WARNING"),
        (None, "words-v4", "INFO"),
        # Another source knows the entries by other ids.
        (["sanction"], "logic-v2", "INFO"),
    ],
)
def test_new_hit_has_the_severity_of_its_flag(topics, algorithm, severity):
    flags = {"SANCTIONS_HIT": "HIGH", "PEP_HIT": "MEDIUM"}
    known = [
        {"entryId": "QDi.1", "topics": ["sanction"], "score": 0.8},
        {"entryId": "Q2", "topics": ["role.pep"], "score": 0.8},
    ]
    added = [{"entryId": "Q3", "topics": topics, "score": 0.8}] if topics else []
    likelier = [{**hit, "score": 0.9} for hit in known]
    old = snapshot(flags=flags, algorithm="words-v4", hits=known)
    new = snapshot(flags=flags, algorithm=algorithm, hits=[*likelier, *added])

    found = severities(old, new)

    assert found == [severity]


def test_other_way_to_search_the_lists_is_no_change():
    hit = {"entryId": "QDi.1", "topics": ["sanction"], "score": 0.8}
    old = snapshot(lists=["UN"], algorithm="words-v3", threshold=0.7, hits=[hit])
    again = [{**hit, "score": 0.9}]
    new = snapshot(
        lists=["UN", "OFAC"], algorithm="words-v4", threshold=0.8, hits=again
    )

    assert find_changes("AML_SCREENING", old, new) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["a", "b"], ["b", "a"]),
        ([{"a": 1}, {"b": [1, 2]}], [{"b": [2, 1]}, {"a": 1}]),
        ([1, "1", None, 2.5], ["1", 2.5, 1, None]),
        ({"x": [1, 2]}, {"x": [2, 1]}),
    ],
)
def test_other_order_of_a_list_is_no_change(old, new):
    assert find_changes("IDENTITY", snapshot(found=old), snapshot(found=new)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [(["a"], ["a", "a"]), (["a"], []), ([], None), ([[1], [2]], [[1, 2]])],
)
def test_other_members_of_a_list_are_a_change(old, new):
    assert severities(snapshot(found=old), snapshot(found=new)) == ["INFO"]


def test_field_added_to_or_removed_from_the_definition_is_no_change():
    assert find_changes("IDENTITY", snapshot(gone=1), snapshot(added=2)) == []


def test_flags_of_a_change_are_listed_with_severity():
    old, new = (
        snapshot(flags={"B": "LOW", "A": "HIGH"}),
        snapshot(flags={"B": "MEDIUM"}),
    )

    (change,) = find_changes("IDENTITY", old, new)

    assert change.old == [
        {"code": "A", "severity": "HIGH"},
        {"code": "B", "severity": "LOW"},
    ]
    assert change.new == [{"code": "B", "severity": "MEDIUM"}]


def test_title_and_message_name_changes_without_values():
    old = snapshot("LOW", {"OLD": "LOW"}, name="Wanjiku", phone="0711")
    changes = find_changes(
        "IDENTITY", old, snapshot("HIGH", {"NEW": "HIGH"}, name="Atieno")
    )
    changes += find_changes("KRA_PIN", snapshot(pin="A1"), snapshot(pin="A2"))

    assert title_of(changes[:3]) == "IDENTITY: risk level changed"
    assert title_of(changes) == "2 checks changed"
    assert message_of(changes) == (
        "IDENTITY: risk level went from LOW to HIGH; new flag NEW; flag OLD gone; "
        "other values of name. KRA_PIN: other values of pin."
    )


def test_message_names_a_flag_of_another_severity():
    changes = find_changes(
        "IDENTITY", snapshot(flags={"A": "LOW"}), snapshot(flags={"A": "HIGH"})
    )
    assert message_of(changes) == "IDENTITY: a flag's severity changed."


def test_message_of_many_changes_fits_its_column():
    old = snapshot(**{f"field{number}": 1 for number in range(500)})
    new = snapshot(**{f"field{number}": 2 for number in range(500)})

    changes = find_changes("IDENTITY", old, new)

    assert len(changes) == 500
    assert len(message_of(changes)) == 1000
    assert len(title_of(changes)) <= 200
