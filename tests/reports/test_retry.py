import pytest

from tests.world.clients import Api
from tests.world.orders import (
    CLEAR_PIN,
    REFUSED,
    count_rows,
    create_report_with_status,
    movements,
    two_checks,
)
from tests.world.threads import run_at_once
from verification.checks.models import CheckDefinition
from verification.reports import launch as verbs

RETRYABLE = ["PARTIAL ended", "FAILED"]
RECOVERS = "90000004"


def retry(api: Api, report_id: str) -> dict:
    return api.act(verbs.retry, report_id)


def set_max_attempts(count: int) -> None:
    policy = {
        "maxAttempts": count,
        "initialDelaySeconds": 0,
        "backoffMultiplier": 1,
        "maxDelaySeconds": 0,
    }
    CheckDefinition.objects.update(retry_policy=policy)


def statuses(report: dict) -> list[str]:
    return [result["status"] for result in report["checkResults"]]


def test_report_is_not_retried_before_its_end_or_when_cancelled(api: Api):
    slow_pin = two_checks(idNumber=REFUSED, kraPin="A900000006Z")
    report = api.create(slow_pin)
    api.work()
    problem = api.refused(f"/reports/{report['id']}/retry")
    assert problem["code"] == "report-not-retryable"
    assert problem["reportStatus"] == "PARTIAL"
    api.post(f"/reports/{report['id']}/cancel")

    assert statuses(api.report(report["id"])) == ["FAILED", "CANCELLED"]
    problem = api.refused(f"/reports/{report['id']}/retry")
    assert problem["code"] == "report-not-retryable"
    assert problem["reportStatus"] == "CANCELLED"


def test_retry_runs_failed_checks_to_ready(api: Api):
    set_max_attempts(1)
    created = api.create(two_checks(idNumber=RECOVERS, kraPin=CLEAR_PIN))
    api.work()
    failed = api.report(created["id"])
    set_max_attempts(3)
    CheckDefinition.objects.update(price=999)

    retried = retry(api, created["id"])
    api.work()

    report = api.report(created["id"])
    assert (failed["status"], statuses(failed)) == ("PARTIAL", ["FAILED", "COMPLETED"])
    assert failed["failure"]["code"] == "CHECKS_FAILED"
    assert (retried["status"], statuses(retried)) == (
        "PARTIAL",
        ["PENDING", "COMPLETED"],
    )
    assert (retried["failure"], retried["completedAt"]) == (None, None)
    assert retried["checkResults"][0]["failure"] is None
    assert report["status"] == "READY"
    assert report["checkResults"][1] == failed["checkResults"][1]
    assert [r["id"] for r in report["checkResults"]] == [
        r["id"] for r in failed["checkResults"]
    ]
    # At the price of the order
    assert api.account.balance == -100


def test_only_completed_checks_are_billed(api: Api):
    set_max_attempts(1)
    report = api.create(two_checks(idNumber=RECOVERS, kraPin=CLEAR_PIN))
    api.work()
    retry(api, report["id"])
    api.work()
    set_max_attempts(3)
    retry(api, report["id"])
    api.work()

    assert movements(api) == [
        ("CHARGE", -50, 1),
        ("CHARGE", -50, 1),
        ("REVERSAL", 50, 1),
        ("CHARGE", -50, 2),
        ("REVERSAL", 50, 2),
        ("CHARGE", -50, 3),
    ]
    assert api.account.balance == -100


def test_retry_of_a_report_without_results_is_running(api: Api):
    report_id = create_report_with_status(api, "FAILED")

    assert retry(api, report_id)["status"] == "RUNNING"


def test_retry_without_balance_changes_nothing(api: Api, live_api: Api):
    account = live_api.account
    account.credit_limit = 100
    account.save()
    report = live_api.create(two_checks())
    live_api.work()
    account.refresh_from_db()
    account.credit_limit = 0
    account.save()
    before = count_rows()

    problem = live_api.refused(f"/reports/{report['id']}/retry")

    assert problem["code"] == "insufficient-balance"
    assert count_rows() == before
    assert live_api.report(report["id"])["status"] == "FAILED"


@pytest.mark.django_db(transaction=True)
def test_one_of_many_concurrent_retries_succeeds(api: Api):
    report_id = create_report_with_status(api, "FAILED")

    answers = run_at_once(6, lambda _: api.post(f"/reports/{report_id}/retry"))

    assert sorted(answer.status_code for answer in answers) == [200, *[409] * 5]
    assert movements(api).count(("CHARGE", -50, 2)) == 2
