"""The client acts in its sandbox as the subject."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils.timezone import now

from tests.world.clients import HOSTED, Api, company, erase, error_codes, person
from tests.world.orders import count_rows
from verification.checks.models import CheckDefinition
from verification.consents.models import Consent, ConsentRecord
from verification.reports.models import Report
from verification.sandbox.consents import ConsentAction, act_as_subject
from workspaces.models import Client


@pytest.fixture
def asked(api: Api) -> str:
    """Return a report that waits for its subject."""
    return str(api.create({**person(), "consent": HOSTED})["id"])


def act(api: Api, report_id: str, action: str, **more: Any) -> dict[str, Any]:
    body = {"action": action, **more}
    answer = api.post(f"/sandbox/reports/{report_id}/consent", body)
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_grant_starts_the_checks_and_says_how_it_came(api: Api, asked: str):
    state = act(api, asked, "grant")

    assert (state["status"], state["consentState"]["status"]) == ("RUNNING", "GRANTED")
    record = ConsentRecord.objects.get(report=asked)
    evidence = record.evidence or {}
    assert evidence["confirmedBy"] == "SANDBOX_API"
    assert evidence["typedName"] == "Wanjiku Kamau"
    assert "Acacia Lenders" in evidence["text"]
    api.work()
    assert api.report(asked)["status"] == "READY"


@pytest.mark.parametrize(
    ("action", "status", "code"),
    [
        ("decline", "DECLINED", "CONSENT_DECLINED"),
        ("expire", "EXPIRED", "CONSENT_EXPIRED"),
    ],
)
def test_report_fails_when_the_subject_does_not_agree(
    api: Api, asked: str, action: str, status: str, code: str
):
    act(api, asked, action)

    report = api.report(asked)
    assert (report["status"], report["failure"]["code"]) == ("FAILED", code)
    assert report["consentState"]["status"] == status


def test_withdrawal_keeps_its_reason(api: Api, asked: str):
    act(api, asked, "grant")

    state = act(api, asked, "withdraw", reason="I moved")

    assert state["status"] == "CANCELLED"
    assert state["consentState"]["reason"] == "I moved"


def test_action_that_the_state_does_not_take_changes_nothing(api: Api, asked: str):
    before = count_rows()

    problem = api.refused(f"/sandbox/reports/{asked}/consent", {"action": "withdraw"})

    assert problem["code"] == "sandbox-action-not-possible"
    assert problem["possible"] == ["grant", "decline", "expire"]
    assert count_rows() == before


def test_name_with_hidden_letters_cannot_be_signed_for_its_subject(api: Api):
    report = api.create({**person(), "consent": HOSTED})["id"]
    # Earlier versions took such a name.
    row = Report.objects.get(pk=report)
    row.subject = {**row.subject, "fullName": "Jane D*e"}
    row.save()

    answer = api.post(f"/sandbox/reports/{report}/consent", {"action": "grant"})

    assert answer.status_code == 409
    assert answer.json()["possible"] == ["decline", "expire"]


def test_granted_draft_has_the_price_of_its_launch(api: Api):
    draft = api.create({**person(), "consent": HOSTED}, draft=True)["id"]
    CheckDefinition.objects.filter(name="IDENTITY").update(price=60)

    state = act(api, draft, "grant")

    assert state["paymentState"] == api.report(draft)["paymentState"]
    assert state["paymentState"]["amount"]["amount"] == 260


def test_consent_changes_the_report_also_without_a_move(api: Api):
    draft = api.create({**person(), "consent": HOSTED, "draft": True})["id"]
    times = [api.report(draft)["updatedAt"]]
    for action in ("grant", "withdraw"):
        act(api, draft, action)
        times.append(api.report(draft)["updatedAt"])

    renewed = api.create({**person(), "consent": HOSTED, "draft": True})["id"]
    before = api.report(renewed)["updatedAt"]
    Consent.objects.update(link_made_at=now() - timedelta(minutes=2))
    assert api.post(f"/reports/{renewed}/consent/resend").status_code == 200

    assert times == sorted({*times})
    assert api.report(renewed)["updatedAt"] > before


def test_unknown_action_is_refused(api: Api, asked: str):
    problem = api.refused(f"/sandbox/reports/{asked}/consent", {"action": "agree"})

    assert error_codes(problem) == {"#/action": "invalid-choice"}


def test_repeated_action_with_its_key_gets_the_first_answer(api: Api, asked: str):
    path, body = f"/sandbox/reports/{asked}/consent", {"action": "grant"}

    first, again = (api.post(path, body, Idempotency_Key="k") for _ in "12")

    assert (again.status_code, again.json()) == (200, first.json())
    assert again["Idempotent-Replayed"] == "true"
    assert ConsentRecord.objects.count() == 1


def test_key_of_another_report_is_refused(api: Api, asked: str):
    another = api.create({**person(idNumber="22345678"), "consent": HOSTED})["id"]
    body = {"action": "grant"}
    api.post(f"/sandbox/reports/{asked}/consent", body, Idempotency_Key="k")

    path = f"/sandbox/reports/{another}/consent"
    problem = api.refused(path, body, Idempotency_Key="k")

    assert (problem["status"], problem["code"]) == (422, "idempotency-key-reused")


def test_kept_answer_goes_with_the_subject(api: Api, asked: str):
    path = f"/sandbox/reports/{asked}/consent"
    body = {"action": "decline", "reason": "I know nobody there"}
    assert api.post(path, body, Idempotency_Key="k").status_code == 200

    erase(api, asked)

    again = api.post(path, body, Idempotency_Key="k").json()
    assert (again["status"], again["code"]) == (410, "answer-erased")


def test_verb_finds_no_report_of_production(api: Api, live_api: Api):
    made = live_api.create({**company(), "consent": HOSTED}, draft=True)
    client = Client(live_api.workspace, live_api.account, "tests")

    with pytest.raises(Report.DoesNotExist):
        act_as_subject(client, made["id"], ConsentAction.GRANT, "")


def test_reason_of_another_action_is_refused(api: Api, asked: str):
    body = {"action": "grant", "reason": "NOT_ME"}

    problem = api.refused(f"/sandbox/reports/{asked}/consent", body)

    assert error_codes(problem) == {"#/reason": "not-allowed-here"}
    assert api.report(asked)["status"] == "PENDING_CONSENT"
