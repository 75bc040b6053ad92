"""Daily figures: they add up to the ledger and the exports, and follow late changes."""

from __future__ import annotations

import csv
from collections import Counter
from datetime import date, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import Q, Sum
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now

from tests.world.clients import Api, erase, person
from tests.world.corrections import (
    REASON,
    RIGHT,
    create_wrong_report,
    dispute,
    reviewer,
)
from tests.world.decisions import (
    ADVERSE,
    APPROVE,
    DECLINE,
    create_ready_report,
    decide,
    deciding_api,
)
from tests.world.orders import REFUSED, create_report_with_status
from tests.world.rules import raise_alert
from tests.world.threads import run_at_once
from verification.figures import daily
from verification.figures.daily import count_changed_days, count_day
from verification.figures.models import COUNTS, SUMS, DailyFigure, DueDay, Progress
from verification.figures.summary import Days, read_figures
from verification.jobs.models import Job
from verification.privacy.corrections import correct, rerun, take
from verification.reports.models import Report
from verification.values.local_time import NAIROBI
from workspaces.models import LedgerEntry

OF_REPORTS = Q(check_name=None)
OF_CHECKS = Q(check_name__isnull=False, all_packages=False)


def today() -> date:
    return now().astimezone(NAIROBI).date()


def total(name: str, **where: Any) -> int:
    """Return a figure of whole reports, of all days."""
    found = DailyFigure.objects.filter(OF_REPORTS, **{"all_packages": False} | where)
    return found.aggregate(total=Sum(name))["total"] or 0


def export(api: Api, kind: str) -> list[dict[str, str]]:
    days = {"from": f"{now():%Y-%m-%d}", "to": f"{now():%Y-%m-%d}"}
    answer = api.get(f"/exports/{kind}", **days)
    text = b"".join(answer.streaming_content).decode()
    return list(csv.DictReader(text.splitlines()))


def move_to_day(report_id: str, day: date) -> None:
    """Let the report be one that was created on another day."""
    at = now() - (today() - day)
    Report.objects.filter(pk=report_id).update(created_at=at)


@pytest.fixture
def busy(api: Api) -> Api:
    """Return a client with reports of several states, decisions, and a correction."""
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
    return deciding


def test_counts_of_reports_agree_with_the_export(busy):
    count_changed_days()

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
    count_changed_days()

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
    count_changed_days()

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
    count_changed_days()

    decided = Counter(row["status"] for row in export(busy, "decisions"))
    assert total("approved") == decided["APPROVED"] == 1
    assert total("declined") == decided["DECLINED"] == 1
    assert total("alerts") == len(export(busy, "alerts")) == 1
    assert total("corrections") == 1
    assert total("corrected") == 0


def test_packages_are_counted_apart(api):
    api.create(person())
    made = api.create(person(idNumber="22345678"))
    Report.objects.filter(pk=made["id"]).update(package="loan")
    api.work()
    count_changed_days()

    assert total("created", package="loan") == 1
    assert total("created", package=None) == 1
    assert total("charged", package="loan") == total("charged") / 2
    assert {name: total(name, all_packages=True) for name in COUNTS} == {
        name: total(name) for name in COUNTS
    }
    assert total("charged", all_packages=True) == total("charged")
    durations = DailyFigure.objects.filter(OF_REPORTS, all_packages=True).get()
    assert sum(durations.turnaround_counts) == 2


def test_turnaround_counts_each_completed_check_and_report(api):
    api.create(person())
    api.work()
    count_changed_days()

    rows = DailyFigure.objects.filter(all_packages=True)
    counts = rows.values_list("check_name", "turnaround_counts")
    assert {name: sum(found) for name, found in counts} == {
        None: 1,
        "IDENTITY": 1,
        "KRA_PIN": 1,
        "CRB_SCORE": 1,
    }


def test_job_that_runs_twice_changes_nothing(busy):
    count_changed_days()
    fields = [f.name for f in DailyFigure._meta.fields if f.name != "id"]
    before = sorted(map(str, DailyFigure.objects.values(*fields)))
    count_changed_days()

    assert before == sorted(map(str, DailyFigure.objects.values(*fields)))
    assert not DueDay.objects.exists()


def test_decision_of_today_changes_the_day_of_its_report(api):
    deciding, day = deciding_api(api), today() - timedelta(days=40)
    made = api.create(person())
    api.work()
    move_to_day(made["id"], day)
    count_changed_days()
    assert total("declined", day=day) == 0
    decide(deciding, made["id"], DECLINE)
    count_changed_days()

    assert total("declined", day=day) == 1
    assert total("created", day=today()) == 0


