"""The first page after the login: which workspace; and links of invitations.

What a member sees first: where to begin, and how it goes.
"""

from __future__ import annotations

import json
from functools import partial

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from monitoring.models import alerts_of
from verification.backoffice import audit
from verification.console.base import Place, member_required
from verification.reports.queries import Filters, list_reports
from verification.reports.request import RuleContext, catalogue, find_faults
from verification.web.pages import private_page
from webhooks.models import Configuration, DeliveryStatus, list_deliveries
from workspaces import members
from workspaces.create import create_own_workspace
from workspaces.models import ApiKey, Member, Workspace


@private_page
@login_required
def home(request: HttpRequest) -> HttpResponse:
    found = Member.objects.filter(user=request.user.pk).select_related("workspace")
    mine = list(found.order_by("workspace__name", "id"))
    if len(mine) == 1 and "all" not in request.GET:
        return HttpResponseRedirect(_dashboard(mine[0]))
    return render(request, "console/home.html", {"members": mine})


@private_page
@login_required
@require_POST
def create_workspace(request: HttpRequest) -> HttpResponse:
    """A workspace of one's own, for who came by an invitation."""
    user = _user(request)
    found = Member.objects.filter(user=user, role="OWNER").first()
    if found is None:
        create_own_workspace(user)
        found = Member.objects.filter(user=user, role="OWNER").get()
    return HttpResponseRedirect(_dashboard(found))


@private_page
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """The page tells who invites; only its button accepts."""
    found = members.find_open_invitation(token)
    if found is None:
        return render(request, "console/invitation_over.html", status=410)
    is_theirs = request.user.is_authenticated and members.email_hash(
        _user(request).email
    ) == bytes(found.email_hash)
    if request.method == "POST" and is_theirs:
        try:
            with transaction.atomic():
                member = members.accept(_user(request), token)
                audit.record("invitation.accepted", audit.actor_of(request), found)
        except members.InvitationEnded:
            return render(request, "console/invitation_over.html", status=410)
        messages.success(request, _("You are a member now."))
        return HttpResponseRedirect(_dashboard(member))
    shown = {"invitation": found, "is_theirs": is_theirs, "next": request.path}
    return render(request, "console/invitation.html", shown)


def _dashboard(member: Member) -> str:
    # Where nothing costs anything, and nobody's data is real.
    return reverse("console:dashboard", args=[member.workspace_id, "sandbox"])


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101
    return request.user


@member_required()
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
        "order": partial(_example_order, place),
    }
    return place.render("dashboard", shown)


def _example_order(place: Place) -> str:
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
    known = RuleContext(
        catalogue(), draft=False, environment=place.environment, takes_payments=False
    )
    for name in known.definitions:
        item["checksRequested"] = [name]
        if not any(find_faults(item, known)):
            break
    else:
        return ""
    return json.dumps({"reports": [item]}, indent=2).replace("'", r"\u0027")
