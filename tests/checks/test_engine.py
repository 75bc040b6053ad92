import io
import threading
import time
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils.timezone import now

from tests.checks.engine import ledger_totals, only_result, work_until_done
from tests.checks.source import CLEAR
from tests.world.clients import person
from tests.world.clock import let_time_pass
from tests.world.waiting import until
from verification.checks.due_checks import claim
from verification.checks.models import CheckDefinition, CheckResult
from verification.consents.models import Consent
from webhooks.models import Event

SLOW_SECONDS = 0.2
# Other tests may have left connections, so the test compares before and after.
CONNECTIONS = """
SELECT pid, xact_start IS NOT NULL FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend'
    AND pid <> pg_backend_pid()
"""


def connections():
    """Return the other connections: process id -> True if in a transaction."""
    with connection.cursor() as cursor:
        cursor.execute(CONNECTIONS)
        return dict(cursor.fetchall())


def orders(count):
    return [
        person(idNumber=str(20000000 + number)) | {"checksRequested": ["IDENTITY"]}
        for number in range(count)
    ]


@pytest.mark.django_db(transaction=True)
def test_calls_to_a_slow_source_run_in_parallel(paying_api, source):
    paying_api.create(*orders(16))
    eight = threading.Barrier(8, timeout=8)

    def answer_when_eight_ask(asked):
        eight.wait()
        return CLEAR

    source.play = answer_when_eight_ask
    paying_api.work()

    assert len(source.asked) == 16
    assert CheckResult.objects.filter(status="COMPLETED").count() == 16
    assert not eight.broken


@pytest.mark.django_db(transaction=True)
def test_engine_calls_sources_outside_any_transaction(paying_api, source):
    paying_api.create(*orders(10))
    all_asked = threading.Event()
    before, during = connections(), []

    def answer(asked):
        if len(source.asked) == 10:
            # The worker claims and records at the same time, for a moment each.
            for _ in range(20):
                time.sleep(SLOW_SECONDS / 20)
                during.append(connections())
            connection.close()
            all_asked.set()
        all_asked.wait(5)
        return CLEAR

    source.play = answer
    paying_api.work()

    (worker,) = set(during[0]) - set(before)
    assert not all(seen[worker] for seen in during)


@pytest.mark.django_db(transaction=True)
def test_engine_records_answers_while_other_calls_run(paying_api, source):
    paying_api.create(*orders(2))
    statuses = []

    def answer(asked):
        if asked["idNumber"] == "20000000":
            until(CheckResult.objects.filter(status="COMPLETED").exists)
            statuses.extend(CheckResult.objects.values_list("status", flat=True))
            connection.close()
        return CLEAR

    source.play = answer
    paying_api.work()

    assert sorted(statuses) == ["COMPLETED", "RUNNING"]


@pytest.mark.django_db(transaction=True)
def test_run_claims_checks_of_a_newer_definition(paying_api, source):
    CheckDefinition.objects.filter(name="CRB_SCORE").delete()
    paying_api.create(*orders(1))

    def add_a_check(asked):
        if asked["check"] == "IDENTITY":
            call_command("setup_checks", stdout=io.StringIO())
            paying_api.create(person() | {"checksRequested": ["CRB_SCORE"]})
            connection.close()
        return CLEAR

    source.play = add_a_check
    paying_api.work()

    assert [asked["check"] for asked in source.asked] == ["IDENTITY", "CRB_SCORE"]
    assert CheckResult.objects.filter(status="COMPLETED").count() == 2


def test_checks_of_a_suspended_workspace_wait(paying_api, source):
    ordered = paying_api.create(person() | {"checksRequested": ["IDENTITY"]})
    paying_api.workspace.suspend("Unpaid invoices")

    for _ in range(2):
        paying_api.work()
        let_time_pass()

    assert source.asked == []
    assert (only_result().status, only_result().tries) == ("RUNNING", 0)
    assert ledger_totals() == {"CHARGE": -50}

    paying_api.workspace.resume()
    paying_api.work()
    assert paying_api.report(ordered["id"])["status"] == "READY"
    assert ledger_totals() == {"CHARGE": -50}


