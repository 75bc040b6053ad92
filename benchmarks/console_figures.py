"""The console's figures over very many reports, and the job that counts their days."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from django.urls import reverse

from benchmarks.admin import session_cookie, time_page
from benchmarks.client import Connection
from benchmarks.console_pages import any_member
from benchmarks.figures import Figure, bench, timed
from benchmarks.lists import use_filled
from benchmarks.service import Service
from verification.figures.daily import count_day, mark_changed_days
from verification.figures.models import DueDay
from workspaces.models import Workspace

MILLISECONDS = 200
PERIODS = ("month", "last-month", "90", "365")


@bench(is_filled=True, reports=2_000, rounds=1, most_days=20)
def console_figures(
    service: Service, reports: int = 1_000_000, rounds: int = 15, most_days: int = 1000
) -> Iterator[Figure]:
    use_filled(service, reports)
    with service.connect() as db:
        (workspace_id, _) = db.execute("SELECT * FROM filled").fetchone()  # type: ignore[misc]
        db.execute("TRUNCATE figures_dailyfigure, figures_dueday, figures_progress")
    workspace = Workspace.objects.get(pk=workspace_id)
    yield Figure("marking all days at first", [timed(mark_changed_days)])
    days = list(DueDay.objects.filter(workspace=workspace_id).order_by("day"))
    found = [
        timed(partial(count_day, workspace_id, due.environment, due.day))
        for due in days[:most_days]
    ]
    yield Figure(f"counting one of {len(days)} days of {reports:,} reports", found)
    yield Figure("counting all of them", [sum(found) / 1000], unit="s")
    again = [timed(mark_changed_days) for _ in range(rounds)]
    yield Figure("looking for days that changed, of none", again)
    with service.connect() as db:
        db.execute("VACUUM ANALYZE figures_dailyfigure")
    path = reverse("console:figures", args=[workspace_id, "sandbox"])
    cookie = session_cookie(any_member(workspace).user)
    with service.web():
        http = Connection(service.port)
        for period in PERIODS:
            asked = f"{path}?period={period}"
            samples = [time_page(http, asked, cookie) for _ in range(rounds + 1)]
            yield Figure(f"the page: {period}", samples[1:], target=MILLISECONDS)
