import json
from datetime import date, datetime

import pytest
from django.db import IntegrityError, transaction
from django.utils.timezone import now

from tests.checks.engine import ledger_totals, only_result
from tests.world.clients import Api
from tests.world.clock import let_days_pass
from tests.world.deliveries import configure_receiver
from tests.world.employer import (
    ANSWERS,
    EMPLOYMENT_INPUTS,
    EVIDENCE,
    NOT_EMPLOYED,
    NOTICE,
    create_reference,
    employment_item,
    event_names,
    referee_messages,
    result_of,
)
from tests.world.rules import create_rule, launch_runs
from tests.world.threads import run_at_once
from verification.api.events import EVENTS
from verification.db.ids import first_id_at
from verification.notifications.models import Notification
from verification.providers.referee import compare_employment
from verification.references.answers import decline, submit
from verification.references.models import Reference
from verification.references.requests import (
    ReferenceClosed,
    reference_links,
    remind_and_expire_references,
)
from verification.reports.hosted_links import ResendTooSoon
from verification.reports.models import Report
from webhooks.events import envelope
from webhooks.models import Event


def test_answer_makes_the_report_ready(paying_api: Api):
    reference = create_reference(paying_api)
    submit(reference.pk, 1, ANSWERS, EVIDENCE)
    assert paying_api.report(str(reference.report_id))["status"] == "RUNNING"
    paying_api.work()

    report = paying_api.report(str(reference.report_id))
    (result,) = report["checkResults"]
    assert (report["status"], report["riskScore"]) == ("READY", 5)
    assert (result["status"], result["flags"]) == ("COMPLETED", [])
    assert result["details"] == {
        "employerName": "BARAKA LOGISTICS LIMITED",
        "employerMatch": "MATCH",
        "employed": True,
        "employeeName": None,
        "nameMatch": None,
        "jobTitle": "Manager, fleet",
        "jobTitleMatch": "MATCH",
        "employmentStart": "2019-03-15",
        "employmentEnd": "2023-06-30",
        "datesMatch": "MATCH",
        "wouldRehire": True,
        "refereeName": "Amina Said",
        "refereeTitle": "Head of Operations",
        "remarks": "Always on time.",
    }
    assert result["evidence"]["provider"] == "referee"
    assert result["evidence"]["providerReference"] == str(reference.pk)
    assert ledger_totals() == {"CHARGE": -500}
    # In the order of what happened
    assert event_names() == [
        "report.created",
        "reference.submitted",
        "check.completed",
        "report.ready",
    ]


def test_event_has_the_shape_of_the_openapi_document(paying_api: Api):
    configure_receiver(paying_api.workspace)
    reference = create_reference(paying_api)
    submit(reference.pk, 1, ANSWERS, EVIDENCE)

    sent = json.loads(envelope(Event.objects.get(name="reference.submitted")))

    read = EVENTS["reference.submitted"].model_validate(sent)
    assert read.model_dump(mode="json", by_alias=True) == sent
    assert sent["data"]["report"]["status"] == "PROCESSING"
    assert sent["data"]["checkResultId"] == str(only_result().pk)
    assert sent["data"]["reference"]["id"] == str(reference.pk)
    assert sent["data"]["reference"]["refereeName"] == "Amina Said"


def test_differences_become_flags():
    said = {"employer": "Simba Haulage", "jobTitle": "Driver", "wouldRehire": "NO"}
    different = ANSWERS | said | {"employedTo": None}
    asked_on = date(2026, 11, 20)

    found = compare_employment(EMPLOYMENT_INPUTS, different, asked_on, "reference")

    assert [(flag.code, flag.severity) for flag in found.flags] == [
        ("EMPLOYER_MISMATCH", "MEDIUM"),
        ("JOB_TITLE_MISMATCH", "MEDIUM"),
        ("DATES_MISMATCH", "MEDIUM"),
        ("WOULD_NOT_REHIRE", "HIGH"),
    ]
    assert found.score == 75
    found = compare_employment(EMPLOYMENT_INPUTS, NOT_EMPLOYED, asked_on, "reference")
    assert [flag.code for flag in found.flags] == ["EMPLOYMENT_NOT_FOUND"]
    assert (found.score, found.details["employed"]) == (80, False)


@pytest.mark.parametrize(
    ("day", "codes"), [("2023-06-01", []), ("2023-09-01", ["DATES_MISMATCH"])]
)
def test_end_after_the_rule_was_made_is_no_mismatch(paying_api: Api, day, codes):
    reference = create_reference(paying_api, employmentEnd=None)
    rule_id = first_id_at(datetime.fromisoformat(f"{day}T12:00:00Z"))
    Report.objects.filter(pk=reference.report_id).update(monitoring_id=rule_id)
    submit(reference.pk, 1, ANSWERS, EVIDENCE)
    paying_api.work()

    result = result_of(paying_api, reference)
    assert [flag["code"] for flag in result["flags"]] == codes
    assert result["details"]["employmentEnd"] == "2023-06-30"


