"""What a member sees first: where to begin, and how it goes."""

from __future__ import annotations

import json
from functools import partial

from django.http import HttpResponse

from monitoring.listing import alerts_of
from verification.console.places import Place, opened
from verification.ordering.intake import catalogue
from verification.ordering.rules import Circumstances, broken
from verification.reports.listing import Filters, list_reports
from webhooks.listing import list_deliveries
from webhooks.models import Configuration, DeliveryStatus
from workspaces.models import ApiKey, Workspace


@opened()
def dashboard(place: Place) -> HttpResponse:
    keys = ApiKey.objects.filter(
        workspace=place.workspace, environment=place.environment
    )
    reports = list_reports(*place.where, Filters(), page=0, size=5)
    configured = Configuration.objects.filter(
        workspace=place.workspace, environment=place.environment
    )
    failed = list_deliveries(*place.where, status=DeliveryStatus.FAILED, page=0, size=1)
    is_live = place.workspace.go_live == Workspace.GoLive.APPROVED
    has = {
        "has_key": keys.exists(),
        "has_report": reports.total > 0,
        "has_webhook": configured.exists(),
    }
    shown = {
        **has,
        # Before the approval there is nothing to begin with in production.
        "is_set_up": all(has.values()) or not (is_live or place.is_sandbox),
        "reports": reports,
        "unread": alerts_of(place.client).filter(read=False).count(),
        "failed": failed.total,
        "go_live": place.workspace.go_live,
        "is_live": is_live,
        "can_order": place.account.spendable is None or place.account.spendable > 0,
        # Asked for where it is shown alone: each check is tried.
        "order": partial(_order_on, place),
    }
    return place.show("dashboard", shown)


def _order_on(place: Place) -> str:
    """A first order in production: on the member, who is asked to consent by e-mail.

    It asks for the first check of the catalogue that can be ordered with these inputs
    here; empty if none can. JSON within single quotes of a shell.
    """
    user = place.member.user
    item = {
        "subject": {
            "subjectType": "INDIVIDUAL",
            "fullName": user.get_full_name() or "YOUR_NAME",
            "idNumber": "YOUR_ID_NUMBER",
            "email": user.email,
        },
        "checksRequested": [""],
        "purpose": "Trying our own account",
        "consent": {"mode": "SERVICE_HOSTED"},
    }
    known = Circumstances(
        catalogue(), draft=False, environment=place.environment, takes_payments=False
    )
    for name in known.definitions:
        item["checksRequested"] = [name]
        if not any(broken(item, known)):
            break
    else:
        return ""
    return json.dumps({"reports": [item]}, indent=2).replace("'", r"\u0027")