def test_corrected_finding_changes_both_days(api):
    day, report_id = today() - timedelta(days=40), create_wrong_report(api)
    move_to_day(report_id, day)
    correction = dispute(report_id)
    count_changed_days()
    assert total("corrections", day=today()) == 1
    wrong = Report.objects.get().risk_level.lower()
    assert total(wrong, day=day) == 1
    take(correction.pk, reviewer())
    rerun(correction.pk, reviewer(), {"idNumber": RIGHT})
    api.work()
    correct(correction.pk, reviewer(), REASON)
    count_changed_days()

    assert total("corrected", day=today()) == 1
    assert (total(wrong, day=day), total("low", day=day)) == (0, 1)


def test_newer_decision_takes_the_place_of_an_older_one(api):
    deciding, report_id = deciding_api(api), create_ready_report(api)
    first = decide(deciding, report_id, APPROVE)
    decide(deciding, report_id, DECLINE, replaces=first["id"])
    count_changed_days()

    assert (total("approved"), total("declined")) == (0, 1)


def test_only_days_that_changed_are_counted_again(api):
    made = api.create(person())
    api.work()
    move_to_day(made["id"], today() - timedelta(days=40))
    count_changed_days()
    before = set(DailyFigure.objects.values_list("pk", flat=True))
    Progress.objects.update(read_to=now() + timedelta(hours=1))
    count_changed_days()

    assert set(DailyFigure.objects.values_list("pk", flat=True)) == before


def test_first_run_counts_all_days_since_the_first_report(api):
    for days in (0, 3, 300):
        made = api.create(person(idNumber=f"2234567{days % 10}"))
        move_to_day(made["id"], today() - timedelta(days=days))
    count_changed_days()

    whole = DailyFigure.objects.filter(OF_REPORTS, created=1, all_packages=True)
    created = whole.order_by("-day")
    assert [(today() - row.day).days for row in created] == [0, 3, 300]


@pytest.mark.django_db(transaction=True)
def test_jobs_at_once_count_once(api):
    api.create(person())
    run_at_once(4, lambda _: count_changed_days())

    assert total("created") == 1
    assert total("created", all_packages=True) == 1


def test_run_that_is_stopped_is_continued(api, monkeypatch):
    for days in (0, 3, 300):
        made = api.create(person(idNumber=f"2234567{days % 10}"))
        move_to_day(made["id"], today() - timedelta(days=days))
    monkeypatch.setattr(daily, "RUN_SECONDS", 0)
    Job.objects.all().delete()

    count_changed_days()
    assert total("created") == 1
    path = "verification.figures.daily.count_changed_days"
    assert Job.objects.filter(function=path).count() == 1
    count_changed_days()
    count_changed_days()
    assert total("created") == 3


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


def test_another_client_is_counted_apart(api, another_api):
    api.create(person())
    another_api.create(person(), person(idNumber="22345678"))
    count_changed_days()

    assert total("created", workspace=api.workspace) == 1
    assert total("created", workspace=another_api.workspace) == 2


def test_a_report_at_midnight_belongs_to_the_day_of_nairobi(api):
    made = api.create(person())
    # Three hours before midnight in UTC
    at = now().replace(year=2026, month=3, day=31, hour=21, minute=0, second=0)
    Report.objects.filter(pk=made["id"]).update(created_at=at.replace(microsecond=0))
    count_changed_days()

    assert total("created", day=date(2026, 4, 1)) == 1


def test_a_day_costs_few_statements(busy, django_assert_max_num_queries):
    with django_assert_max_num_queries(13):
        count_day(busy.workspace.pk, busy.environment, today())


FILL = """
INSERT INTO figures_dailyfigure (workspace_id, environment, day, all_packages,
    check_name, {0}, turnaround_buckets, turnaround_counts, decision_buckets,
    decision_counts)
SELECT %(workspace)s, 'sandbox', %(today)s - day, true,
    CASE WHEN number > 0 THEN 'CHECK_' || number END, {1}, '{{1,2}}', '{{3,4}}', '{{}}',
    '{{}}'
FROM generate_series(0, 9999) AS day, generate_series(0, 10) AS number
"""


def test_sums_of_a_period_are_read_by_an_index(api):
    columns = [*COUNTS, *SUMS]
    with connection.cursor() as cursor:
        fill = FILL.format(", ".join(columns), ", ".join("1" for _ in columns))
        cursor.execute(fill, {"workspace": api.workspace.pk, "today": today()})
        cursor.execute("ANALYZE figures_dailyfigure")
        # What is left of them then has no index.
        cursor.execute("SET LOCAL enable_seqscan = off")
    account, days = api.account, Days(today() - timedelta(days=89), today())
    with CaptureQueriesContext(connection) as captured:
        found = read_figures(account, days)

    assert found.total.created == 90
    assert len(captured) == 4
    for statement in captured.captured_queries:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {statement['sql']}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
        assert "Seq Scan" not in plan, plan
