"""The page of figures: tiles, charts, tables, and the roles that see them."""

from __future__ import annotations

import csv
import re
from datetime import date, timedelta
from typing import Any
from xml.etree import ElementTree

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now

from tests.world.clients import person
from tests.world.decisions import ADVERSE, APPROVE, DECLINE, decide, deciding_api
from tests.world.packages import create_package
from tests.world.rules import raise_alert
from verification.figures.daily import count_changed_days
from verification.figures.durations import BUCKET, ERROR_PERCENT, percentile
from verification.figures.models import DailyFigure
from verification.values.local_time import NAIROBI
from workspaces.models import Workspace


def today() -> date:
    return now().astimezone(NAIROBI).date()


@pytest.fixture
def counted(api):
    """Let three reports of this month be counted, two of them with a decision."""
    deciding = deciding_api(api)
    made = api.create(person(idNumber=ADVERSE), person(idNumber="22345678"), person())
    api.work()
    decide(deciding, made[0]["id"], DECLINE)
    decide(deciding, made[1]["id"], APPROVE)
    raise_alert(api, report_id=made[0]["id"])
    count_changed_days()
    return made


def tiles(page: str) -> dict[str, str]:
    """Return the value of each tile, with its unit."""
    found = re.findall(r'<dt>(.*?)</dt><dd class="stat-value">(.*?)</dd>', page)
    return {label: re.sub("<.*?>", "", value) for label, value in found}


def change(page: str, label: str) -> str:
    """Return what a tile says of the period before."""
    note = re.search(rf'<dt>{label}</dt>.*?"stat-note">(.*?)</dd>', page, re.DOTALL)
    assert note, label
    return " ".join(re.sub("<.*?>", "", note[1]).split())


def table(page: str, name: str) -> list[list[str]]:
    """Return the table of a chart, its last row being the totals."""
    section = re.search(
        rf'<figure class="card" aria-labelledby="{name}">.*?</figure>', page, re.DOTALL
    )
    assert section, name
    rows = re.findall(r"<tr>(.*?)</tr>", section[0], re.DOTALL)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]


def store_day(workspace: Workspace, day: date, **figures: Any) -> None:
    environment = figures.pop("environment", "sandbox")
    place: dict[str, Any] = {"workspace": workspace, "environment": environment}
    DailyFigure.objects.create(**place, day=day, **figures)
    figures.pop("package", None)
    all_of_day = DailyFigure.objects.filter(
        **place, day=day, all_packages=True, check_name=None
    )
    more = {name: F(name) + n for name, n in figures.items() if isinstance(n, int)}
    if not all_of_day.update(**more):
        DailyFigure.objects.create(**place, day=day, all_packages=True, **figures)


def test_tiles_show_what_it_costs_and_brings(viewer, counted):
    page = viewer.page("figures")
    found = tiles(page)

    spend = -sum(
        entry.amount
        for entry in viewer.workspace.accounts.get(environment="sandbox").entries.all()
    )
    assert found["Reports ordered"] == "3"
    assert found["Ready"] == "100.0 %"
    assert found["Spend"] == f"KES {spend:,.2f}"
    assert change(page, "Spend") == f"{spend / 3:,.2f} a report"
    assert found["Declined"] == "50.0 %"
    assert found["Order to decision, median"] != "-"


def test_each_chart_has_a_title_a_description_and_a_table(owner, counted):
    page = owner.page("figures")

    drawings = re.findall(r'(<svg [^>]*role="img".*?</svg>)</div>', page, re.DOTALL)
    assert len(drawings) == 6
    for drawing in drawings:
        root = ElementTree.fromstring(drawing)  # noqa: S314
        title, words = root[0], root[1]
        assert root.get("role") == "img"
        assert root.get("aria-labelledby") == f"{title.get('id')} {words.get('id')}"
        assert title.text
        assert words.text
    assert page.count("Show as a table") == 6
    assert "style=" not in page
    assert table(page, "reports")[-1] == ["Total", "3", "0", "0", "0", "0"]
    assert table(page, "decisions")[-1] == ["Total", "1", "1", "0"]
    assert table(page, "alerts")[-1] == ["Total", "1", "0"]


def test_parts_of_the_ordered_reports_have_no_drafts(owner, api):
    store_day(api.workspace, today(), created=7, drafts=2, ready=3, failed=1)

    page = owner.page("figures")

    assert tiles(page)["Reports ordered"] == "5"
    assert table(page, "reports")[-1] == ["Total", "3", "0", "1", "0", "1"]


def test_page_says_until_when_it_counts(owner, api):
    assert "being counted" in owner.page("figures")
    count_changed_days()

    assert "Counted until" in owner.page("figures")


def test_workspace_without_reports_sees_a_kind_page(owner, viewer):
    count_changed_days()

    page = owner.page("figures")
    assert "There is nothing to count" in page
    assert owner.url("reports-new") in page
    assert 'role="img"' not in page
    assert owner.url("reports-new") not in viewer.page("figures")


