"""The first page after the login, the overview of a workspace, and its first steps."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pprint import pformat
from typing import Any, NamedTuple

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.timezone import localdate
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from verification.checks.packages import packages_of
from verification.console.base import (
    Place,
    Text,
    dashboard_url,
    log_in_first,
    member_required,
)
from verification.console.charts import Chart, change_of
from verification.console.figures import (
    LEVELS,
    OUTCOMES,
    bars,
    deciding_chart,
    percent,
)
from verification.console.needs import needs_of
from verification.decisions.case_list import standings_of
from verification.decisions.notices import reports_under_correction
from verification.figures.summary import Days, Figures, read_steps
from verification.notifications.recipients import count_today
from verification.providers.sandbox import list_reserved_numbers
from verification.reports.models import Report
from verification.reports.request import RuleContext, catalogue, find_faults
from verification.web.pages import private_page
from webhooks.models import Configuration
from workspaces.create import create_own_workspace
from workspaces.members import Permission, has_permission
from workspaces.models import CLOSED_REASON, ApiKey, Member, Role

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
    shown = {"members": mine, "may_create": not _owned_by(request.user).exists()}
    return render(request, "console/home.html", shown)


@private_page
@log_in_first
@require_POST
def create_workspace(request: HttpRequest) -> HttpResponse:
    """Create a workspace for a user who owns none, such as an invited member.

    A user creates one a day, as the invitations of each count towards its own limit.
    """
    assert isinstance(request.user, User)  # noqa: S101
    owned = _owned_by(request.user)
    with transaction.atomic():
        if not owned.exists() and count_today(f"workspaces:{request.user.pk}", 1):
            create_own_workspace(request.user)
    if member := owned.first():
        return HttpResponseRedirect(dashboard_url(member))
    messages.error(
        request, _("You can create one workspace a day. Create the next tomorrow.")
    )
    return HttpResponseRedirect(f"{reverse('console:home')}?all")


def _owned_by(user: Any) -> QuerySet[Member]:
    """Return the user's ownerships of workspaces that no owner has closed."""
    owned = Member.objects.filter(user=user.pk, role=Role.OWNER).order_by("id")
    return owned.exclude(workspace__suspension_reason=CLOSED_REASON)


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
    if steps["done"] == steps["all"]:
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


FIRST_ORDER = {
    "reports": [
        {
            "subject": {
                "subjectType": "INDIVIDUAL",
                "fullName": "Amina Wanjiru Otieno",
                "idNumber": "90000000",
            },
            "checksRequested": ["IDENTITY"],
            "purpose": "Tenancy application",
            "consent": {
                "mode": "CUSTOMER_ATTESTED",
                "obtained": True,
                "obtainedAt": "2026-01-15T09:00:00Z",
                "method": "CUSTOMER_WEB_FORM",
                "policyVersion": "1",
            },
        }
    ]
}
# The names of the sandbox's outcomes for the first test subjects
ENDINGS: dict[str, Text] = {
    "CLEAR": _("Clear"),
    "NOT_FOUND": _("Not found"),
    "NAME_MISMATCH": _("Another name"),
    "ADVERSE": _("Something adverse"),
    "DOWN": _("The source is down"),
}
KEY = "YOUR_KEY"
CURL = """curl -s {url} \\
  -H 'Authorization: Bearer {key}' \\
  -H 'Content-Type: application/json' -d '{body}'"""
PYTHON = """import requests

answer = requests.post(
    "{url}",
    headers={{"Authorization": "Bearer {key}"}},
    json={body},
    timeout=30,
)
print(answer.json())"""
TYPESCRIPT = """const answer = await fetch("{url}", {{
  method: "POST",
  headers: {{
    Authorization: "Bearer {key}",
    "Content-Type": "application/json",
  }},
  body: JSON.stringify({body}),
}});
console.log(await answer.json());"""


class Sample(NamedTuple):
    """A request in one language; `code` is its class in the style sheet."""

    code: str
    language: str
    text: str


def steps_of(place: Place, *, has_report: bool) -> dict[str, Any]:
    """Return the state of the first steps; production has others than the sandbox."""
    account, is_sandbox = place.account, place.is_sandbox
    key = ApiKey.objects.filter(**place.lookups).order_by("-id").first()
    has_webhook = Configuration.objects.filter(**place.lookups).exists()
    has_money = account.spendable is None or account.spendable > 0
    needs_money = account.billing == account.Billing.PREPAID
    done = [bool(key), has_report, has_webhook]
    if is_sandbox:
        done.append(place.workspace.is_live)
    elif needs_money:
        done.append(has_money)
    # Of production, where topping up is not for all
    report_number = 3 if needs_money else 2
    return {
        "key": key,
        "has_report": has_report,
        "has_webhook": has_webhook,
        "is_live": place.workspace.is_live,
        "has_money": has_money,
        "needs_money": needs_money,
        "is_sandbox": is_sandbox,
        "report_number": report_number,
        "webhook_number": 3 if is_sandbox else report_number + 1,
        "done": sum(done),
        "all": len(done),
    }


def samples_of(
    place: Place, body: Mapping[str, Any], address: str = "reports", key: str = KEY
) -> list[Sample]:
    """Return a POST of the body in each language."""
    url = f"{place.api_url}/api/v1/{address}"
    # The shell's text ends at an apostrophe.
    shell = json.dumps(body, indent=2).replace("'", r"\u0027")
    python = pformat(body, sort_dicts=False, width=78).replace("\n", "\n         ")
    script = json.dumps(body, indent=2).replace("\n", "\n  ")
    return [
        Sample("curl", "curl", CURL.format(url=url, key=key, body=shell)),
        Sample("python", "Python", PYTHON.format(url=url, key=key, body=python)),
        Sample("ts", "TypeScript", TYPESCRIPT.format(url=url, key=key, body=script)),
    ]


def first_subjects() -> list[tuple[str, Text]]:
    """Return the reserved numbers that people try first, and how a check ends."""
    numbers = {one["outcome"]: one["idNumber"] for one in list_reserved_numbers()}
    return [(numbers[outcome], ending) for outcome, ending in ENDINGS.items()]


def order_about(place: Place) -> dict[str, Any] | None:
    """Return a first production order about the member.

    It has the first check that needs no other inputs. Returns None if all need some.
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
            return {"reports": [item]}
    return None
