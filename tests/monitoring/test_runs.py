from datetime import UTC, datetime, timedelta

from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now

from monitoring import runs as monitoring_runs
from monitoring.models import Alert, Rule, Run
from monitoring.runs import launch_due_runs, release_rules
from tests.world.clients import Api, person
from tests.world.employer import ANSWERS, EVIDENCE, REFEREE, employment_item
from tests.world.logs import log_lines as log_lines
from tests.world.orders import _the_ledger_adds_up as _the_ledger_adds_up
from tests.world.orders import movements
from tests.world.rules import (
    CHANGING,
    DAY,
    create_rule,
    end_runs,
    launch_runs,
    move_rules_back,
    rule_status,
    run_rules,
    store_rule,
)
from verification.checks.models import CheckDefinition, CheckResult
from verification.jobs.models import Job
from verification.references.answers import submit
from verification.references.models import Reference
from verification.values.local_time import utc_text
from workspaces.models import Workspace


def test_first_run_starts_at_once_and_the_second_a_cadence_later(api: Api):
    made = create_rule(api, cadence="WEEKLY")

    (first,) = Run.objects.all()
    assert (first.number, first.report.monitoring_id) == (1, first.rule_id)
    assert launch_runs(timedelta(days=6, hours=23)) == []
    end_runs()
    (second,) = launch_runs(timedelta(hours=1))
    assert second.number == 2
    assert str(second.rule_id) == made["id"]


def test_report_of_a_run_names_its_rule(api: Api):
    made = create_rule(api, "IDENTITY", reference="loan-4711")
    run_rules(api)
    (run,) = launch_runs()
    api.work()

    report = api.report(str(run.report_id))
    assert (report["status"], report["purpose"]) == ("READY", "Monitoring")
    assert (report["monitoringId"], report["paymentMode"]) == (made["id"], "SELF")
    assert report["reference"] == "loan-4711"
    assert report["consentState"]["status"] == "ATTESTED"
    assert run.report.status_changes.first().actor == "monitoring"


def test_rule_runs_on_with_a_number_in_another_form(api: Api):
    create_rule(api, "IDENTITY")
    run_rules(api)
    rule = Rule.objects.get()
    rule.subject = {**rule.subject, "idNumber": "31234561.0"}
    rule.save()

    (run,) = launch_runs()

    assert run.report.subject["idNumber"] == "31234561.0"


def test_ordered_report_names_no_rule(api: Api):
    assert api.report(api.create(person())["id"])["monitoringId"] is None


def test_run_never_reuses_an_earlier_result(api: Api):
    api.create({**person(), "checksRequested": ["IDENTITY"]})
    api.work()
    create_rule(api)
    run_rules(api)
    launch_runs()
    api.work()

    results = CheckResult.objects.filter(report__monitoring_id__isnull=False)
    assert [result.reused_from_id for result in results] == [None, None]
    assert [result.price for result in results] == [50, 50]


def test_run_is_billed_at_the_price_of_its_time(api: Api):
    create_rule(api)
    CheckDefinition.objects.filter(name="IDENTITY").update(price=75)
    end_runs()
    launch_runs()

    assert movements(api) == [("CHARGE", -50, 1), ("CHARGE", -75, 1)]


def test_run_waits_while_the_last_is_under_way(api: Api):
    made = Rule.objects.get(pk=create_rule(api, cadence="MONTHLY")["id"])

    assert launch_runs(31 * DAY) == []

    made.refresh_from_db()
    assert made.next_run_at < now() < made.put_off_until
    assert movements(api) == [("CHARGE", -50, 1)]
    end_runs()
    assert launch_runs(timedelta(0)) == []
    assert [run.number for run in launch_runs(timedelta(minutes=10))] == [2]