def test_answer_from_the_address_of_the_subject_becomes_a_flag(paying_api: Api):
    reference = create_reference(paying_api, email="Amina@Baraka.test")
    submit(reference.pk, 1, ANSWERS, EVIDENCE)
    paying_api.work()

    result = result_of(paying_api, reference)
    assert [flag["code"] for flag in result["flags"]] == ["REFEREE_IS_SUBJECT"]
    assert (result["score"], result["riskLevel"]) == (60, "MEDIUM")
    assert "own e-mail address" in result["summary"]


def test_evidence_of_the_answer_is_stored(paying_api: Api):
    reference = create_reference(paying_api)
    submit(reference.pk, 1, ANSWERS, EVIDENCE)

    stored = Reference.objects.get()
    assert stored.answers == ANSWERS
    assert stored.evidence == {
        "address": "192.0.2.9",
        "userAgent": "Opera Mini",
        "language": "sw",
        "reason": "",
        **NOTICE,
    }
    assert stored.submitted_at is not None


def test_refusal_fails_the_check(paying_api: Api):
    reference = create_reference(paying_api)
    decline(reference.pk, 1, EVIDENCE, "I left the company")
    decline(reference.pk, 1, EVIDENCE, "")
    paying_api.work()

    result = result_of(paying_api, reference)
    assert result["failure"]["code"] == "REFEREE_DECLINED"
    assert not result["failure"]["retryable"]
    assert Reference.objects.get().evidence["reason"] == "I left the company"
    assert "reference.submitted" not in event_names()
    assert ledger_totals() == {"CHARGE": -500, "REVERSAL": 500}


def test_next_run_does_not_ask_a_referee_who_declined(paying_api: Api):
    create_rule(
        paying_api, "EMPLOYER_VERIFICATION", subject=employment_item()["subject"]
    )
    paying_api.work()
    decline(Reference.objects.get().pk, 1, EVIDENCE, "")
    paying_api.work()

    (run,) = launch_runs()
    paying_api.work()

    (result,) = paying_api.report(str(run.report_id))["checkResults"]
    assert result["failure"]["code"] == "REFEREE_DECLINED"
    assert Reference.objects.count() == 1
    paying_api.post(f"/reports/{run.report_id}/retry")
    paying_api.work()
    submit(Reference.objects.get(report=run.report_id).pk, 1, ANSWERS, EVIDENCE)
    paying_api.work()
    (run,) = launch_runs()
    paying_api.work()
    assert Reference.objects.get(report=run.report_id).status == "PENDING"


def test_repeated_answers_are_stored_once(paying_api: Api):
    reference = create_reference(paying_api)
    first = submit(reference.pk, 1, ANSWERS, EVIDENCE)
    again = submit(reference.pk, 1, ANSWERS | {"wouldRehire": "NO"}, EVIDENCE)
    paying_api.work()
    submit(reference.pk, 1, ANSWERS, EVIDENCE)

    assert again.submitted_at == first.submitted_at
    assert again.answers["wouldRehire"] == "YES"
    assert event_names().count("reference.submitted") == 1


def test_second_decision_is_refused(paying_api: Api):
    reference = create_reference(paying_api)
    decline(reference.pk, 1, EVIDENCE, "")
    with pytest.raises(ReferenceClosed, match="DECLINED"):
        submit(reference.pk, 1, ANSWERS, EVIDENCE)


@pytest.mark.django_db(transaction=True)
def test_one_of_simultaneous_answers_wins(transactional_db, paying_api: Api):
    reference = create_reference(paying_api)

    def answer(number: int) -> str:
        if number % 2:
            return submit(reference.pk, 1, ANSWERS, EVIDENCE).status
        return decline(reference.pk, 1, EVIDENCE, "").status

    said = run_at_once(4, answer)

    assert len({answer for answer in said if isinstance(answer, str)}) == 1
    assert sum(isinstance(answer, ReferenceClosed) for answer in said) == 2
    assert event_names().count("reference.submitted") <= 1


def test_cancelled_report_takes_no_answer(paying_api: Api):
    reference = create_reference(paying_api)
    paying_api.post(f"/reports/{reference.report_id}/cancel")

    with pytest.raises(ReferenceClosed, match="REPORT_ENDED"):
        submit(reference.pk, 1, ANSWERS, EVIDENCE)
    with pytest.raises(ReferenceClosed, match="REPORT_ENDED"):
        decline(reference.pk, 1, EVIDENCE, "")
    assert only_result().status == "CANCELLED"
    assert only_result().next_attempt_at is None


def test_new_link_replaces_the_old_one(paying_api: Api):
    reference = create_reference(paying_api)
    with pytest.raises(ResendTooSoon):
        reference_links.renew(reference.pk)
    let_days_pass(13)
    reference_links.renew(reference.pk)

    (_, old), (_, new) = referee_messages()
    assert old != new
    with pytest.raises(ReferenceClosed, match="REPLACED"):
        submit(reference.pk, 1, ANSWERS, EVIDENCE)
    # The check wakes when the old link would have expired, and waits on.
    let_days_pass(1)
    paying_api.work()
    assert only_result().next_attempt_at == Reference.objects.get().expires_at
    submit(reference.pk, 2, ANSWERS, EVIDENCE)
    paying_api.work()
    assert paying_api.report(str(reference.report_id))["status"] == "READY"


