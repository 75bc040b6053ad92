"""Corrections: opening, the re-run of the check, the decision, and what follows."""

import io
from datetime import timedelta

import pytest
import time_machine
from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.timezone import now
from pypdf import PdfReader

from monitoring.alerts import compare_runs
from monitoring.models import Alert, Baseline, Rule
from monitoring.pauses import pause_for_withdrawal
from tests.checks.conftest import paying_api as paying_api
from tests.console.conftest import owner as owner
from tests.files.samples import pdf
from tests.world.clients import ATTESTED, HOSTED, Api, erase, person, request_erasure
from tests.world.corrections import (
    MISTYPED,
    REASON,
    RIGHT,
    STATEMENT,
    create_wrong_report,
    dispute,
    reviewer,
)
from tests.world.employer import ANSWERS, EVIDENCE, NOT_EMPLOYED, create_reference
from tests.world.members import create_member
from tests.world.orders import SLOW, movements, two_checks
from tests.world.payments import end_checkout, open_page
from tests.world.rules import create_rule, move_rules_back, run_rules
from tests.world.staff import enter_request
from tests.world.subject import EVIDENCE as SIGNED
from tests.world.subject import Visitor
from tests.world.threads import run_at_once
from verification import links
from verification.backoffice.audit import Actor
from verification.backoffice.models import ActorKind, AuditEvent
from verification.checks.due_checks import claim
from verification.checks.models import CheckDefinition, CheckResult
from verification.checks.results import Completed, record_outcomes
from verification.consents.links import renew_access_link
from verification.consents.models import Consent
from verification.consents.subject_decisions import grant
from verification.db.ids import uuid7
from verification.decisions.findings import results_with_same_finding
from verification.files import storage
from verification.files.inspection import inspect
from verification.files.storage import read_content
from verification.files.uploads import UploadedFile
from verification.golive.applications import ActingUser
from verification.notifications.models import Notification
from verification.notifications.templates import write_email
from verification.payments.payer_messages import build_receipt
from verification.privacy import corrections
from verification.privacy.corrections import (
    AlreadyDisputed,
    CorrectionRefused,
    NoFinding,
    NotWithdrawable,
    Obstacle,
    TooManyCorrections,
    correct,
    open_correction,
    rerun,
    take,
    withdraw,
)
from verification.privacy.models import Correction, Origin, Outcome
from verification.privacy.objections import object_to_use
from verification.privacy.people import Person
from verification.privacy.personal_data import erase_reports
from verification.privacy.withdrawals import withdraw as withdraw_consent
from verification.references.answers import submit
from verification.references.models import Reference
from verification.references.requests import ReferenceClosed
from verification.reports.models import Report, Subject
from verification.reports.status import locked_reports
from webhooks.models import Event

DAY = timedelta(days=1)


def in_review(api: Api, **item: object) -> Correction:
    """Open the correction of a report with a mistyped number, and take it."""
    return take(dispute(create_wrong_report(api, **item)).pk, reviewer())


def run_again(api: Api, correction: Correction, **details: str) -> CheckResult:
    row = rerun(correction.pk, reviewer(), details)
    api.work()
    row.refresh_from_db()
    return row


def retry(api: Api, report_id: str) -> None:
    api.post(f"/reports/{report_id}/retry")
    api.work()


def refusal(verb, *arguments) -> Obstacle:
    with pytest.raises(CorrectionRefused) as refused:
        verb(*arguments)
    return refused.value.obstacle


def kinds_sent(report_id) -> list[str]:
    sent = Notification.objects.filter(report_id=report_id, kind__startswith="CORREC")
    return list(sent.order_by("id").values_list("kind", flat=True))


def events_of(report_id, name: str) -> list[dict]:
    return [e.payload for e in Event.objects.filter(report_id=report_id, name=name)]


# Opening


def test_open_correction_shows_in_the_report_and_is_told(api: Api):
    report_id = create_wrong_report(api)
    before = api.report(report_id)

    correction = dispute(report_id)

    report = api.report(report_id)
    (shown,) = report["corrections"]
    assert (shown["checkName"], shown["status"]) == ("IDENTITY", "OPEN")
    assert shown["checkResultId"] == report["checkResults"][0]["id"]
    assert correction.due_at - correction.created_at == timedelta(days=14)
    changed = {"corrections", "updatedAt"}
    assert {k: v for k, v in report.items() if k not in changed} == {
        k: v for k, v in before.items() if k not in changed
    }
    assert kinds_sent(report_id) == ["CORRECTION_RECEIPT", "CORRECTION_OPENED"]
    (event,) = events_of(report_id, "correction.opened")
    assert event["correction"] == shown
    changes = api.get(f"/reports/{report_id}/events").json()["events"]
    assert changes[-1]["trigger"] == "correction opened"


