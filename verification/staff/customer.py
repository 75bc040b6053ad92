"""The page of a customer in the admin.

The page has the sections whose rows the user may view. A section reads only the rows
that it shows.
"""

from typing import Any

from allauth.mfa.models import Authenticator
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest

from monitoring.models import Alert, Rule, RuleStatus
from verification.golive.models import Application
from verification.reports.models import Report
from verification.values.masking import DOTS, mask
from webhooks.models import Configuration
from workspaces.models import Account, ApiKey, Environment, Member, Note, Workspace

REPORTS = 10
MAX_ROWS = 20
# Higher counts are shown as "1000+".
MAX_COUNT = 1000


def customer_sections(request: HttpRequest, workspace: Any) -> dict[str, Any]:
    """Return the sections; `workspace.is_revealed` unmasks personal data."""
    makers = {
        "members": ("workspaces.view_member", _members),
        "accounts": ("workspaces.view_account", _accounts),
        "reports": ("reports.view_report", _reports),
        "receivers": ("webhooks.view_configuration", _receivers),
        "api_keys": ("workspaces.view_apikey", _keys),
        "applications": ("golive.view_application", _applications),
        "monitoring": ("monitoring.view_rule", _monitoring),
        "notes": ("workspaces.view_note", _notes),
    }
    return {
        "sections": {
            name: make(workspace)
            for name, (permission, make) in makers.items()
            if request.user.has_perm(permission)
        },
        "moves_money": request.user.has_perm("workspaces.change_account"),
        "revokes_keys": request.user.has_perm("workspaces.change_apikey"),
    }


def _members(workspace: Any) -> list[dict[str, Any]]:
    factors = Authenticator.objects.filter(user=OuterRef("user"))
    rows = Member.objects.filter(workspace=workspace).select_related("user")
    found = rows.annotate(has_factor=Exists(factors)).order_by("created_at", "id")
    return [
        {
            "row": member,
            "name": member.user.get_full_name() or "no name yet",
            "email": _reveal(workspace, member.user.email, "email"),
            "has_factor": member.has_factor,
        }
        for member in found[:MAX_ROWS]
    ]


def _accounts(workspace: Workspace) -> list[Account]:
    return list(Account.objects.filter(workspace=workspace).order_by("environment"))


def _reports(workspace: Workspace) -> list[Report]:
    """The newest of each environment, straight from the index `report_list`."""
    reports: list[Report] = []
    for environment in Environment.values:
        rows = Report.objects.filter(workspace=workspace, environment=environment)
        newest = rows.defer("subject").order_by("-created_at", "-id")
        reports += newest[:REPORTS]
    newest_first = sorted(reports, key=lambda r: (r.created_at, r.pk), reverse=True)
    return newest_first[:REPORTS]


def _receivers(workspace: Workspace) -> list[Configuration]:
    return list(Configuration.objects.filter(workspace=workspace)[:MAX_ROWS])


def _keys(workspace: Workspace) -> list[ApiKey]:
    rows = ApiKey.objects.filter(workspace=workspace)
    # PostgreSQL puts NULL first when descending, so revoked keys come last.
    return list(rows.order_by("-revoked_at", "-id")[:MAX_ROWS])


def _applications(workspace: Workspace) -> list[Application]:
    rows = Application.objects.filter(workspace=workspace).defer("details")
    return list(rows.order_by("-id")[:MAX_ROWS])


def _monitoring(workspace: Workspace) -> dict[str, str]:
    rules = Rule.objects.filter(workspace=workspace)
    alerts = Alert.objects.filter(workspace=workspace)
    return {
        "rules that run": _count(rules.filter(status=RuleStatus.ACTIVE)),
        "rules in all": _count(rules),
        "alerts that nobody has read": _count(alerts.filter(read=False)),
    }


def _notes(workspace: Any) -> list[dict[str, Any]]:
    rows = Note.objects.filter(workspace=workspace).order_by("-id")
    if not workspace.is_revealed:
        rows = rows.defer("text")
    return [
        {
            "row": note,
            "text": note.text or "erased" if workspace.is_revealed else DOTS,
        }
        for note in rows[:MAX_ROWS]
    ]


def _count(rows: QuerySet[Any]) -> str:
    count = rows.order_by()[: MAX_COUNT + 1].count()
    return f"{MAX_COUNT}+" if count > MAX_COUNT else str(count)


def _reveal(workspace: Any, value: str, key: str) -> Any:
    return value if workspace.is_revealed else mask(value, key)