def test_run_leaves_out_a_referee_who_has_not_answered(api: Api):
    asked = employment_item(idNumber=CHANGING, refereeEmail=REFEREE)["subject"]
    create_rule(api, "IDENTITY", "EMPLOYER_VERIFICATION", subject=asked)
    create_rule(api, "EMPLOYER_VERIFICATION", subject=asked)
    run_rules(api)

    for _ in range(2):
        move_rules_back(DAY)
        run_rules(api)

    first, second, third = Run.objects.filter(rule__check_names__len=2).order_by(
        "number"
    )
    assert first.report.completed_at is None
    assert first.compared_at is None
    assert [*second.report.results.values_list("name", "price")] == [("IDENTITY", 50)]
    assert [change.trigger for change in second.report.status_changes.all()] == [
        "created without the referee",
        "check ended",
    ]
    assert third.report.status == "READY"
    # Also that of the second run, with the first
    assert Alert.objects.filter(report=second.report_id).count() == 1
    assert Run.objects.count() == 4
    assert Reference.objects.count() == 2
    assert not Rule.objects.filter(next_run_at__lte=now()).exists()
    submit(first.report.references.get().pk, 1, ANSWERS, EVIDENCE)
    api.work()
    move_rules_back(DAY)
    run_rules(api)
    assert Reference.objects.count() == 3


def test_three_missed_times_lead_to_one_run(api: Api):
    made = store_rule(api)

    runs = launch_runs(timedelta(days=3, hours=5))

    assert len(runs) == 1
    assert launch_runs(timedelta(0)) == []
    made.refresh_from_db()
    assert made.next_run_at == made.starts_at + timedelta(days=4)
    assert runs[0].due_at == made.starts_at + DAY


def test_downtime_over_a_months_end_returns_to_the_31st(api: Api):
    made = store_rule(api, cadence="MONTHLY")
    start = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
    Rule.objects.update(starts_at=start, next_run_at=datetime(2026, 2, 28, tzinfo=UTC))

    launch_due_runs()

    made.refresh_from_db()
    assert made.next_run_at > now()
    assert made.next_run_at.day in {28, 30, 31}
    assert (made.next_run_at + DAY).month != made.next_run_at.month


def test_rule_moved_back_by_a_cadence_runs(api: Api):
    made = create_rule(api)
    for number in (2, 3):
        Rule.objects.update(
            starts_at=F("starts_at") - DAY, next_run_at=F("next_run_at") - DAY
        )
        end_runs()
        # The first time is the time of the baseline.
        launch_due_runs()
        launch_due_runs()
        assert Run.objects.filter(rule=made["id"]).count() == number


def test_clock_set_back_repeats_no_time(api: Api):
    made = store_rule(api)
    launch_runs()
    Rule.objects.update(next_run_at=F("next_run_at") + 3 * DAY)
    ahead = Rule.objects.get().next_run_at

    # The clock was three days ahead at the run; it is right again.
    assert launch_runs(timedelta(0)) == []
    assert monitoring_runs._next_run_after(Rule.objects.get(), now()) == ahead + DAY
    assert rule_status(made) == ("ACTIVE", "")


def test_inactive_check_pauses_only_its_rules(api: Api):
    stopped, well = store_rule(api, "KRA_PIN"), store_rule(api, "IDENTITY")
    CheckDefinition.objects.filter(name="KRA_PIN").update(active=False)

    runs = launch_runs()

    assert [run.rule_id for run in runs] == [well.pk]
    assert rule_status(stopped) == ("PAUSED", "CHECK_INACTIVE")
    assert rule_status(well) == ("ACTIVE", "")


def test_check_with_a_new_input_pauses_rules_without_it(api: Api):
    made = store_rule(api)
    needed = {"key": "idSerial", "label": "", "type": "TEXT", "required": True}
    definition = CheckDefinition.objects.get(name="IDENTITY")
    definition.required_inputs = [*definition.required_inputs, needed]
    definition.save()

    assert launch_runs() == []
    assert rule_status(made) == ("PAUSED", "CHECK_INACTIVE")


