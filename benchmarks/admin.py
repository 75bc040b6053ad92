"""The admin's first page, lists and report page over very many reports."""

from __future__ import annotations

import time
from collections.abc import Iterator

from django.conf import settings
from django.contrib import admin as office
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from benchmarks import workspace_rows
from benchmarks.client import Connection
from benchmarks.figures import Figure, bench, timed
from benchmarks.lists import use_filled
from benchmarks.service import Service
from tests.world.staff import log_in
from verification.reports.models import Report
from verification.staff.dashboard import figures

MILLISECONDS = 200
REPORTS = "/admin/reports/report/"
FILTERED = {
    "reports: FAILED": f"{REPORTS}?status__exact=FAILED",
    "reports: DRAFT (none)": f"{REPORTS}?status__exact=DRAFT",
    "reports: production": f"{REPORTS}?environment__exact=production",
    "reports: stuck": f"{REPORTS}?stuck=hour",
    "reports: page 30": f"{REPORTS}?p=30",
    "results: waiting": "/admin/checks/checkresult/?trouble=waiting",
}


@bench(is_filled=True, reports=2_000, rounds=1)
def admin(
    service: Service, reports: int = 1_000_000, rounds: int = 15
) -> Iterator[Figure]:
    use_filled(service, reports)
    user, _ = User.objects.get_or_create(
        username="bench", is_staff=True, is_superuser=True
    )
    cookie = session_cookie(user)
    pages = {"the first page": "/admin/", **_lists(), **FILTERED, "a report": _page()}
    with service.web():
        http = Connection(service.port)
        for what, path in pages.items():
            samples = [time_page(http, path, cookie) for _ in range(rounds + 1)]
            yield Figure(what, samples[1:], target=MILLISECONDS)
    # The day of the newest report; the web server caches the figures for a minute.
    found = [timed(lambda: figures(workspace_rows.NEWEST)) for _ in range(rounds)]
    yield Figure("figures of the first page, uncached", found, target=MILLISECONDS)


def _lists() -> dict[str, str]:
    return {
        model._meta.label_lower: reverse(
            f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist"
        )
        for model in office.site._registry
    }


def _page() -> str:
    report = Report.objects.order_by("-id").values_list("pk", flat=True)[:1].get()
    return reverse("admin:reports_report_change", args=[report])


def session_cookie(user: User) -> str:
    client = Client()
    log_in(client, user)
    name = settings.SESSION_COOKIE_NAME
    return f"{name}={client.cookies[name].value}"


def time_page(http: Connection, path: str, cookie: str) -> float:
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n"
    started = time.perf_counter()
    status, body = http.send(head.encode())
    milliseconds = (time.perf_counter() - started) * 1000
    assert status == 200, (path, status, body[:300])
    return milliseconds