def test_suspended_workspace_does_not_delay_others(api, another_api):
    api.create(*orders(30))
    other = another_api.create(person())
    api.workspace.suspend("Unpaid invoices")

    api.work()

    assert another_api.report(other["id"])["status"] == "READY"


def test_engine_calls_no_source_for_a_cancelled_report(paying_api, source):
    ordered = paying_api.create(person() | {"checksRequested": ["IDENTITY"]})
    claim(1)  # by a worker that dies
    paying_api.post(f"/reports/{ordered['id']}/cancel")
    let_time_pass()

    paying_api.work()

    assert source.asked == []
    assert only_result().status == "CANCELLED"
    assert ledger_totals() == {"CHARGE": -50, "REVERSAL": 50}
    assert not Event.objects.filter(name__startswith="check.").exists()


def test_engine_calls_no_source_without_consent(paying_api, source):
    ordered = paying_api.create(*orders(4))
    missing = ["PENDING", "DECLINED", "EXPIRED", "WITHDRAWN"]
    for consent, status in zip(Consent.objects.all(), missing, strict=True):
        Consent.objects.filter(pk=consent.pk).update(status=status)

    work_until_done(paying_api)

    assert source.asked == []
    for made in ordered:
        report = paying_api.report(made["id"])
        assert report["status"] == "FAILED"
        assert [r["status"] for r in report["checkResults"]] == ["CANCELLED"]
    assert ledger_totals() == {"CHARGE": -200, "REVERSAL": 200}


@pytest.mark.django_db(transaction=True)
def test_call_under_way_stays_billed_after_the_cancel(paying_api, source):
    ordered = paying_api.create(person())
    later = CheckResult.objects.filter(name="CRB_SCORE")
    later.update(next_attempt_at=now() + timedelta(hours=1))
    cancelled = []

    def cancel_meanwhile(asked):
        if asked["check"] == "IDENTITY":
            path = f"/reports/{ordered['id']}/cancel"
            cancelled.append(paying_api.post(path).status_code)
            connection.close()
        return CLEAR

    source.play = cancel_meanwhile
    paying_api.work()

    report = paying_api.report(ordered["id"])
    assert cancelled == [200]
    assert report["status"] == "CANCELLED"
    assert [result["status"] for result in report["checkResults"]] == [
        "COMPLETED",
        "COMPLETED",
        "CANCELLED",
    ]
    assert ledger_totals() == {"CHARGE": -250, "REVERSAL": 150}
    assert Event.objects.filter(name="check.completed").count() == 2
    assert not Event.objects.filter(name__in=["report.ready", "report.failed"]).exists()


def test_reused_finding_costs_nothing_and_calls_no_source(paying_api, source):
    first = paying_api.create(person() | {"checksRequested": ["IDENTITY"]})
    paying_api.work()

    again = paying_api.create(person() | {"checksRequested": ["IDENTITY"]})
    paying_api.work()

    (found,) = paying_api.report(first["id"])["checkResults"]
    (reused,) = paying_api.report(again["id"])["checkResults"]
    assert len(source.asked) == 1
    assert ledger_totals() == {"CHARGE": -50}
    assert reused["reused"]
    assert reused["evidence"]["reusedFromResultId"] == found["id"]
    for member in ("score", "riskLevel", "summary", "flags", "details"):
        assert reused[member] == found[member]


def test_engine_calls_the_source_for_free_if_the_finding_is_unreadable(
    paying_api, source
):
    first = paying_api.create(person() | {"checksRequested": ["IDENTITY"]})
    paying_api.work()
    again = paying_api.create(person() | {"checksRequested": ["IDENTITY"]})
    CheckResult.objects.filter(report=first["id"]).update(finding=b"not ours")

    paying_api.work()

    assert paying_api.report(again["id"])["status"] == "READY"
    assert len(source.asked) == 2
    assert ledger_totals() == {"CHARGE": -50}