def test_check_for_other_subjects_pauses_its_rules(api: Api):
    made = store_rule(api)
    CheckDefinition.objects.filter(name="IDENTITY").update(subject_types=["COMPANY"])

    assert launch_runs() == []
    assert rule_status(made) == ("PAUSED", "CHECK_INACTIVE")


def test_deleted_check_pauses_its_rules(api: Api):
    made = store_rule(api)
    Rule.objects.update(check_names=["IDENTITY", "GONE"])

    assert launch_runs() == []
    assert rule_status(made) == ("PAUSED", "CHECK_INACTIVE")


def test_unused_input_does_not_stop_a_rule(api: Api):
    store_rule(api, "KRA_PIN", subject=person(kraPin="A012345678Z")["subject"])
    CheckDefinition.objects.filter(name="KRA_PIN").update(required_inputs=[])

    assert len(launch_runs()) == 1


def test_check_that_now_needs_consent_uses_the_implied_attestation(api: Api):
    company = {
        "subjectType": "COMPANY",
        "fullName": "Baobab Ltd",
        "registrationNumber": "PVT-1",
    }
    made = store_rule(api, "BUSINESS_VERIFICATION", subject=company)
    assert made.consent is None
    CheckDefinition.objects.update(requires_consent=True)

    (run,) = launch_runs()

    consent = run.report.consent
    assert consent.status == "ATTESTED"
    assert consent.attestation["obtainedAt"] == utc_text(made.created_at)


def test_unreadable_rule_stops_no_other(api: Api, log_lines):
    broken, well = store_rule(api), store_rule(api)
    Rule.objects.filter(pk=broken.pk).update(subject=b"nonsense")
    Rule.objects.filter(pk=broken.pk).update(next_run_at=F("next_run_at") - DAY / 2)

    runs = launch_runs()

    assert [run.rule_id for run in runs] == [well.pk]
    assert rule_status(Rule.objects.defer("subject").get(pk=broken.pk)) == (
        "ACTIVE",
        "",
    )
    assert any(str(broken.pk) in line["message"] for line in log_lines())


def test_more_broken_rules_than_a_batch_stop_no_other(api: Api, monkeypatch):
    monkeypatch.setattr(monitoring_runs, "BATCH_SIZE", 2)
    broken = [store_rule(api) for _ in range(5)]
    well = store_rule(api)
    Rule.objects.filter(pk__in=[b.pk for b in broken]).update(subject=b"nonsense")

    assert [run.rule_id for run in launch_runs()] == [well.pk]


def made_anew(made: Rule) -> Rule:
    return Rule.objects.get(pk=made.pk)


def test_rule_that_cannot_be_launched_is_retried_less_and_less(api: Api):
    broken = store_rule(api)
    sealed = bytes(Rule.objects.values_list("subject", flat=True).get())
    Rule.objects.update(subject=b"nonsense")
    move_rules_back(DAY)
    for failures, minutes in ((0, 1), (1, 2), (2, 4), (8, 256), (9, 360), (10, 360)):
        Rule.objects.update(launch_failures=failures)
        launch_due_runs()
        launch_due_runs()
        found = made_anew(broken)
        assert round((found.launch_at - now()).total_seconds() / 60) == minutes
        assert (found.launch_failures, found.last_error) == (failures + 1, "UnknownKey")
        move_rules_back(found.launch_at - now() + timedelta(milliseconds=1))

    with connection.cursor() as cursor:
        cursor.execute("UPDATE monitoring_rule SET subject = %s", [sealed])
    told = api.get(f"/monitoring/{broken.pk}").json()["launchError"]
    assert told == "The last run could not be started; it is tried again."
    assert len(launch_runs(timedelta(0))) == 1
    found = made_anew(broken)
    assert (found.launch_failures, found.last_error) == (0, "")
    assert found.launch_at == found.next_run_at
    assert api.get(f"/monitoring/{broken.pk}").json()["launchError"] is None


