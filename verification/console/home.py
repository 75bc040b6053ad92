"""The first page after the login, and the overview of a workspace."""

from __future__ import annotations

import json
from functools import partial

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.http import require_POST

from monitoring.models import alerts_of
from verification.console.base import Place, dashboard_url, member_required
from verification.console.decline_notices import count_to_hand_over
from verification.decisions import policies
from verification.decisions.case_list import MAX_COUNT, count_cases
from verification.reports.queries import Filters, list_reports
from verification.reports.request import RuleContext, catalogue, find_faults
from verification.web.pages import private_page
from webhooks.models import Configuration, DeliveryStatus, list_deliveries
from workspaces.create import create_own_workspace
from workspaces.models import ApiKey, Member, Role


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
    reports = list_reports(*place.where, Filters(), page=0, size=5)
    failed = list_deliveries(*place.where, status=DeliveryStatus.FAILED, page=0, size=1)
    is_live = place.workspace.is_live
    has = {
        "has_key": ApiKey.objects.filter(**place.lookups).exists(),
        "has_report": reports.total > 0,
        "has_webhook": Configuration.objects.filter(**place.lookups).exists(),
    }
    shown = {
        **has,
        # Before the approval, production has no steps to begin with.
        "is_set_up": all(has.values()) or not (is_live or place.is_sandbox),
        "reports": reports,
        "unread": alerts_of(place.client).filter(read=False).count(),
        "failed": failed.total,
        "is_policy_broken": policies.is_broken(place.client),
        "cases": count_cases(place.member, place.environment),
        "to_hand_over": count_to_hand_over(place),
        "most": MAX_COUNT,
        "go_live": place.workspace.go_live,
        "is_live": is_live,
        "can_order": place.account.spendable is None or place.account.spendable > 0,
        # Called by the template where it shows the order, as it tries each check.
        "order": partial(_example_order, place),
    }
    return place.render("dashboard", shown)


def _example_order(place: Place) -> str:
    """Return a first production order about the member, as JSON for a shell.

    It has the first check that can be ordered with these inputs; empty if none can.
    The JSON fits between single quotes.
    """
    user = place.member.user
    subject = {
        "subjectType": "INDIVIDUAL",
        "fullName": user.get_full_name() or "YOUR_NAME",
        "idNumber": "12345678",
        "email": user.email,
    }
    item = {
        "subject": subject,
        "checksRequested": [""],
        "purpose": "Trying our own account",
        "consent": {"mode": "SERVICE_HOSTED"},
    }
    rules = RuleContext(catalogue(), place.environment)
    for name in rules.definitions:
        item["checksRequested"] = [name]
        if not any(find_faults(item, rules)):
            subject["idNumber"] = "YOUR_ID_NUMBER"
            return json.dumps({"reports": [item]}, indent=2).replace("'", r"\u0027")
    return ""
