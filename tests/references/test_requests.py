from datetime import timedelta

import pytest
from django.core import mail
from django.utils.timezone import now

from tests.checks.engine import ledger_totals, only_result
from tests.checks.source import source as source
from tests.world.clients import HOSTED, Api
from tests.world.clock import let_days_pass, let_time_pass
from tests.world.corrections import dispute, reviewer
from tests.world.employer import (
    ANSWERS,
    EVIDENCE,
    create_reference,
    employment_item,
    event_names,
    referee_messages,
    result_of,
)
from tests.world.subject import EVIDENCE as SIGNED
from verification import links
from verification.checks import engine
from verification.checks.due_checks import claim
from verification.checks.models import CheckResult
from verification.checks.results import Cancelled
from verification.consents.models import Consent
from verification.consents.subject_decisions import grant
from verification.jobs.models import Job
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Kind, Notification
from verification.privacy import corrections
from verification.privacy.withdrawals import withdraw
from verification.references import requests
from verification.references.answers import submit
from verification.references.models import Reference
from verification.references.requests import ReferenceClosed


def test_referee_gets_one_request_with_a_link(paying_api: Api):
    reference = create_reference(paying_api)
    let_time_pass()
    paying_api.work()

    sent = Notification.objects.get(kind="REFERENCE_REQUEST")
    link = links.reference_url(reference.pk, 1)
    assert sent.recipient == "amina@baraka.test"
    assert sent.channel == "EMAIL"
    assert (
        sent.context.items()
        >= {
            "requester": "Acacia Lenders",
            "subjectName": "Wanjiku Kamau",
            "refereeName": "Amina Said",
            "employer": "Baraka Logistics Ltd",
            "link": link,
        }.items()
    )
    assert bytes(reference.token_digest) == links.digest(link.rpartition("/")[2])


def test_request_is_in_both_languages(paying_api: Api):
    create_reference(paying_api)
    send_due_notifications()

    (message,) = mail.outbox
    assert message.subject == (
        "A reference for Wanjiku Kamau / Uthibitisho wa kazi wa Wanjiku Kamau"
    )
    assert message.body.count("/r/") == 2


def test_messages_of_the_sandbox_are_marked(paying_api: Api):
    reference = create_reference(paying_api)
    for environment in ("sandbox", "production"):
        reference.report.environment = environment

        for kind in (Kind.REFERENCE_REQUEST, Kind.REFERENCE_REMINDER):
            message = requests.reference_message(kind, reference)
            assert message.sandbox is (environment == "sandbox")
            assert message.workspace_id == paying_api.workspace.pk


def test_waiting_check_is_due_when_the_link_expires(
    paying_api: Api,
):
    reference = create_reference(paying_api)

    result = only_result()
    assert (result.status, result.tries, result.claims) == ("RUNNING", 0, 0)
    assert result.next_attempt_at == result.turn_at == reference.expires_at
    assert timedelta(days=13) < reference.expires_at - now() <= timedelta(days=14)
    assert claim(10) == []
    assert ledger_totals() == {"CHARGE": -500}


def test_other_checks_do_not_wait_for_the_referee(paying_api: Api):
    ordered = employment_item() | {
        "checksRequested": ["IDENTITY", "EMPLOYER_VERIFICATION"]
    }
    created = paying_api.create(ordered)
    paying_api.work()

    report = paying_api.report(created["id"])
    assert report["status"] == "PARTIAL"
    assert [r["status"] for r in report["checkResults"]] == ["FAILED", "RUNNING"]


def test_live_source_replaces_the_referee(paying_api: Api, source):
    paying_api.create(employment_item())
    paying_api.work()

    assert [asked["check"] for asked in source.asked] == ["EMPLOYER_VERIFICATION"]
    assert not Reference.objects.exists()


def test_sandbox_asks_no_referee(api: Api):
    report = api.create(employment_item())
    api.work()

    assert api.report(report["id"])["status"] == "READY"
    assert not Reference.objects.exists()
    assert referee_messages() == []


def test_expired_link_fails_the_check(paying_api: Api):
    reference = create_reference(paying_api)
    let_days_pass(14)
    with pytest.raises(ReferenceClosed, match="EXPIRED"):
        submit(reference.pk, 1, ANSWERS, EVIDENCE)
    paying_api.work()

    assert result_of(paying_api, reference)["failure"] == {
        "code": "REFEREE_NO_ANSWER",
        "message": "The referee did not answer in time.",
        "retryable": True,
    }
    reference.refresh_from_db()
    assert reference.status == "EXPIRED"
    assert event_names()[-2:] == ["check.failed", "report.failed"]
    assert ledger_totals() == {"CHARGE": -500, "REVERSAL": 500}