def test_only_a_completed_finding_of_the_report_can_be_disputed(
    api: Api, another_api: Api
):
    report_id = api.create(two_checks(idNumber="90000008", kraPin="A900000000Z"))["id"]
    api.work()
    failed = CheckResult.objects.get(report=report_id, status="FAILED")
    others = create_wrong_report(another_api)
    foreign = CheckResult.objects.get(report=others)

    for result in (failed.pk, foreign.pk, uuid7()):
        with pytest.raises(NoFinding):
            open_correction(failed.report_id, result, STATEMENT)
    assert not Correction.objects.exists()


def test_a_finding_has_one_open_correction(api: Api):
    correction = dispute(create_wrong_report(api))

    with pytest.raises(AlreadyDisputed):
        dispute(str(correction.report_id))
    correction.pk, correction.request = uuid7(), enter_request(correction.report)
    with pytest.raises(IntegrityError, match="one_open_correction_a_result"):
        correction.save(force_insert=True)


@pytest.mark.django_db(transaction=True)
def test_one_of_many_tabs_opens_the_correction(api: Api):
    report_id = create_wrong_report(api)

    opened = run_at_once(3, lambda _: dispute(report_id))

    assert sum(isinstance(one, AlreadyDisputed) for one in opened) == 2
    assert Correction.objects.get().status == "OPEN"
    assert kinds_sent(report_id).count("CORRECTION_RECEIPT") == 1