def test_period_before_is_compared(owner, api):
    first = today() - timedelta(days=29)
    store_day(api.workspace, first, created=4, ready=4)
    store_day(api.workspace, first - timedelta(days=30), created=2, ready=1)
    store_day(api.workspace, first - timedelta(days=31), created=50)
    page = owner.page("figures")

    assert change(page, "Reports ordered") == "▲up 100 % from 2"
    assert change(page, "Ready") == "▲up 50.0 points from 50.0 %"
    assert change(page, "Declined") == ""
    assert page.count('class="better"') == 1


def test_long_periods_have_longer_steps(owner, api):
    store_day(api.workspace, today(), created=7)
    for period, steps in {"month": "Day", "90": "Week from", "365": "Month"}.items():
        rows = table(owner.page("figures", query={"period": period}), "reports")

        assert rows[0][0] == steps
        assert len(rows) <= 33
        assert sum(int(row[-1]) for row in rows[1:-1]) == 7


def test_period_from_a_day_to_a_day(owner, api):
    store_day(api.workspace, date(2026, 3, 1), created=1)
    store_day(api.workspace, date(2026, 3, 9), created=2)
    query = {"period": "days", "first": "2026-03-01", "last": "2026-03-08"}

    assert tiles(owner.page("figures", query=query))["Reports ordered"] == "1"
    # Until the member has chosen, the form offers the last 30 days.
    assert str(today()) in owner.page("figures", query={"period": "days"})


WRONG_QUERIES = [
    {"period": "days", "first": "", "last": "2026-03-01"},
    {"period": "days", "first": "2026-03-08", "last": "2026-03-01"},
    {"period": "days", "first": "2020-01-01", "last": "2026-03-01"},
    {"period": "days", "first": "0002-01-01", "last": "0003-01-01"},
    {"period": "days", "first": "2999-01-01", "last": "2999-01-02"},
    {"period": "century"},
    {"package": "package:nobody-has-it"},
]


def test_wrong_period_or_package_is_refused(owner):
    for wrong in WRONG_QUERIES:
        assert owner.get("figures-csv", query=wrong).status_code == 400, wrong

    assert "<title>Error:" in owner.page("figures", query=wrong)


def test_package_narrows_all_figures(owner, api):
    create_package("loan")
    store_day(api.workspace, today(), created=3)
    store_day(api.workspace, today(), package="loan", created=5)

    def page_of(package: str) -> str:
        page: str = owner.page("figures", query={"package": package})
        return page

    assert tiles(page_of("package:loan"))["Reports ordered"] == "5"
    assert tiles(page_of("none"))["Reports ordered"] == "3"
    page = page_of("")
    assert tiles(page)["Reports ordered"] == "8"
    assert '<th scope="row">Loan' in page


def test_another_workspace_and_environment_are_not_in_it(stranger, owner, api):
    store_day(api.workspace, today(), created=3)

    assert "There is nothing to count" in stranger.page("figures")
    assert "There is nothing to count" in owner.page("figures", "production")


def test_download_has_a_row_for_each_day_package_and_check(viewer, counted):
    answer = viewer.get("figures-csv", query={"period": "90"})

    assert answer["Content-Disposition"].startswith("attachment")
    text = answer.content.decode()
    assert text.startswith("\ufeffday,")
    rows = list(csv.DictReader(text[1:].splitlines()))
    whole = [row for row in rows if row["check"] == ""]
    assert sum(int(row["created"]) for row in whole) == 3
    assert {row["check"] for row in rows} == {"", "IDENTITY", "KRA_PIN", "CRB_SCORE"}
    assert all(row["turnaroundMedianMs"] for row in rows)


def test_download_holds_no_formula(owner, api):
    store_day(api.workspace, today(), package="=cmd", created=1)

    assert ",'=cmd," in owner.get("figures-csv").content.decode()


def test_page_reads_few_statements(owner, api):
    store_day(api.workspace, today(), created=1)
    with CaptureQueriesContext(connection) as one_day:
        owner.page("figures")
    for days in range(1, 200, 10):
        store_day(api.workspace, today() - timedelta(days=days), created=1)
    with CaptureQueriesContext(connection) as many_days:
        owner.page("figures", query={"period": "365"})

    assert len(many_days) == len(one_day) <= 20


def bucket_of(duration: timedelta) -> int:
    """Return the bucket in which a day's statements count the duration."""
    with connection.cursor() as cursor:
        milliseconds = duration / timedelta(milliseconds=1)
        cursor.execute(f"SELECT {BUCKET.format('%s')}", [milliseconds])
        (bucket,) = cursor.fetchone()
        return bucket


@pytest.mark.django_db
@pytest.mark.parametrize("milliseconds", [1, 7, 1000, 1024, 4321, 86_400_000])
def test_percentile_is_within_its_stated_error(milliseconds):
    counts = {bucket_of(timedelta(milliseconds=milliseconds)): 3}
    found = percentile(counts, 50)

    assert found is not None
    error = abs(found / timedelta(milliseconds=milliseconds) - 1) * 100
    assert error <= ERROR_PERCENT + 0.1


@pytest.mark.django_db
def test_percentiles_of_days_add_up():
    fast, slow = bucket_of(timedelta(seconds=1)), bucket_of(timedelta(minutes=1))
    counts = {fast: 94, slow: 6}

    assert percentile(counts, 50) == percentile({fast: 1}, 50)
    assert percentile(counts, 95) == percentile({slow: 1}, 50)
    assert percentile({}, 50) is None