def test_retry_sends_another_link(paying_api: Api):
    first = create_reference(paying_api)
    let_days_pass(14)
    paying_api.work()
    paying_api.post(f"/reports/{first.report_id}/retry")
    paying_api.work()

    second = Reference.objects.get(attempt=2)
    (_, old), (kind, new) = referee_messages()
    assert (kind, old != new) == ("REFERENCE_REQUEST", True)
    with pytest.raises(ReferenceClosed, match="EXPIRED"):
        submit(first.pk, 1, ANSWERS, EVIDENCE)
    submit(second.pk, 1, ANSWERS, EVIDENCE)
    paying_api.work()
    assert paying_api.report(str(first.report_id))["status"] == "READY"


def test_crashed_worker_has_sent_one_request(paying_api: Api):
    paying_api.create(employment_item())
    (claimed,) = claim(1)
    requests.run_reference_check(claimed)  # and it dies
    let_time_pass()
    paying_api.work()

    assert len(referee_messages()) == 1
    assert only_result().next_attempt_at == Reference.objects.get().expires_at


def test_late_worker_does_not_postpone_an_answered_check(paying_api: Api, monkeypatch):
    reference = create_reference(paying_api)
    CheckResult.objects.update(next_attempt_at=now(), turn_at=now())
    read = requests.run_reference_check

    def overtaken(claimed):
        outcome = read(claimed)
        submit(reference.pk, 1, ANSWERS, EVIDENCE)
        return outcome

    monkeypatch.setattr(engine, "run_reference_check", overtaken)
    paying_api.work()
    paying_api.work()

    assert paying_api.report(str(reference.report_id))["status"] == "READY"


def test_cancel_is_not_overtaken_by_a_wait(paying_api: Api, monkeypatch):
    report = paying_api.create(employment_item())
    ask = requests.run_reference_check

    def cancelled_meanwhile(claimed):
        outcome = ask(claimed)
        paying_api.post(f"/reports/{report['id']}/cancel")
        return outcome

    monkeypatch.setattr(engine, "run_reference_check", cancelled_meanwhile)
    paying_api.work()
    paying_api.work()

    assert only_result().status == "CANCELLED"
    assert sum(ledger_totals().values()) == 0


def test_cancelled_report_asks_no_referee(paying_api: Api):
    report = paying_api.create(employment_item())
    (claimed,) = claim(1)
    paying_api.post(f"/reports/{report['id']}/cancel")

    requests.run_reference_check(claimed)

    assert not Reference.objects.exists()
    assert referee_messages() == []


def test_answer_wakes_the_workers(paying_api: Api):
    reference = create_reference(paying_api)
    Job.objects.all().delete()
    submit(reference.pk, 1, ANSWERS, EVIDENCE)

    woken = Job.objects.values_list("function", flat=True)
    assert "verification.checks.engine.run_due_checks" in woken
    assert only_result().next_attempt_at <= now()


def test_failed_request_is_retried_and_logged_without_names(
    paying_api: Api, monkeypatch, log_lines
):
    def broken(*wanted):
        raise ValueError(f"cannot tell {wanted}")

    with monkeypatch.context() as patch:
        patch.setattr(requests, "notify", broken)
        report = paying_api.create(employment_item())
        paying_api.work()
    assert not Reference.objects.exists()
    let_time_pass()
    paying_api.work()

    assert len(referee_messages()) == 1
    assert paying_api.report(report["id"])["status"] == "RUNNING"
    logged = str(log_lines())
    assert "ValueError" in logged
    assert "amina" not in logged.lower()


def test_findings_of_a_referee_are_reused(paying_api: Api):
    reference = create_reference(paying_api)
    submit(reference.pk, 1, ANSWERS, EVIDENCE)
    paying_api.work()
    again = paying_api.create(employment_item())
    paying_api.work()

    (reused,) = paying_api.report(again["id"])["checkResults"]
    assert reused["reused"]
    assert len(referee_messages()) == 1


def test_claimed_rerun_asks_no_referee_after_a_withdrawal(paying_api: Api):
    made = paying_api.create({**employment_item(), "consent": HOSTED})
    consent = Consent.objects.get(report=made["id"])
    grant(consent.pk, 1, SIGNED)
    paying_api.work()
    submit(Reference.objects.get().pk, 1, ANSWERS, EVIDENCE)
    paying_api.work()
    correction = dispute(made["id"], "EMPLOYER_VERIFICATION")
    corrections.take(correction.pk, reviewer())
    corrections.rerun(correction.pk, reviewer())
    (claimed,) = claim(1)

    withdraw(consent.pk, 1, SIGNED, "")

    assert requests.run_reference_check(claimed) == Cancelled()
    assert Reference.objects.count() == 1
