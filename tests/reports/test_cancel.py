from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.world.clients import HOSTED, Api, company, error_codes, person
from tests.world.clock import longest_pauses as longest_pauses
from tests.world.orders import (
    REFUSED,
    create_report_with_status,
    movements,
    two_checks,
)
from tests.world.payments import pay_report
from tests.world.threads import run_at_once
from verification.checks.due_checks import claim
from verification.checks.models import CheckDefinition
from verification.checks.results import Completed, Failed, record_outcomes
from verification.reports import ends
from verification.reports.models import Report
from workspaces.models import CLOSED_REASON

CHARGED = ("CHARGE", -50, 1)
BACK = ("REVERSAL", 50, 1)
# status -> (how its two checks end, what the ledger says afterwards)
CANCELLED = {
    "DRAFT": (["CANCELLED", "CANCELLED"], []),
    "PENDING_CONSENT": (["CANCELLED", "CANCELLED"], [CHARGED, CHARGED, BACK, BACK]),
    "PENDING_PAYMENT": (["CANCELLED", "CANCELLED"], []),
    "RUNNING": (["CANCELLED", "CANCELLED"], [CHARGED, CHARGED, BACK, BACK]),
    "PARTIAL on the way": (["CANCELLED", "COMPLETED"], [CHARGED, CHARGED, BACK]),
}

PATIENT = {
    "maxAttempts": 5,
    "initialDelaySeconds": 10**6,
    "backoffMultiplier": 1,
    "maxDelaySeconds": 10**6,
}


def cancel(api: Api, report_id: str) -> dict:
    return api.act(ends.cancel, report_id)


def statuses(report: dict) -> list[str]:
    return [result["status"] for result in report["checkResults"]]


@pytest.mark.parametrize("status", CANCELLED)
def test_report_is_cancelled_before_its_end(api: Api, status: str):
    report_id = create_report_with_status(api, status)
    results, ledger = CANCELLED[status]

    report = cancel(api, report_id)

    assert report["status"] == "CANCELLED"
    assert report["completedAt"]
    assert statuses(report) == results
    assert movements(api) == ledger
    api.work()
    assert Report.objects.get().status == "CANCELLED"
    assert movements(api) == ledger


def test_cancel_accepts_no_members(api: Api):
    report_id = create_report_with_status(api, "DRAFT")

    problem = api.refused(f"/reports/{report_id}/cancel", {"reason": "x", "a/b": 1})
    assert error_codes(problem) == {
        "#/reason": "unknown-member",
        "#/a~1b": "unknown-member",
    }


def test_cancel_cancels_the_pending_payment(api: Api):
    report = cancel(api, create_report_with_status(api, "PENDING_PAYMENT"))

    assert report["paymentState"]["status"] == "CANCELLED"
    assert report["paymentState"]["paymentUrl"] is None


def test_cancel_leaves_a_paid_payment(api: Api):
    report = api.create({**company(), "paymentMode": "CANDIDATE"}, draft=True)
    pay_report(api, report)

    assert cancel(api, report["id"])["paymentState"]["status"] == "PAID"


def test_charge_of_a_failed_check_is_reversed_once(api: Api, longest_pauses):
    CheckDefinition.objects.filter(name="KRA_PIN").update(retry_policy=PATIENT)
    report = api.create(two_checks(idNumber=REFUSED, kraPin="A900000005Z"))
    api.work()

    assert statuses(api.report(report["id"])) == ["FAILED", "RUNNING"]
    assert cancel(api, report["id"])["status"] == "CANCELLED"
    assert movements(api) == [CHARGED, CHARGED, BACK, BACK]


FINDING = {
    "summary": "Found",
    "flags": [],
    "details": {},
    "evidence": {
        "provider": "sandbox",
        "providerReference": None,
        "retrievedAt": "2026-01-20T10:00:00.000000Z",
        "responseDigest": None,
        "nameComparison": None,
        "editions": None,
        "fieldsNotTold": [],
    },
}


@pytest.mark.parametrize(
    ("outcome", "status", "ledger"),
    [
        (Completed(5, FINDING), "COMPLETED", [CHARGED]),
        (Failed("SOURCE_DOWN", "Down.", retryable=True), "FAILED", [CHARGED, BACK]),
    ],
)
def test_call_under_way_records_its_answer_when_cancelled(
    api: Api, outcome, status, ledger
):
    created = api.create({**two_checks(), "checksRequested": ["IDENTITY"]})
    claims = claim(10)

    report = cancel(api, created["id"])
    record_outcomes([(c, outcome) for c in claims], definitions())

    assert (report["status"], statuses(report)) == ("CANCELLED", ["RUNNING"])
    after = api.report(created["id"])
    assert (after["status"], statuses(after)) == ("CANCELLED", [status])
    assert movements(api) == ledger


def definitions() -> dict:
    return {definition.pk: definition for definition in CheckDefinition.objects.all()}


@pytest.mark.django_db(transaction=True)
def test_one_of_many_concurrent_cancels_succeeds(api: Api):
    report_id = create_report_with_status(api, "RUNNING")

    answers = run_at_once(6, lambda _: api.post(f"/reports/{report_id}/cancel"))

    assert sorted(answer.status_code for answer in answers) == [200, *[409] * 5]
    assert sorted(movements(api)) == sorted([CHARGED, CHARGED, BACK, BACK])


@pytest.mark.django_db(transaction=True)
def test_report_cancelled_while_running_pays_for_what_ran(api: Api):
    reports = api.create(*[two_checks(idNumber=str(n)) for n in range(8)])

    def one(number: int) -> None:
        if number == 0:
            api.work()
            return
        for report in reports:
            api.post(f"/reports/{report['id']}/cancel")

    assert run_at_once(2, one) == [None, None]

    api.work()
    ended = [api.report(report["id"]) for report in reports]
    assert {report["status"] for report in ended} <= {"READY", "CANCELLED"}
    completed = sum(statuses(report).count("COMPLETED") for report in ended)
    assert api.account.balance == -50 * completed


def test_cancellation_of_open_reports_ends_when_the_workspace_is_resumed(
    api: Api, monkeypatch
):
    api.create(person(), person())
    api.workspace.suspend(CLOSED_REASON)
    end_early = ends.end_early

    def end_and_resume(*arguments: Any, **more: Any) -> None:
        end_early(*arguments, **more)
        api.workspace.resume()

    monkeypatch.setattr(ends, "end_early", end_and_resume)
    with CaptureQueriesContext(connection) as captured:
        for _ in range(2):
            ends.cancel_open_reports()

    # No index has the reports without an end, but one has those of few statuses.
    assert '"status" IN (' in captured[0]["sql"]
    assert Report.objects.filter(status="CANCELLED").count() == 1


def test_cancelled_report_shows_no_consent_link(api: Api):
    report = api.create({**person(), "consent": HOSTED})

    api.post(f"/reports/{report['id']}/cancel")

    state = api.get(f"/reports/{report['id']}/consent/state").json()
    assert state["consentUrl"] is None
