from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.core import mail
from django.utils.timezone import now

from monitoring.models import PauseReason, Rule, Run
from monitoring.pauses import (
    notify_paused,
    pause,
    pause_for_objection,
    pause_for_staff,
    resume_for_staff,
)
from monitoring.runs import launch_due_runs
from tests.world.clients import ATTESTED, HOSTED, Api, error_codes, person
from tests.world.employer import EMPLOYMENT_INPUTS, employment_item
from tests.world.orders import _the_ledger_adds_up as _the_ledger_adds_up
from tests.world.orders import movements
from tests.world.rules import (
    CHANGING,
    create_rule,
    move_rules_back,
    run_rules,
    store_rule,
    top_up_account,
)
from tests.world.staff import run_action
from verification.backoffice.models import AuditEvent
from verification.checks.models import CheckDefinition
from verification.consents.models import Consent
from verification.consents.subject_decisions import Evidence, grant
from verification.jobs.models import Job
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Notification
from verification.notifications.templates import write_email
from verification.privacy.withdrawals import withdraw
from verification.reports.models import Report
from verification.values.local_time import utc_text
from workspaces.models import Account

DAY = timedelta(days=1)
# In the sandbox, the check of this number fails.
FAILING = "90000008"


def withdrawn(api: Api, check: str = "IDENTITY", **subject: Any) -> None:
    """Let the subject consent to a report by the hosted link, and withdraw."""
    item = {**person(**subject), "checksRequested": [check], "consent": HOSTED}
    made = api.create(item)
    consent = Consent.objects.get(report=made["id"])
    evidence = Evidence(typed_name=consent.report.subject_name)
    grant(consent.pk, consent.generation, evidence)
    withdraw(consent.pk, consent.generation, Evidence(), "")


def lose_consent() -> None:
    """Pause all rules as a withdrawal does."""
    at = {"paused_at": now(), "consent_withdrawn_at": now()}
    Rule.objects.update(status="PAUSED", pause_reason="CONSENT_WITHDRAWN", **at)


def anew(**members: Any) -> dict[str, Any]:
    return {"consent": {**ATTESTED, "obtainedAt": utc_text(now()), **members}}


def resume(api: Api, rule: Rule, body: Any = None) -> Any:
    return api.post(f"/monitoring/{rule.pk}/resume", {} if body is None else body)


def standing(rule: Rule) -> tuple[str, str]:
    rule.refresh_from_db()
    return rule.status, rule.pause_reason


def told() -> list[Notification]:
    notify_paused()
    return list(Notification.objects.filter(kind="MONITORING_PAUSED").order_by("id"))


def test_paused_rule_does_not_run_and_shows_reason_and_time(api: Api):
    made = create_rule(api)

    paused = api.post(f"/monitoring/{made['id']}/pause").json()

    assert (paused["status"], paused["pauseReason"]) == ("PAUSED", "BY_CLIENT")
    assert paused["pausedAt"]
    assert paused["nextRunAt"] is None
    move_rules_back(2 * DAY)
    launch_due_runs()
    assert Run.objects.count() == 1
    assert api.post(f"/monitoring/{made['id']}/pause").json() == paused


def test_resumed_rule_keeps_its_times(api: Api):
    made = create_rule(api)
    api.post(f"/monitoring/{made['id']}/pause")

    resumed = api.post(f"/monitoring/{made['id']}/resume", {}).json()

    assert resumed == made


def test_rule_resumed_late_runs_once_and_then_at_its_times(api: Api):
    rule = store_rule(api)
    api.post(f"/monitoring/{rule.pk}/pause")
    move_rules_back(timedelta(days=5, hours=3))

    assert resume(api, rule).status_code == 200
    launch_due_runs()
    launch_due_runs()

    rule.refresh_from_db()
    assert Run.objects.count() == 1
    assert rule.next_run_at == rule.starts_at + timedelta(days=6)


def test_resume_of_an_active_rule_changes_nothing(api: Api):
    made = create_rule(api)
    assert api.post(f"/monitoring/{made['id']}/resume", {}).json() == made


def test_withdrawal_pauses_all_rules_on_the_subject(api: Api, another_api: Api):
    ours = [store_rule(api), store_rule(api, "KRA_PIN"), store_rule(api, "CRB_SCORE")]
    another, elsewhere = store_rule(api, id_number="23456789"), store_rule(another_api)

    withdrawn(api)

    for rule in ours:
        assert standing(rule) == ("PAUSED", "CONSENT_WITHDRAWN")
        assert rule.consent_withdrawn_at == rule.paused_at
    for rule in (another, elsewhere):
        assert standing(rule) == ("ACTIVE", "")


