"""Daily figures add up to the ledger and the exports."""

from __future__ import annotations

import csv
from collections import Counter

import pytest
from django.db.models import Q, Sum
from django.utils.timezone import now

from tests.figures.test_daily import today, total
from tests.world.clients import Api, create_lender, erase, person
from tests.world.corrections import create_wrong_report, dispute
from tests.world.decisions import ADVERSE, APPROVE, DECLINE, decide, deciding_api
from tests.world.orders import REFUSED, create_report_with_status
from tests.world.rules import raise_alert
from verification.figures.daily import count_changed_days, count_day
from verification.figures.models import COUNTS, DailyFigure, DueDay
from verification.reports.models import Report
from workspaces.models import LedgerEntry

pytestmark = pytest.mark.django_db
OF_CHECKS = Q(check_name__isnull=False, all_packages=False)


def export(api: Api, kind: str) -> list[dict[str, str]]:
    days = {"from": f"{now():%Y-%m-%d}", "to": f"{now():%Y-%m-%d}"}
    answer = api.get(f"/exports/{kind}", **days)
    text = b"".join(answer.streaming_content).decode()
    return list(csv.DictReader(text.splitlines()))


@pytest.fixture(scope="module")
def busy(module_transaction: None) -> Api:
    """Return a client with counted reports of several states, and decisions."""
    api = Api(create_lender(), "sandbox")
    deciding = deciding_api(api)
    report_id = create_wrong_report(api)
    dispute(report_id)
    adverse = api.create(person(idNumber=ADVERSE))["id"]
    good = api.create(person(idNumber="22345678"))["id"]
    api.create(person(idNumber=REFUSED))
    create_report_with_status(api, "DRAFT")
    discarded = create_report_with_status(api, "DRAFT")
    assert api.post(f"/reports/{discarded}/cancel").status_code == 200
    create_report_with_status(api, "PARTIAL ended")
    create_report_with_status(api, "CANCELLED")
    api.work()
    decide(deciding, adverse, DECLINE)
    decide(deciding, good, APPROVE)
    raise_alert(api, report_id=good)
    count_changed_days()
    return deciding


def test_counts_of_reports_agree_with_the_export(busy):
    rows = export(busy, "reports")
    states = Counter(row["status"] for row in rows)
    levels = Counter(row["riskLevel"] for row in rows)
    assert total("created") == len(rows)
    # One of the drafts was discarded, and is no order.
    assert total("drafts") == states["DRAFT"] + 1 > 1
    assert total("ready") == states["READY"] > 0
    assert total("partial") == states["PARTIAL"] > 0
    assert total("failed") == states["FAILED"] > 0
    assert total("cancelled") == states["CANCELLED"] - 1 > 0
    assert total("low") == levels["LOW"] > 0
    assert total("medium") == levels["MEDIUM"]
    assert total("high") == levels["HIGH"] > 0


def test_counts_of_checks_agree_with_the_export(busy):
    exported = Counter(
        (row["checkName"], row["status"])
        for row in export(busy, "results")
        if Report.objects.filter(pk=row["reportId"], launched_at=None).count() == 0
    )
    counted: Counter[tuple[str, str]] = Counter()
    for row in DailyFigure.objects.filter(OF_CHECKS):
        counted[row.check_name, "COMPLETED"] += row.ready
        counted[row.check_name, "FAILED"] += row.failed
        counted[row.check_name, "CANCELLED"] += row.cancelled
        counted[row.check_name, "PENDING"] += (
            row.created - row.ready - row.failed - row.cancelled
        )
    assert +counted == exported


def test_spend_agrees_with_the_ledger(busy):
    entries = LedgerEntry.objects.filter(account=busy.account)
    sums = dict(entries.values_list("kind").annotate(Sum("amount")))
    assert total("charged") == -sums["CHARGE"] * 100 > 0
    assert total("reversed") == sums["REVERSAL"] * 100 > 0
    of_checks = DailyFigure.objects.filter(OF_CHECKS)
    assert of_checks.aggregate(Sum("charged"), Sum("reversed")) == {
        "charged__sum": total("charged"),
        "reversed__sum": total("reversed"),
    }


def test_decisions_alerts_and_corrections_agree_with_the_exports(busy):
    decided = Counter(row["status"] for row in export(busy, "decisions"))
    assert total("approved") == decided["APPROVED"] == 1
    assert total("declined") == decided["DECLINED"] == 1
    assert total("alerts") == len(export(busy, "alerts")) == 1
    assert total("corrections") == 1
    assert total("corrected") == 0


def test_job_that_runs_twice_changes_nothing(busy):
    fields = [f.name for f in DailyFigure._meta.fields if f.name != "id"]
    before = sorted(map(str, DailyFigure.objects.values(*fields)))
    count_changed_days()

    assert before == sorted(map(str, DailyFigure.objects.values(*fields)))
    assert not DueDay.objects.exists()


def test_figures_stay_when_reports_are_erased(busy):
    report = Report.objects.get(risk_level="HIGH")
    raise_alert(busy, report_id=report.pk)
    count_changed_days()
    names = [*COUNTS, "charged", "reversed"]
    before = {name: total(name) for name in names}
    assert before["high"] == 1
    assert before["alerts"] == 2
    erase(busy, str(report.pk))
    report.refresh_from_db()
    assert report.risk_level == "UNKNOWN"
    count_day(busy.workspace.pk, busy.environment, today())

    assert {name: total(name) for name in names} == before


def test_a_day_costs_few_statements(busy, django_assert_max_num_queries):
    with django_assert_max_num_queries(13):
        count_day(busy.workspace.pk, busy.environment, today())