def test_more_broken_rules_than_a_job_starve_no_other(api: Api, monkeypatch):
    monkeypatch.setattr(monitoring_runs, "BATCH_SIZE", 2)
    monkeypatch.setattr(monitoring_runs, "JOB_SECONDS", -1)
    broken = [store_rule(api) for _ in range(5)]
    well = store_rule(api)
    Rule.objects.filter(pk__in=[b.pk for b in broken]).update(subject=b"nonsense")
    move_rules_back(DAY)

    for _ in range(3):
        launch_due_runs()

    assert Run.objects.get().rule_id == well.pk


def test_workspace_resumed_during_the_launch_is_not_put_off(api: Api, monkeypatch):
    made = store_rule(api)
    move_rules_back(DAY)
    # The workspace was suspended when the rules were locked.
    monkeypatch.setattr(Workspace, "is_suspended", True)

    monitoring_runs.launch_rules([made.pk])

    assert made_anew(made).put_off_until is None


def test_rules_due_at_the_same_moment_are_all_launched(api: Api, monkeypatch):
    monkeypatch.setattr(monitoring_runs, "BATCH_SIZE", 3)
    for _ in range(10):
        store_rule(api)
    Rule.objects.update(starts_at=now() - 2 * DAY, next_run_at=now() - DAY)

    assert len(launch_runs(timedelta(0))) == 10


def test_rule_of_a_suspended_workspace_runs_once_after_the_resume(
    api: Api, another_api: Api
):
    made, other = store_rule(api), store_rule(another_api)
    workspace = Workspace.objects.get(pk=api.workspace.pk)
    workspace.suspend("Unpaid invoices")

    assert [run.rule_id for run in launch_runs(timedelta(days=3))] == [other.pk]
    assert rule_status(made) == ("ACTIVE", "")
    put_off = made_anew(made).launch_at
    assert now() < put_off < now() + timedelta(hours=2)
    # The job reads and writes these rules no more.
    with CaptureQueriesContext(connection) as queries:
        launch_due_runs()
    assert not any("UPDATE" in query["sql"] for query in queries)
    Job.objects.all().delete()
    workspace.resume()

    job = Job.objects.get(function="monitoring.runs.release_rules")
    release_rules(*job.arguments)
    assert Job.objects.filter(function="monitoring.runs.launch_due_runs").exists()
    assert [run.rule_id for run in launch_runs(timedelta(0))] == [made.pk]
    assert launch_runs(timedelta(0)) == []


def test_deleted_rule_does_not_run(api: Api):
    made = create_rule(api)
    assert api.delete(f"/monitoring/{made['id']}").status_code == 204

    assert launch_runs() == []
    assert api.get(f"/monitoring/{made['id']}").status_code == 404


def test_rule_deleted_during_the_launch_is_skipped(api: Api):
    gone, well = store_rule(api), store_rule(api)
    move_rules_back(DAY)
    ids = [gone.pk, well.pk]
    gone.delete()

    monitoring_runs.launch_rules(ids)

    assert Run.objects.get().rule_id == well.pk


def test_job_schedules_the_next_launch(api: Api):
    soon, late = store_rule(api), store_rule(api, cadence="MONTHLY")
    Job.objects.all().delete()

    launch_due_runs()

    job = Job.objects.get(function="monitoring.runs.launch_due_runs")
    assert abs(job.due_at - soon.next_run_at) < timedelta(seconds=1)
    assert job.due_at < late.next_run_at


def test_job_without_time_schedules_another(api: Api, monkeypatch):
    monkeypatch.setattr(monitoring_runs, "BATCH_SIZE", 1)
    monkeypatch.setattr(monitoring_runs, "JOB_SECONDS", -1)
    store_rule(api), store_rule(api)
    Job.objects.all().delete()

    assert len(launch_runs()) == 1
    job = Job.objects.get(function="monitoring.runs.launch_due_runs")
    assert job.due_at < now() + timedelta(seconds=2)
