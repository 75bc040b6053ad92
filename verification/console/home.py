"""The first page after the login: which workspace; and links of invitations."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from verification.backoffice import trail
from verification.pages import private
from workspaces import members
from workspaces.accounts import open_for
from workspaces.models import Member


@private
@login_required
def home(request: HttpRequest) -> HttpResponse:
    found = Member.objects.filter(user=request.user.pk).select_related("workspace")
    mine = list(found.order_by("workspace__name", "id"))
    if len(mine) == 1 and "all" not in request.GET:
        return HttpResponseRedirect(_dashboard(mine[0]))
    return render(request, "console/home.html", {"members": mine})


@private
@login_required
@require_POST
def create(request: HttpRequest) -> HttpResponse:
    """A workspace of one's own, for who came by an invitation."""
    user = _user(request)
    found = Member.objects.filter(user=user, role="OWNER").first()
    if found is None:
        open_for(user)
        found = Member.objects.filter(user=user, role="OWNER").get()
    return HttpResponseRedirect(_dashboard(found))


@private
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """The page tells who invites; only its button accepts."""
    found = members.open_invitation(token)
    if found is None:
        return render(request, "console/invitation_over.html", status=410)
    is_theirs = request.user.is_authenticated and members.email_hash(
        _user(request).email
    ) == bytes(found.email_hash)
    if request.method == "POST" and is_theirs:
        try:
            with transaction.atomic():
                member = members.accept(_user(request), token)
                trail.record("invitation.accepted", trail.actor_of(request), found)
        except members.InvitationOver:
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