def test_corrections_of_a_report_are_limited_in_a_day(
    api: Api, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(corrections, "CORRECTIONS_PER_DAY", 1)
    report_id = create_wrong_report(api)
    withdraw(dispute(report_id).pk)

    with pytest.raises(TooManyCorrections):
        dispute(report_id)


def test_documents_are_sealed_and_belong_to_an_accepted_correction(api: Api):
    result = CheckResult.objects.get(report=create_wrong_report(api))
    file = UploadedFile("id.pdf", inspect("id.pdf", "application/pdf", pdf()))
    with pytest.raises(ValueError, match="takes 3 documents"):
        open_correction(result.report_id, result.pk, STATEMENT, [file] * 4)
    assert not Correction.objects.exists()

    correction = open_correction(result.report_id, result.pk, STATEMENT, [file])

    document = correction.documents.get()
    assert read_content(document) == pdf()
    assert document.name == "id.pdf"
    # The files of a refused correction are deleted.
    folder = storage._storage()
    _, before = folder.listdir("")
    with pytest.raises(AlreadyDisputed):
        open_correction(result.report_id, result.pk, STATEMENT, [file])
    assert folder.listdir("")[1] == before


def test_finding_disputed_in_its_report_or_a_copy_is_not_reused(api: Api):
    def is_reused() -> bool:
        report = api.report(create_wrong_report(api, reuse=True))
        return report["checkResults"][0]["reused"]

    first = create_wrong_report(api)
    copy = create_wrong_report(api, reuse=True)
    for report_id in (first, copy):
        correction = dispute(report_id)
        assert not is_reused()
        withdraw(correction.pk)
        CheckResult.objects.exclude(report__in=[first, copy]).delete()
        assert is_reused()


# The re-run


def test_rerun_changes_nothing_of_the_report(api: Api):
    correction = in_review(api)
    report_id = str(correction.report_id)
    before, booked = api.report(report_id), movements(api)
    events = Event.objects.count()

    row = run_again(api, correction, idNumber=RIGHT)

    assert (row.status, row.revision, row.price, row.question) == (
        "COMPLETED",
        1,
        0,
        None,
    )
    # It asked with the corrected details.
    assert row.finding["details"]["nameMatch"] == "MATCH"
    assert row.inputs["idNumber"] == RIGHT
    after = api.report(report_id)
    assert after | {"updatedAt": None} == before | {"updatedAt": None}
    assert movements(api) == booked
    assert Event.objects.count() == events


def test_retry_after_a_correction_has_an_event_of_its_own(api: Api):
    """Causes of ends count all attempts, so an accepted re-run keeps those before."""
    down = person(idNumber="90000008", kraPin="A900000008Z")
    item = {**down, "checksRequested": ["IDENTITY", "KRA_PIN"]}
    report_id = api.create(item)["id"]
    api.work()
    report = Report.objects.get()
    report.subject = {**report.subject, "idNumber": MISTYPED}
    report.save(update_fields=["subject"])
    retry(api, report_id)
    correction = take(dispute(report_id).pk, reviewer())
    run_again(api, correction, idNumber=RIGHT)
    correct(correction.pk, reviewer(), REASON)

    retry(api, report_id)

    ends = Event.objects.filter(report_id=report_id, name="report.failed")
    assert {end.cause for end in ends} == {f"{report_id}:{n}" for n in (2, 4, 5)}


def test_rerun_corrects_a_subject_with_long_names(api: Api):
    correction = in_review(api)
    names = {"firstName": "J" * 150, "lastName": "K" * 150}
    long = Subject.of(person(fullName=None, country="KE", **names)["subject"])
    report = correction.report
    report.subject = long.members
    report.save(update_fields=["subject"])

    row = rerun(correction.pk, reviewer(), {"idNumber": RIGHT})

    assert row.inputs == {**long.members, "idNumber": RIGHT}


def test_rerun_of_a_name_drops_its_old_parts_and_keeps_a_number_in_another_form(
    api: Api,
):
    correction = in_review(api)
    report = correction.report
    report.subject = {**report.subject, "idNumber": "31234561.0"}
    report.save(update_fields=["subject"])

    row = rerun(correction.pk, reviewer(), {"fullName": "Njeri Wambui Otieno"})

    names = ("fullName", "firstName", "middleName", "lastName", "idNumber")
    assert [row.inputs[name] for name in names] == [
        "Njeri Wambui Otieno",
        "Njeri",
        "Wambui",
        "Otieno",
        "31234561.0",
    ]


def test_name_of_a_person_with_a_name_alone_is_corrected(api: Api):
    CheckDefinition.objects.filter(name="AML_SCREENING").update(active=True)
    item = person(idNumber=None) | {"checksRequested": ["AML_SCREENING"]}
    made = api.create(item)["id"]
    api.work()
    correction = take(dispute(made, "AML_SCREENING").pk, reviewer())
    run_again(api, correction, fullName="Wanjiru Kamau")

    correct(correction.pk, reviewer(), REASON)

    assert api.report(made)["subject"]["fullName"] == "Wanjiru Kamau"


def test_rerun_is_recorded_and_its_end_is_told_to_the_reviewer(api: Api):
    correction = in_review(api)
    row = run_again(api, correction, idNumber=RIGHT)

    corrections.notify_reviewers(str(row.pk))
    corrections.notify_reviewers(str(row.pk))

    told = Notification.objects.get(kind="CORRECTION_RERUN")
    assert told.recipient == "grace@staff.test"
    assert str(correction.pk) in told.context["url"]
    event = AuditEvent.objects.get(action="correction.rerun")
    assert event.fields == ["idNumber"]


def test_rerun_needs_a_review_and_runs_once_at_a_time(api: Api):
    correction = dispute(create_wrong_report(api))
    owner = create_member(api.workspace, "OWNER").user
    member = ActingUser(owner, Actor(ActorKind.MEMBER, owner.email))
    name = {"fullName": "Njeri Otieno"}
    assert refusal(rerun, correction.pk, reviewer()) == Obstacle.TAKE_FIRST
    take(correction.pk, reviewer())
    # The client changes no details, and staff either the name or the number.
    number = {"idNumber": RIGHT}
    assert refusal(rerun, correction.pk, member, number) == Obstacle.STAFF_ONLY
    both = {**number, **name}
    assert refusal(rerun, correction.pk, reviewer(), both) == Obstacle.NAME_AND_NUMBER

    rerun(correction.pk, member, {"idNumber": MISTYPED})

    assert refusal(rerun, correction.pk, reviewer()) == Obstacle.RUNNING
    same = pytest.raises(IntegrityError, match="clients_rerun_with_the_same_details")
    with same, transaction.atomic():
        correction.reruns.update(fields=["idNumber"])
    api.work()
    run_again(api, correction, idNumber=RIGHT)
    assert refusal(rerun, correction.pk, reviewer(), name) == Obstacle.NAME_AND_NUMBER


def test_reruns_of_a_correction_are_limited(api: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(corrections, "MAX_RERUNS", 1)
    correction = in_review(api)
    run_again(api, correction)

    assert refusal(rerun, correction.pk, reviewer()) == Obstacle.RUN_TOO_OFTEN


@pytest.mark.parametrize("status", ["READY", "CANCELLED"])
def test_rerun_waits_while_the_workspace_is_suspended(api: Api, status: str):
    correction = in_review(api)
    Report.objects.update(status=status)
    api.workspace.suspend("fraud?")

    row = run_again(api, correction)

    assert row.status == "RUNNING"


def test_ready_report_stays_ready_when_a_rerun_fails(api: Api):
    correction = in_review(api)

    row = run_again(api, correction, idNumber="90000008")

    assert row.status == "FAILED"
    assert api.report(str(correction.report_id))["status"] == "READY"
    assert refusal(correct, correction.pk, reviewer(), REASON) == Obstacle.NOT_RUN


# The decision


def test_corrected_result_takes_the_place_of_the_old_one_and_is_told(api: Api):
    correction = in_review(api)
    report_id, old = str(correction.report_id), correction.result
    before = api.report(report_id)
    row = run_again(api, correction, idNumber=RIGHT)

    correct(correction.pk, reviewer(), REASON)

    report = api.report(report_id)
    (result,) = report["checkResults"]
    assert result["id"] == str(row.pk)
    assert result["details"]["nameMatch"] == "MATCH"
    assert report["riskScore"] == result["score"] < before["riskScore"]
    assert report["riskLevel"] == result["riskLevel"] == "LOW"
    assert report["status"] == "READY"
    assert report["paymentState"] == before["paymentState"]
    (shown,) = report["corrections"]
    assert shown["status"] == "CORRECTED"
    assert shown["reason"] == REASON
    assert shown["checkResultId"] == str(old.pk)
    assert shown["correctedCheckResultId"] == str(row.pk)
    old.refresh_from_db()
    assert (old.revision > 0, old.question, old.disputed_at) == (True, None, None)
    assert old.finding["details"]["nameMatch"] == "NO_MATCH"
    correction.request.refresh_from_db()
    assert correction.request.outcome == Outcome.DONE
    answer = Notification.objects.get(kind="CORRECTION_ANSWER")
    assert (answer.context["decision"], answer.context["reason"]) == (
        "CORRECTED",
        REASON,
    )
    (event,) = events_of(correction.report_id, "correction.closed")
    assert event["correction"]["status"] == "CORRECTED"
    assert event["riskLevel"] == "LOW"
    stack = event["report"]["checkStack"]
    corrected = event["correction"]["correctedCheckResultId"]
    assert [item["checkResultId"] for item in stack] == [corrected]


def correct_number(api: Api, **item: object) -> Correction:
    """Let staff correct the mistyped number of a report."""
    correction = in_review(api, **item)
    run_again(api, correction, idNumber=RIGHT)
    correct(correction.pk, reviewer(), REASON)
    return correction


def test_corrected_details_become_those_of_the_report(api: Api):
    other = create_wrong_report(api, reuse=False)
    right = api.create(person(idNumber=RIGHT))["id"]

    report_id = str(correct_number(api).report_id)

    assert api.report(report_id)["subject"]["idNumber"] == RIGHT
    found = api.get("/reports", search=RIGHT).json()["content"]
    assert {report["id"] for report in found} == {report_id, right}
    theirs = Person.of(Report.objects.get(pk=right)).find().reports
    assert {str(one.pk) for one in theirs} == {report_id, right}
    assert api.report(other)["subject"]["idNumber"] == MISTYPED


def test_other_results_say_that_they_asked_with_former_details(api: Api, owner):
    correction = correct_number(api, checksRequested=["IDENTITY", "CRB_SCORE"])

    report = api.report(str(correction.report_id))
    outdated = {r["checkName"]: r["outdatedDetails"] for r in report["checkResults"]}
    assert outdated == {"IDENTITY": [], "CRB_SCORE": ["idNumber"]}
    other = CheckResult.objects.get(report=report["id"], name="CRB_SCORE")
    assert (other.inputs["idNumber"], other.question) == (MISTYPED, None)
    html = owner.page("reports-detail", report=report["id"])
    assert "before details of the report were corrected: ID number" in html
    text = " ".join(
        page.extract_text()
        for page in PdfReader(
            io.BytesIO(api.get(f"/reports/{report['id']}/pdf").content)
        ).pages
    )
    assert "asked before details were corrected: ID number" in " ".join(text.split())


def test_result_is_reused_for_its_corrected_details_alone(api: Api):
    create_wrong_report(api)
    # The correction of a copy also ends the reuse of its origin.
    correct_number(api, reuse=True)

    old = api.report(create_wrong_report(api, reuse=True))
    item = person(idNumber=RIGHT, email="wanjiku@kamau.test")
    again = api.create({**item, "checksRequested": ["IDENTITY"], "reuse": True})["id"]
    api.work()

    assert old["checkResults"][0]["reused"] is False
    assert api.report(again)["checkResults"][0]["reused"] is True


def test_objection_follows_the_corrected_details(api: Api):
    correction = in_review(api)
    object_to_use(correction.report_id, Origin.SUBJECT, requested_by="subject")
    run_again(api, correction, idNumber=RIGHT)

    correct(correction.pk, reviewer(), REASON)

    item = person(idNumber=RIGHT, email="wanjiku@kamau.test")
    assert api.refused("/reports", {"reports": [item]})["code"] == "validation-failed"


def test_correction_waits_for_an_erasure_of_the_person(api: Api):
    correction = in_review(api)
    run_again(api, correction, idNumber=RIGHT)
    request_erasure(api, str(correction.report_id))

    refused = refusal(correct, correction.pk, reviewer(), REASON)

    assert refused == Obstacle.ERASED


def test_confirmed_finding_stays_and_its_correction_is_not_withdrawn(api: Api):
    correction = in_review(api)
    report_id = str(correction.report_id)
    before = api.report(report_id)

    corrections.confirm(correction.pk, reviewer(), "The register says so.")

    after = api.report(report_id)
    assert after["checkResults"] == before["checkResults"]
    assert after["corrections"][0]["status"] == "CONFIRMED"
    correction.request.refresh_from_db()
    assert correction.request.outcome == Outcome.REFUSED
    assert "register says" not in correction.request.reason
    with pytest.raises(NotWithdrawable):
        withdraw(correction.pk)


def test_answer_has_a_link_that_works_when_the_last_has_expired(api: Api):
    correction = in_review(api)
    with transaction.atomic():
        renew_access_link(locked_reports().get(pk=correction.report_id))

    with time_machine.travel(now() + settings.ACCESS_LINK_DAYS * DAY + DAY):
        corrections.confirm(correction.pk, reviewer(), REASON)
        told = Notification.objects.get(kind="CORRECTION_ANSWER")
        visitor = Visitor(told.context["link"])
        visitor.open()

        assert visitor.get("data/").status_code == 200
    assert "The link works until" in write_email(told).text


def test_receipt_has_no_link_that_has_expired(api: Api):
    report_id = create_wrong_report(api)
    with transaction.atomic():
        renew_access_link(locked_reports().get(pk=report_id))

    # The subject comes by the link of another report.
    with time_machine.travel(now() + settings.ACCESS_LINK_DAYS * DAY + DAY):
        dispute(report_id)

    told = Notification.objects.get(kind="CORRECTION_RECEIPT")
    assert told.context["link"] == ""
    assert "open this link" not in write_email(told).text


def test_decision_without_a_reason_is_refused(api: Api):
    correction = in_review(api)
    run_again(api, correction, idNumber=RIGHT)

    for verb in (correct, corrections.confirm):
        assert refusal(verb, correction.pk, reviewer(), " ") == Obstacle.NO_REASON
    assert api.report(str(correction.report_id))["corrections"][0]["closedAt"] is None
    correction.result.refresh_from_db()
    assert correction.result.revision == 0


def test_withdrawn_correction_stops_its_rerun(api: Api):
    correction = in_review(api)
    row = rerun(correction.pk, reviewer())

    withdraw(correction.pk)
    withdraw(correction.pk)
    api.work()

    row.refresh_from_db()
    assert (row.status, row.finding) == ("CANCELLED", None)
    correction.request.refresh_from_db()
    assert correction.request.outcome == Outcome.WITHDRAWN
    assert refusal(correct, correction.pk, reviewer(), REASON) == Obstacle.CHANGED


@pytest.mark.django_db(transaction=True)
def test_one_of_many_deciders_wins(api: Api):
    correction = in_review(api)
    run_again(api, correction, idNumber=RIGHT)
    by = reviewer()

    def decide(number: int) -> str:
        verb = correct if number % 2 else corrections.confirm
        try:
            return verb(correction.pk, by, REASON).status
        except CorrectionRefused as e:
            return e.obstacle.name

    said = run_at_once(4, decide)

    assert said.count("CHANGED") == 3
    assert len(events_of(correction.report_id, "correction.closed")) == 1


@pytest.mark.parametrize(("is_corrected", "by"), [(False, "copy"), (True, "origin")])
def test_waiting_order_reuses_no_finding_that_was_disputed_meanwhile(
    api: Api, *, is_corrected: bool, by: str
):
    reports = {"origin": create_wrong_report(api)}
    reports["copy"] = create_wrong_report(api, reuse=True)
    waiting = Visitor("")
    waiting.report_id = create_wrong_report(api, reuse=True, consent=HOSTED)
    correction = take(dispute(reports[by]).pk, reviewer())
    if is_corrected:
        run_again(api, correction, idNumber=RIGHT)
        correct(correction.pk, reviewer(), REASON)

    waiting.agree()
    api.work()

    (result,) = api.report(waiting.report_id)["checkResults"]
    assert (result["status"], result["reused"]) == ("COMPLETED", False)
    assert result["evidence"]["reusedFromResultId"] is None
    assert movements(api) == [("CHARGE", -50, 1)]


def test_corrected_finding_of_the_same_details_is_reused(api: Api):
    first = in_review(api)
    row = run_again(api, first)
    assert (row.inputs, row.finding["details"]["nameMatch"]) == (None, "NO_MATCH")
    correct(first.pk, reviewer(), REASON)

    again = api.report(create_wrong_report(api, reuse=True))

    evidence = again["checkResults"][0]["evidence"]
    assert evidence["reusedFromResultId"] == str(row.pk)


def test_reports_with_the_same_finding_are_listed(api: Api):
    first = create_wrong_report(api)
    second = create_wrong_report(api, reuse=True)
    correction = dispute(second)

    (other,) = results_with_same_finding(correction.result)

    assert str(other.report_id) == first
    assert correction.result.reused_from_id == other.pk


def test_next_monitoring_run_is_compared_with_the_corrected_finding(api: Api):
    CheckDefinition.objects.filter(name="AML_SCREENING").update(active=True)
    checks = ["IDENTITY", "CRB_SCORE", "AML_SCREENING"]
    rule = create_rule(api, *checks, id_number=MISTYPED, consent=ATTESTED)
    run_rules(api)
    baseline = Baseline.objects.get(rule=rule["id"], check_name="IDENTITY")
    report_id = str(CheckResult.objects.get(pk=baseline.result_id).report_id)
    correction = take(dispute(report_id).pk, reviewer())
    row = run_again(api, correction, idNumber=RIGHT)

    correct(correction.pk, reviewer(), REASON)

    baseline.refresh_from_db()
    assert baseline.result_id == row.pk
    assert baseline.said["riskLevel"] == "LOW"
    # A retry of another check ends the report again.
    compare_runs(report_id)
    # The lists are searched for the name, which was right.
    kept = Baseline.objects.values_list("check_name", flat=True)
    assert {*kept} == {"IDENTITY", "AML_SCREENING"}
    Baseline.objects.filter(check_name="AML_SCREENING").delete()
    move_rules_back(DAY)
    run_rules(api)
    assert not Alert.objects.exists()
    stored = api.get(f"/monitoring/{rule['id']}").json()
    assert stored["subject"]["idNumber"] == RIGHT
    (found,) = api.get("/monitoring", search=RIGHT).json()["content"]
    assert found == stored


# Races and ends


def test_retry_of_the_report_and_a_rerun_do_not_disturb_each_other(api: Api):
    report_id = api.create(two_checks(idNumber="90000008", kraPin="A900000002Z"))["id"]
    api.work()
    correction = take(dispute(report_id, "KRA_PIN").pk, reviewer())
    row = rerun(correction.pk, reviewer(), {"kraPin": "A900000000Z"})

    assert api.post(f"/reports/{report_id}/retry").status_code == 200
    api.work()

    row.refresh_from_db()
    report = api.report(report_id)
    assert (row.status, report["status"]) == ("COMPLETED", "PARTIAL")
    assert report["corrections"][0]["status"] == "IN_REVIEW"
    correct(correction.pk, reviewer(), REASON)
    assert api.report(report_id)["status"] == "PARTIAL"


def test_rerun_goes_on_when_the_report_is_cancelled(api: Api):
    report_id = api.create(two_checks(idNumber=SLOW, kraPin="A900000002Z"))["id"]
    api.work()
    correction = take(dispute(report_id, "KRA_PIN").pk, reviewer())
    rerun(correction.pk, reviewer(), {"kraPin": "A900000000Z"})

    assert api.post(f"/reports/{report_id}/cancel").status_code == 200
    api.work()
    correct(correction.pk, reviewer(), REASON)

    report = api.report(report_id)
    assert report["status"] == "CANCELLED"
    assert report["corrections"][0]["status"] == "CORRECTED"


def test_erasure_closes_the_correction_and_stops_its_rerun(api: Api):
    correction = in_review(api)
    row = rerun(correction.pk, reviewer(), {"idNumber": RIGHT})
    (claimed,) = claim(1)

    erase(api, str(correction.report_id))

    definitions = {correction.result.definition_id: correction.result.definition}
    record_outcomes([(claimed, Completed(5, {"summary": "Njeri"}))], definitions)
    row.refresh_from_db()
    correction.refresh_from_db()
    assert (row.status, row.finding, row.inputs) == ("CANCELLED", None, None)
    assert (correction.status, correction.statement) == ("WITHDRAWN", None)
    assert correction.decided_by == "erasure"
    correction.request.refresh_from_db()
    assert correction.request.outcome == Outcome.WITHDRAWN
    report = api.report(str(correction.report_id))
    assert report["corrections"][0]["reason"] is None


@pytest.mark.django_db(transaction=True)
def test_erasure_and_decision_at_once_leave_no_finding(api: Api):
    correction = in_review(api)
    run_again(api, correction, idNumber=RIGHT)
    by = reviewer()

    def end(number: int) -> None:
        if number % 2:
            correct(correction.pk, by, REASON)
        else:
            with transaction.atomic():
                locked_reports().get(pk=correction.report_id)
                erase_reports([correction.report_id], now())

    run_at_once(2, end)

    assert not CheckResult.every.filter(finding__isnull=False).exists()
    correction.refresh_from_db()
    assert correction.status in {"CORRECTED", "WITHDRAWN"}
    assert (correction.statement, correction.decision) == (None, None)


def test_rerun_needs_the_consent_that_the_subject_gave(api: Api):
    correction = in_review(api)
    row = rerun(correction.pk, reviewer())
    consent = correction.report.consent
    consent.status = "WITHDRAWN"
    consent.save()

    api.work()

    row.refresh_from_db()
    assert row.status == "CANCELLED"
    assert refusal(rerun, correction.pk, reviewer()) == Obstacle.NO_CONSENT


def test_rerun_of_a_run_ends_when_the_subject_withdraws_from_monitoring(api: Api):
    create_rule(api)
    api.work()
    made = Report.objects.get()
    correction = take(dispute(made.pk).pk, reviewer())
    row = rerun(correction.pk, reviewer())
    with transaction.atomic():
        pause_for_withdrawal(Rule.objects.values_list("pk", flat=True), [])

    api.work()

    row.refresh_from_db()
    assert row.status == "CANCELLED"


# The API


def test_client_lists_and_reads_its_corrections(api: Api, another_api: Api):
    correction = dispute(create_wrong_report(api))

    (listed,) = api.get("/corrections", status="OPEN").json()["content"]
    read = api.get(f"/corrections/{correction.pk}").json()

    assert listed["reportId"] == str(correction.report_id)
    assert (read["what"], read["why"], read["documentsCount"]) == (
        STATEMENT.what,
        STATEMENT.why,
        0,
    )
    assert api.get("/corrections", status="CONFIRMED").json()["totalElements"] == 0
    assert another_api.get("/corrections").json()["totalElements"] == 0


def test_report_is_under_correction_wherever_it_is_shown(api: Api, client):
    correction = dispute(create_wrong_report(api))
    report = correction.report
    page = links.genuine_url(report.pk).removeprefix(settings.BASE_URL)

    document = api.get(f"/reports/{report.pk}/pdf").content
    text = PdfReader(io.BytesIO(document)).pages[0].extract_text()
    assert "Under correction" in text
    assert "Under correction" in client.get(page).content.decode()

    withdraw(correction.pk)

    assert "Under correction" not in client.get(page).content.decode()


def person_who_pays(**subject: str) -> dict:
    return {**person(**subject), "paymentMode": "CANDIDATE"}


def test_payment_keeps_its_price_when_a_paid_check_is_corrected(api: Api):
    made = api.create(person_who_pays(idNumber=MISTYPED))
    checkout = end_checkout(open_page(made))
    api.work()
    correction = take(dispute(made["id"]).pk, reviewer())
    before = build_receipt(correction.report, {}, checkout)["checks"]
    run_again(api, correction, idNumber=RIGHT)

    correct(correction.pk, reviewer(), REASON)

    assert build_receipt(correction.report, {}, checkout)["checks"] == before
    assert api.report(made["id"])["paymentState"]["status"] == "PAID"


def test_referee_is_asked_again_with_the_corrected_address(paying_api: Api):
    reference = create_reference(paying_api)
    submit(reference.pk, 1, NOT_EMPLOYED, EVIDENCE)
    paying_api.work()
    report_id = str(reference.report_id)
    assert paying_api.report(report_id)["status"] == "READY"
    correction = take(dispute(report_id, "EMPLOYER_VERIFICATION").pk, reviewer())

    row = rerun(correction.pk, reviewer(), {"refereeEmail": "njeri@baraka.test"})
    paying_api.work()
    asked = Reference.objects.get(result_id=row.pk)
    sent = Notification.objects.filter(kind="REFERENCE_REQUEST").latest("id")
    assert sent.recipient == "njeri@baraka.test"
    submit(asked.pk, 1, ANSWERS, EVIDENCE)
    paying_api.work()
    assert paying_api.report(report_id)["riskLevel"] != "LOW"
    correct(correction.pk, reviewer(), REASON)

    report = paying_api.report(report_id)
    assert (report["status"], report["riskLevel"]) == ("READY", "LOW")


def test_referees_link_closes_when_the_correction_is_withdrawn(paying_api: Api):
    reference = create_reference(paying_api)
    submit(reference.pk, 1, NOT_EMPLOYED, EVIDENCE)
    paying_api.work()
    correction = dispute(str(reference.report_id), "EMPLOYER_VERIFICATION")
    take(correction.pk, reviewer())
    row = rerun(correction.pk, reviewer())
    paying_api.work()
    asked = Reference.objects.get(result_id=row.pk)

    withdraw(correction.pk)

    with pytest.raises(ReferenceClosed):
        submit(asked.pk, 1, ANSWERS, EVIDENCE)
    row.refresh_from_db()
    assert row.status == "CANCELLED"


def create_granted_report(api: Api) -> Consent:
    """Create a report with a mistyped number, to which the subject agreed."""
    item = {**person(idNumber=MISTYPED), "checksRequested": ["IDENTITY"]}
    made = api.create({**item, "consent": HOSTED})
    consent = Consent.objects.get(report=made["id"])
    grant(consent.pk, consent.generation, SIGNED)
    return consent


def test_withdrawn_consent_stops_the_rerun(api: Api):
    consent = create_granted_report(api)
    api.work()
    correction = take(dispute(consent.report_id).pk, reviewer())
    row = rerun(correction.pk, reviewer())

    withdraw_consent(consent.pk, consent.generation, SIGNED, "")

    row.refresh_from_db()
    correction.refresh_from_db()
    assert (row.status, correction.status) == ("CANCELLED", "IN_REVIEW")
    assert refusal(rerun, correction.pk, reviewer()) == Obstacle.NO_CONSENT


def test_answer_of_a_call_under_way_changes_nothing_after_the_withdrawal(api: Api):
    correction = in_review(api)
    row = rerun(correction.pk, reviewer(), {"idNumber": RIGHT})
    (claimed,) = claim(1)

    withdraw(correction.pk)
    outcome = Completed(5, correction.result.finding)
    definitions = {correction.result.definition_id: correction.result.definition}
    record_outcomes([(claimed, outcome)], definitions)

    row.refresh_from_db()
    report = api.report(str(correction.report_id))
    assert row.status == "COMPLETED"
    assert report["checkResults"][0]["id"] == str(correction.result_id)
    assert report["corrections"][0]["status"] == "WITHDRAWN"


@pytest.mark.parametrize("is_deleted", [False, True])
def test_withdrawal_stops_the_rerun_of_a_run_of_monitoring(api: Api, is_deleted: bool):
    rule = create_rule(api, "IDENTITY", id_number=MISTYPED)
    api.work()
    run = Report.objects.get()
    correction = take(dispute(str(run.pk)).pk, reviewer())
    row = rerun(correction.pk, reviewer())
    if is_deleted:
        assert api.delete(f"/monitoring/{rule['id']}").status_code == 204
    consent = create_granted_report(api)

    withdraw_consent(consent.pk, consent.generation, SIGNED, "")

    row.refresh_from_db()
    correction.refresh_from_db()
    assert (row.status, correction.status) == ("CANCELLED", "IN_REVIEW")
    assert refusal(rerun, correction.pk, reviewer()) == Obstacle.NO_CONSENT
