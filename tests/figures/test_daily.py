"""Daily figures: what each counts, and that they follow late changes."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import Q, Sum
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now

from tests.world.clients import person
from tests.world.corrections import (
    REASON,
    RIGHT,
    create_wrong_report,
    dispute,
    reviewer,
)
from tests.world.decisions import (
    APPROVE,
    DECLINE,
    create_ready_report,
    decide,
    deciding_api,
)
from tests.world.threads import run_at_once
from verification.figures import daily
from verification.figures.daily import count_changed_days
from verification.figures.models import COUNTS, SUMS, DailyFigure, Progress
from verification.figures.summary import Days, read_figures
from verification.jobs.models import Job
from verification.privacy.corrections import correct, rerun, take
from verification.reports.models import Report
from verification.values.local_time import NAIROBI

OF_REPORTS = Q(check_name=None)


def today() -> date:
    return now().astimezone(NAIROBI).date()


def total(name: str, **where: Any) -> int:
    """Return a figure of whole reports, of all days."""
    found = DailyFigure.objects.filter(OF_REPORTS, **{"all_packages": False} | where)
    return found.aggregate(total=Sum(name))["total"] or 0


def move_to_day(report_id: str, day: date) -> None:
    """Let the report be one that was created on another day."""
    at = now() - (today() - day)
    Report.objects.filter(pk=report_id).update(created_at=at)


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


FILL = """
INSERT INTO figures_dailyfigure (workspace_id, environment, day, all_packages,
    check_name, {0}, turnaround_buckets, turnaround_counts, decision_buckets,
    decision_counts)
SELECT %(workspace)s, 'sandbox', %(today)s - day, true,
    CASE WHEN number > 0 THEN 'CHECK_' || number END, {1}, '{{1,2}}', '{{3,4}}', '{{}}',
    '{{}}'
FROM generate_series(0, 999) AS day, generate_series(0, 10) AS number
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
