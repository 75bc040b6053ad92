"""The first page after the login, and the overview of a workspace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.timezone import localdate
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from verification.checks.packages import packages_of
from verification.console.base import Place, dashboard_url, member_required
from verification.console.charts import Chart, change_of
from verification.console.figures import (
    LEVELS,
    OUTCOMES,
    bars,
    deciding_chart,
    percent,
)
from verification.console.first_steps import (
    FIRST_ORDER,
    first_subjects,
    order_about,
    samples_of,
    steps_of,
)
from verification.console.needs import needs_of
from verification.decisions.case_list import standings_of
from verification.decisions.notices import reports_under_correction
from verification.figures.summary import Days, Figures, read_steps
from verification.reports.models import Report
from verification.web.pages import private_page
from workspaces.create import create_own_workspace
from workspaces.members import Permission, has_permission
from workspaces.models import Member, Role

# The number of reports on the home page
NEWEST = 6


@private_page
@login_required
def home(request: HttpRequest) -> HttpResponse:
    """List the user's workspaces, or open the only one."""
    found = Member.objects.filter(user=request.user.pk).select_related("workspace")
    mine = list(found.order_by("workspace__name", "id"))
    if len(mine) == 1 and "all" not in request.GET:
        return HttpResponseRedirect(dashboard_url(mine[0]))
    return render(request, "console/home.html", {"members": mine})


@private_page
@login_required
@require_POST
def create_workspace(request: HttpRequest) -> HttpResponse:
    """Create a workspace for a user who owns none, such as an invited member."""
    assert isinstance(request.user, User)  # noqa: S101
    owned = Member.objects.filter(user=request.user, role=Role.OWNER).order_by("id")
    if not owned.exists():
        create_own_workspace(request.user)
    return HttpResponseRedirect(dashboard_url(owned[0]))


@member_required()
def dashboard(place: Place) -> HttpResponse:
    """Show what needs the member, the last 30 days, and the newest reports.

    A workspace without a report gets its first steps in their place.
    """
    today = localdate()
    figures = read_steps(place.account, Days(today - timedelta(days=29), today))
    newest = Report.objects.filter(**place.lookups).order_by("-created_at", "-id")
    reports = list(newest[:NEWEST])
    place.disclose_risks(reports)
    shown = {
        "needs": needs_of(place, figures),
        "charts": [] if figures.is_empty else _charts(figures),
        "reports": reports,
        "packages": packages_of(reports),
        "standings": standings_of([row.pk for row in reports]),
        "disputed": reports_under_correction([row.pk for row in reports]),
        **_first_steps(place, has_report=bool(reports)),
    }
    return place.render("dashboard", shown)


def _first_steps(place: Place, *, has_report: bool) -> dict[str, Any]:
    """Return the steps of a member who sees keys, until all are done."""
    sees_keys = has_permission(place.member, Permission.SEE_ADMINISTRATION)
    # Before the approval, production has no steps to begin with.
    if not (sees_keys and place.may_run_reports) or place.workspace.is_suspended:
        return {}
    steps = steps_of(place, has_report=has_report)
    if steps.is_over:
        return {}
    shown: dict[str, Any] = {"steps": steps, "subjects": first_subjects()}
    if place.is_sandbox:
        return shown | {"samples": samples_of(place, FIRST_ORDER)}
    if order := order_about(place):
        shown["prices"] = samples_of(place, order, "reports/quote")
        shown["samples"] = samples_of(place, order)
    return shown


def _charts(figures: Figures) -> Iterator[Chart]:
    """Draw three charts without their tables, which Figures has."""
    total, before = figures.total, figures.before
    size: dict[str, Any] = {"height": 150, "dates": 3}
    yield replace(
        bars(figures, "ordered", _("Reports ordered"), OUTCOMES, **size),
        total=f"{total.ordered:,}",
        change=change_of(total.ordered, before.ordered, "{:,}".format),
        rows=(),
    )
    high = total.high_percent
    yield replace(
        bars(figures, "risk", _("High risk, of finished reports"), LEVELS, **size),
        total=percent(high),
        change=change_of(high, before.high_percent, percent, in_points=True),
        rows=(),
    )
    yield deciding_chart(figures)