def test_timeline_has_no_request_that_a_referee_has_answered(paying_api: Api):
    reference = create_reference(paying_api)
    timeline = f"/reports/{reference.report_id}/events"
    (asked,) = paying_api.get(timeline).json()["messages"]
    assert asked["kind"] == "REFERENCE_REQUEST"

    submit(reference.pk, 1, ANSWERS, EVIDENCE)

    # Until a job has ended the check, clients would take it for unanswered.
    assert paying_api.get(timeline).json()["messages"] == []


def test_answered_reference_gets_no_new_link(paying_api: Api):
    reference = create_reference(paying_api)
    submit(reference.pk, 1, ANSWERS, EVIDENCE)
    with pytest.raises(ReferenceClosed, match="SUBMITTED"):
        reference_links.renew(reference.pk)


def test_silent_referee_is_reminded_once_after_three_days(paying_api: Api):
    create_reference(paying_api)
    let_days_pass(2)
    remind_and_expire_references()
    assert len(referee_messages()) == 1
    let_days_pass(1)
    remind_and_expire_references()
    remind_and_expire_references()
    let_days_pass(5)
    remind_and_expire_references()

    (request, link), (reminder, same) = referee_messages()
    assert (request, reminder) == ("REFERENCE_REQUEST", "REFERENCE_REMINDER")
    assert link == same


@pytest.mark.parametrize("ended", ["submitted", "declined", "cancelled"])
def test_referee_of_an_ended_report_gets_no_reminder(paying_api: Api, ended: str):
    reference = create_reference(paying_api)
    if ended == "submitted":
        submit(reference.pk, 1, ANSWERS, EVIDENCE)
    elif ended == "declined":
        decline(reference.pk, 1, EVIDENCE, "")
    else:
        paying_api.post(f"/reports/{reference.report_id}/cancel")
    let_days_pass(4)
    remind_and_expire_references()

    assert len(referee_messages()) == 1


def test_links_of_stopped_reports_expire(paying_api: Api):
    reference = create_reference(paying_api)
    paying_api.post(f"/reports/{reference.report_id}/cancel")
    let_days_pass(14)
    remind_and_expire_references()

    reference.refresh_from_db()
    assert reference.status == "EXPIRED"
    assert only_result().status == "CANCELLED"


def test_job_ends_a_check_after_expiry(paying_api: Api):
    reference = create_reference(paying_api)
    Reference.objects.update(expires_at=now())
    remind_and_expire_references()
    paying_api.work()

    failure = result_of(paying_api, reference)["failure"]
    assert failure["code"] == "REFEREE_NO_ANSWER"


def test_answer_cancels_the_unsent_request(paying_api: Api):
    reference = create_reference(paying_api)
    decline(reference.pk, 1, EVIDENCE, "")

    request = Notification.objects.get(kind="REFERENCE_REQUEST")
    assert request.status == "CANCELLED"


def test_database_refuses_contradicting_fields(paying_api: Api):
    reference = create_reference(paying_api)
    for wrong, constraint in (
        ({"status": "SUBMITTED"}, "reference_submitted_at_iff_submitted"),
        ({"status": "DECLINED"}, "reference_declined_at_iff_declined"),
        ({"submitted_at": now()}, "reference_submitted_at_iff_submitted"),
        ({"answers": b"sealed"}, "only_submitted_references_have_answers"),
    ):
        with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
            Reference.objects.filter(pk=reference.pk).update(**wrong)
    reference.pk = reference.id = None
    reference.token_digest = b"another"
    once = pytest.raises(IntegrityError, match="one_reference_an_attempt")
    with once, transaction.atomic():
        reference.save(force_insert=True)


def test_answers_are_sealed_and_not_logged(paying_api: Api, log_lines):
    reference = create_reference(paying_api)
    submit(reference.pk, 1, ANSWERS, EVIDENCE)
    paying_api.work()
    remind_and_expire_references()

    logged = str(log_lines()).lower()
    for personal in ("amina", "baraka", "wanjiku", "always on time", "/r/"):
        assert personal not in logged
    stored = Reference.objects.values_list().get()
    assert "amina" not in str(stored).lower()


def test_erased_answers_end_the_check_without_a_finding(paying_api: Api):
    reference = create_reference(paying_api)
    submit(reference.pk, 1, ANSWERS, EVIDENCE)
    Reference.objects.update(answers=None, evidence=None)
    paying_api.work()

    failure = result_of(paying_api, reference)["failure"]
    assert failure["code"] == "SUBJECT_ERASED"


def test_suspended_client_waits_and_loses_no_answer(paying_api: Api):
    report = paying_api.create(employment_item())
    paying_api.work()
    paying_api.workspace.suspend("Unpaid invoices")
    submit(Reference.objects.get().pk, 1, ANSWERS, EVIDENCE)
    paying_api.work()
    paying_api.workspace.resume()
    let_days_pass(1)
    paying_api.work()

    assert paying_api.report(report["id"])["status"] == "READY"