def test_objection_leaves_the_time_of_an_earlier_pause(api: Api):
    rule, before = store_rule(api), now() - timedelta(days=20)
    Rule.objects.update(status="PAUSED", pause_reason="BY_CLIENT", paused_at=before)

    pause_for_objection([rule.pk])

    assert standing(rule) == ("PAUSED", "OBJECTION")
    assert rule.paused_at == before
    assert rule.consent_withdrawn_at > before


def test_withdrawal_spares_rules_on_somebody_with_the_same_number(api: Api):
    ours = store_rule(api)
    strangers = [
        store_rule(api, subject=person(**details)["subject"])
        for details in ({"fullName": "Peter Otieno"}, {"email": "another@kamau.test"})
    ]

    withdrawn(api, email="wanjiku@kamau.test")

    assert standing(ours) == ("PAUSED", "CONSENT_WITHDRAWN")
    assert [standing(rule) for rule in strangers] == [("ACTIVE", "")] * 2


def test_withdrawal_pauses_rules_on_the_name_alone(api: Api):
    check, phone = "EMPLOYER_VERIFICATION", {"phone": "+254712345678"}
    ours, *strangers = [
        store_rule(api, check, subject=employment_item(**details)["subject"])
        for details in (
            {"idNumber": None},
            {"idNumber": None, "fullName": "Peter Otieno"},
            {"idNumber": None, "phone": "+254712345679"},
            {"idNumber": "23456789"},
        )
    ]

    withdrawn(api, check, **{**EMPLOYMENT_INPUTS, **phone, "idNumber": None})

    assert standing(ours) == ("PAUSED", "CONSENT_WITHDRAWN")
    assert [standing(rule) for rule in strangers] == [("ACTIVE", "")] * 3


def test_withdrawal_in_the_other_environment_pauses_nothing(api: Api, live_api: Api):
    rule = store_rule(live_api)
    withdrawn(api)
    assert standing(rule) == ("ACTIVE", "")


def test_rules_are_paused_in_the_transaction_of_the_withdrawal(api: Api, monkeypatch):
    rule = store_rule(api)

    def fails(*_: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr("verification.privacy.withdrawals.end_early", fails)
    with pytest.raises(RuntimeError):
        withdrawn(api)

    assert standing(rule) == ("ACTIVE", "")


def test_withdrawal_cancels_and_refunds_current_runs(
    api: Api,
):
    create_rule(api, "IDENTITY")
    withdrawn(api)

    run = Run.objects.get()
    report = api.report(str(run.report_id))
    assert report["status"] == "CANCELLED"
    assert report["checkResults"][0]["status"] == "CANCELLED"
    kinds = [(kind, amount) for kind, amount, _ in movements(api)]
    assert kinds.count(("CHARGE", -50)) == kinds.count(("REVERSAL", 50))


def test_failed_run_is_not_retried_after_the_withdrawal(api: Api):
    run = failed_run(api)
    assert api.report(str(run.report_id))["status"] == "FAILED"
    withdrawn(api, idNumber=FAILING)
    assert standing(run.rule) == ("PAUSED", "CONSENT_WITHDRAWN")
    before = movements(api)

    problem = api.refused(f"/reports/{run.report_id}/retry", {})

    assert (problem["status"], problem["code"]) == (409, "report-not-retryable")
    assert "withdrew" in problem["detail"]
    assert movements(api) == before
    assert resume(api, run.rule, anew()).json()["status"] == "ACTIVE"
    assert api.post(f"/reports/{run.report_id}/retry").status_code == 200


def failed_run(api: Api) -> Run:
    """Create a rule, and return its first run, which failed."""
    create_rule(api, "IDENTITY", subject=person(idNumber=FAILING)["subject"])
    api.work()
    return Run.objects.select_related("rule", "report").get()


@pytest.mark.parametrize("first", ["withdrawal", "deletion"])
def test_failed_run_of_a_deleted_rule_is_not_retried_after_the_withdrawal(
    api: Api, first: str
):
    run = failed_run(api)
    if first == "withdrawal":
        withdrawn(api, idNumber=FAILING)
    assert api.delete(f"/monitoring/{run.rule_id}").status_code == 204
    if first == "deletion":
        withdrawn(api, idNumber=FAILING)
    before = movements(api)

    problem = api.refused(f"/reports/{run.report_id}/retry", {})

    assert (problem["status"], problem["code"]) == (409, "report-not-retryable")
    assert "withdrew" in problem["detail"]
    assert movements(api) == before


@pytest.mark.parametrize("who", ["namesake", "before"])
def test_failed_run_of_a_deleted_rule_is_retried_without_a_withdrawal(
    api: Api, who: str
):
    if who == "before":
        withdrawn(api, idNumber=FAILING)
    run = failed_run(api)
    assert api.delete(f"/monitoring/{run.rule_id}").status_code == 204
    if who == "namesake":
        withdrawn(api, idNumber=FAILING, fullName="Peter Otieno")

    assert api.post(f"/reports/{run.report_id}/retry").status_code == 200


def test_withdrawal_cancels_the_current_run_of_a_deleted_rule(api: Api):
    made = create_rule(api, "IDENTITY")
    assert api.delete(f"/monitoring/{made['id']}").status_code == 204
    report = Report.objects.get()

    withdrawn(api)

    assert api.report(str(report.pk))["status"] == "CANCELLED"
    kinds = [(kind, amount) for kind, amount, _ in movements(api)]
    assert kinds.count(("CHARGE", -50)) == kinds.count(("REVERSAL", 50))


def test_message_names_rules_by_their_last_report_and_page(api: Api):
    create_rule(api, "IDENTITY")
    never_run = store_rule(api)
    withdrawn(api)

    run = Run.objects.select_related("report").get()
    pages = f"{settings.BASE_URL}/console/{api.workspace.pk}/sandbox/monitoring"
    (message,) = told()
    text = write_email(message).text
    assert f"    {run.report.number}: {pages}/{run.rule_id}\n" in text
    assert f"    {pages}/{never_run.pk}\n" in text


def test_rule_needs_a_new_consent_after_a_withdrawal(api: Api):
    rule = store_rule(api)
    lose_consent()

    problem = api.refused(f"/monitoring/{rule.pk}/resume", {})

    assert (problem["status"], problem["code"]) == (409, "rule-not-resumable")
    assert problem["pauseReason"] == "CONSENT_WITHDRAWN"
    assert standing(rule) == ("PAUSED", "CONSENT_WITHDRAWN")


def test_next_run_uses_the_consent_given_after_the_withdrawal(api: Api):
    rule = store_rule(api)
    lose_consent()
    consent = anew(evidenceReference="form-2")

    assert resume(api, rule, consent).json()["status"] == "ACTIVE"

    move_rules_back(DAY)
    launch_due_runs()
    report = Run.objects.get().report
    assert report.consent.attestation["evidenceReference"] == "form-2"


def test_consent_from_before_the_withdrawal_is_refused(api: Api):
    rule = store_rule(api)
    lose_consent()

    problem = api.refused(f"/monitoring/{rule.pk}/resume", {"consent": ATTESTED})

    assert error_codes(problem) == {"#/consent/obtainedAt": "out-of-range"}
    assert standing(rule) == ("PAUSED", "CONSENT_WITHDRAWN")


def test_second_withdrawal_needs_another_consent(api: Api):
    rule = store_rule(api)
    withdrawn(api)
    consent = anew()
    withdrawn(api)

    problem = api.refused(f"/monitoring/{rule.pk}/resume", consent)

    assert error_codes(problem) == {"#/consent/obtainedAt": "out-of-range"}


INVALID_CONSENTS = [
    (HOSTED, "#/consent/mode", "not-allowed-here"),
    ({**ATTESTED, "obtained": False}, "#/consent/obtained", "consent-required"),
    ({"mode": "CUSTOMER_ATTESTED"}, "#/consent/obtained", "required"),
    ({**ATTESTED, "x": 1}, "#/consent/x", "unknown-member"),
    ("yes", "#/consent", "invalid-type"),
]


def test_invalid_consent_resumes_nothing(api: Api):
    rule = store_rule(api)
    lose_consent()
    for consent, at, code in INVALID_CONSENTS:
        problem = api.refused(f"/monitoring/{rule.pk}/resume", {"consent": consent})

        assert error_codes(problem)[at] == code, consent
        assert standing(rule) == ("PAUSED", "CONSENT_WITHDRAWN"), consent


def test_consent_is_refused_when_the_present_one_holds(api: Api):
    rule = store_rule(api)
    api.post(f"/monitoring/{rule.pk}/pause")

    problem = api.refused(f"/monitoring/{rule.pk}/resume", anew())

    assert error_codes(problem) == {"#/consent": "not-allowed-here"}


def lend(api: Api, amount: int) -> None:
    Account.objects.filter(pk=api.account.pk).update(credit_limit=amount)


def test_rule_stays_paused_while_the_balance_is_too_low(live_api: Api, staff):
    rule, by_client = store_rule(live_api), store_rule(live_api)
    live_api.post(f"/monitoring/{by_client.pk}/pause")
    assert resume(live_api, by_client).status_code == 200
    live_api.post(f"/monitoring/{by_client.pk}/pause")
    move_rules_back(DAY)
    launch_due_runs()
    top_up_account(live_api, 49)
    assert resume(live_api, by_client).status_code == 402

    problem = live_api.refused(f"/monitoring/{rule.pk}/resume", {})

    assert (problem["status"], problem["code"]) == (402, "insufficient-balance")
    assert "Top up" in run_action(staff, "resume", rule, confirmed="yes")[0]
    assert standing(rule) == ("PAUSED", "INSUFFICIENT_BALANCE")
    lend(live_api, 1)
    assert resume(live_api, rule).status_code == 200


def test_rule_stays_paused_while_a_check_is_inactive(api: Api, staff):
    rule, by_client = store_rule(api, "KRA_PIN"), store_rule(api, "KRA_PIN")
    api.post(f"/monitoring/{by_client.pk}/pause")
    definition = CheckDefinition.objects.filter(name="KRA_PIN")
    definition.update(active=False)
    move_rules_back(DAY)
    launch_due_runs()

    for paused in (rule, by_client):
        problem = api.refused(f"/monitoring/{paused.pk}/resume", {})
        assert (problem["status"], problem["code"]) == (409, "rule-not-resumable")
        assert problem["pauseReason"] == "CHECK_INACTIVE"
        assert "KRA_PIN" in problem["detail"]
    assert "KRA_PIN" in run_action(staff, "resume", rule, confirmed="yes")[0]
    assert standing(rule) == ("PAUSED", "CHECK_INACTIVE")
    definition.update(active=True)
    assert resume(api, rule).status_code == 200


def test_only_staff_resume_rules_that_staff_paused(api: Api):
    rule = store_rule(api)
    assert pause_for_staff(rule.pk)
    assert not pause_for_staff(rule.pk)

    problem = api.refused(f"/monitoring/{rule.pk}/resume", {})

    assert (problem["code"], problem["pauseReason"]) == (
        "rule-not-resumable",
        "BY_STAFF",
    )
    assert resume_for_staff(rule.pk)
    assert standing(rule) == ("ACTIVE", "")


@pytest.mark.parametrize("is_first", [True, False])
def test_pause_by_staff_keeps_the_pause_of_the_client(api: Api, staff, is_first: bool):
    rule = store_rule(api)
    if not is_first:
        assert pause_for_staff(rule.pk)
    for _ in range(2):
        assert api.post(f"/monitoring/{rule.pk}/pause").status_code == 200
    assert AuditEvent.objects.filter(action="rule.paused").count() == 1

    assert pause_for_staff(rule.pk) == is_first
    (message,) = run_action(staff, "resume", rule, confirmed="yes")

    assert message.endswith("left to the client. Paused by the client.")
    assert AuditEvent.objects.latest("id").action == "rule.left-to-the-client"
    assert standing(rule) == ("PAUSED", "BY_CLIENT")
    # It is the client's again, and staff may resume it at the client's request.
    assert resume_for_staff(rule.pk)
    assert standing(rule) == ("ACTIVE", "")


def test_client_takes_back_its_pause_while_staff_pause_the_rule(api: Api):
    rule = store_rule(api)
    assert pause_for_staff(rule.pk)
    api.post(f"/monitoring/{rule.pk}/pause")

    for _ in range(2):
        problem = api.refused(f"/monitoring/{rule.pk}/resume", {})
        assert problem["pauseReason"] == "BY_STAFF"

    assert AuditEvent.objects.filter(action="rule.resumed").count() == 1
    assert resume_for_staff(rule.pk)
    assert standing(rule) == ("ACTIVE", "")


def test_withdrawal_leaves_rules_paused_by_staff_with_staff(api: Api):
    rule = store_rule(api)
    pause_for_staff(rule.pk)
    withdrawn(api)

    problem = api.refused(f"/monitoring/{rule.pk}/resume", anew())
    assert problem["pauseReason"] == "BY_STAFF"

    assert resume_for_staff(rule.pk)
    assert standing(rule) == ("PAUSED", "CONSENT_WITHDRAWN")
    assert resume(api, rule, anew()).status_code == 200
    assert standing(rule) == ("ACTIVE", "")


def test_pause_by_staff_keeps_the_withdrawal(api: Api):
    rule = store_rule(api)
    lose_consent()
    assert pause_for_staff(rule.pk)
    assert resume_for_staff(rule.pk)
    assert standing(rule) == ("PAUSED", "CONSENT_WITHDRAWN")


def test_paused_rule_keeps_its_reason(api: Api):
    rule = store_rule(api)
    api.post(f"/monitoring/{rule.pk}/pause")
    rule.refresh_from_db()

    assert pause([rule], PauseReason.CHECK_INACTIVE) == 0
    assert standing(rule) == ("PAUSED", "BY_CLIENT")


def test_one_message_names_all_rules_paused_by_a_job(live_api: Api):
    rules = [store_rule(live_api, reference=f"loan-{n}") for n in range(12)]
    move_rules_back(DAY)
    launch_due_runs()

    (message,) = told()
    assert told() == [message]
    send_due_notifications()

    (sent,) = mail.outbox
    assert sent.to == ["owner@acacia.test"]
    english, kiswahili = sent.subject.split(" / ")
    assert english == "12 monitoring rules are paused"
    assert kiswahili == "Kanuni 12 za ufuatiliaji zimesimamishwa"
    assert "the balance did not cover the next run" in sent.body
    assert str(rules[0].pk) in sent.body
    assert "loan-0" not in sent.body
    assert "and 2 more" in sent.body
    assert "POST /api/v1/monitoring/ID/resume" in sent.body
    assert "Wanjiku" not in sent.body


def test_each_reason_environment_and_workspace_has_its_own_message(
    api: Api, live_api: Api, another_api: Api
):
    store_rule(live_api), store_rule(live_api, "KRA_PIN")
    store_rule(api, "KRA_PIN", id_number=CHANGING), store_rule(another_api, "KRA_PIN")
    store_rule(api)
    move_rules_back(DAY)
    CheckDefinition.objects.filter(name="KRA_PIN").update(active=False)
    launch_due_runs()
    withdrawn(api)

    contexts = [n.context for n in told()]
    found = {(c["workspace"], c["environment"], c["reason"]) for c in contexts}
    assert found == {
        ("Acacia Lenders", "production", "INSUFFICIENT_BALANCE"),
        ("Acacia Lenders", "production", "CHECK_INACTIVE"),
        ("Acacia Lenders", "sandbox", "CHECK_INACTIVE"),
        ("Acacia Lenders", "sandbox", "CONSENT_WITHDRAWN"),
        ("Baobab Bank", "sandbox", "CHECK_INACTIVE"),
    }
    assert len(contexts) == 5


def test_pauses_by_people_and_ended_pauses_send_no_message(api: Api, live_api: Api):
    api.post(f"/monitoring/{store_rule(api).pk}/pause")
    pause_for_staff(store_rule(api).pk)
    over = store_rule(live_api)
    move_rules_back(DAY)
    launch_due_runs()
    assert standing(over) == ("PAUSED", "INSUFFICIENT_BALANCE")
    top_up_account(live_api, 50)
    resume(live_api, over)

    assert told() == []


def test_second_pause_sends_another_message(live_api: Api):
    rule = store_rule(live_api)
    move_rules_back(DAY)
    launch_due_runs()
    assert len(told()) == 1
    lend(live_api, 50)
    resume(live_api, rule)
    lend(live_api, 0)
    launch_due_runs()

    assert len(told()) == 2


def test_pause_sends_its_message_when_its_job_dies(live_api: Api):
    store_rule(live_api)
    move_rules_back(DAY)
    launch_due_runs()

    job = Job.objects.get(function="monitoring.pauses.notify_paused")
    assert job.due_at < now() + timedelta(minutes=1)


def test_resumed_rule_keeps_its_reports(api: Api):
    create_rule(api)
    run_rules(api)
    withdrawn(api)
    assert Report.objects.filter(monitoring_id__isnull=False, status="READY").exists()
