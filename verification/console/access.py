"""Access to a workspace: its API keys, members and invitations."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from verification.console import forms
from verification.console.base import Place, member_required
from workspaces import keys, members
from workspaces.members import Permission
from workspaces.models import ApiKey, Member, Role

MANAGE_KEYS = Permission.MANAGE_KEYS


@member_required()
def list_keys(place: Place) -> HttpResponse:
    found = ApiKey.objects.filter(
        workspace=place.workspace, environment=place.environment
    )
    return place.render("keys/list", {"keys": found.order_by("-id")[:200]})


@member_required(MANAGE_KEYS)
def create_key(place: Place) -> HttpResponse:
    """In the sandbox alone: a production key comes with the approval."""
    if not place.is_sandbox:
        return place.render("not_allowed", status=403)
    form = forms.KeyForm(place.request.POST or None)
    if not form.is_valid():
        return place.render("keys/create", {"form": form})
    with transaction.atomic():
        key, text = keys.issue(
            place.workspace,
            environment=place.environment,
            name=form.cleaned_data["name"],
            scopes=form.cleaned_data["scopes"],
            expires_at=form.expires_at,
        )
        place.record("api-key.created", key)
    return _show_key(place, key, text)


@member_required(MANAGE_KEYS)
def rotate_key(place: Place, key: UUID) -> HttpResponse:
    found = _get_key(place, key)
    form = forms.RotationForm(place.request.POST or None)
    if not form.is_valid():
        return place.render("keys/rotate", {"form": form, "key": found})
    try:
        with transaction.atomic():
            successor, text = keys.rotate(found, old_ends_at=form.old_ends_at)
            place.record("api-key.rotated", found)
            place.record("api-key.created", successor)
    except keys.KeyHasEnded:
        told = _("This key has ended, or was replaced already.")
        messages.error(place.request, told)
        return place.to("keys")
    return _show_key(place, successor, text)


@member_required(MANAGE_KEYS)
def revoke_key(place: Place, key: UUID) -> HttpResponse:
    found = _get_key(place, key)
    if place.request.method != "POST":
        return place.render("keys/revoke", {"key": found})
    with transaction.atomic():
        if keys.revoke(found):
            place.record("api-key.revoked", found)
    messages.success(place.request, _("The key is revoked."))
    return place.to("keys")


def _get_key(place: Place, key: UUID) -> ApiKey:
    return ApiKey.objects.get(
        pk=key, workspace=place.workspace, environment=place.environment
    )


def _show_key(place: Place, key: ApiKey, text: str) -> HttpResponse:
    # Not after a redirect: nothing that remembers it is in between.
    shown = {"key": key, "text": text}
    return place.render("keys/shown", shown)


MANAGE_MEMBERS = Permission.MANAGE_MEMBERS
ROLES: list[tuple[str, Any]] = [
    (Role.OWNER, gettext_lazy("Owner")),
    (Role.ADMIN, gettext_lazy("Administrator")),
    (Role.VIEWER, gettext_lazy("Viewer")),
]


@member_required(write=MANAGE_MEMBERS)
def list_members(place: Place) -> HttpResponse:
    """The members; by POST, another is invited."""
    form = forms.InvitationForm(
        place.request.POST or None, roles=_assignable_roles(place)
    )
    if place.request.method == "POST" and form.is_valid() and _invite(place, form):
        return place.to("members")
    found = place.workspace.members.select_related("user").order_by("id")
    waiting = members.open_invitations().filter(workspace=place.workspace)
    shown = {
        "form": form,
        "members": found,
        "invitations": waiting.order_by("id"),
        "roles": _assignable_roles(place),
        "may_manage_owners": members.has_permission(
            place.member, Permission.MANAGE_OWNERS
        ),
    }
    return place.render("members/list", shown)


@require_POST
@member_required(MANAGE_MEMBERS)
def change_role(place: Place, member: UUID) -> HttpResponse:
    other = _get_member(place, member)
    role = place.request.POST.get("role", "")
    if role not in Role.values:
        return place.to("members")
    try:
        with transaction.atomic():
            members.change_role(place.member, other, Role(role))
            place.record("member.role-changed", other, "role")
        messages.success(place.request, _("The role is changed."))
    except members.LastOwner:
        _show_last_owner_error(place)
    return place.to("members")


@member_required(MANAGE_MEMBERS)
def remove_member(place: Place, member: UUID) -> HttpResponse:
    other = _get_member(place, member)
    if place.request.method != "POST":
        return place.render("members/remove", {"other": other})
    try:
        with transaction.atomic():
            place.record("member.removed", other)
            members.remove(place.member, other)
        messages.success(place.request, _("The member is removed."))
    except members.LastOwner:
        _show_last_owner_error(place)
    return place.to("members")


@require_POST
@member_required(MANAGE_MEMBERS)
def withdraw_invitation(place: Place, invitation: UUID) -> HttpResponse:
    waiting = members.open_invitations().filter(workspace=place.workspace)
    try:
        with transaction.atomic():
            found = waiting.get(pk=invitation)
            members.withdraw_invitation(place.member, found)
            place.record("invitation.withdrawn", found)
    except members.InvitationEnded:
        raise Http404 from None
    messages.success(place.request, _("The invitation works no more."))
    return place.to("members")


@member_required(while_suspended=True)
def leave(place: Place) -> HttpResponse:
    if place.request.method != "POST":
        return place.render("members/leave")
    try:
        with transaction.atomic():
            place.record("member.left", place.member)
            members.leave(place.member)
    except members.LastOwner:
        _show_last_owner_error(place)
        return place.to("members")
    return HttpResponseRedirect(reverse("console:home"))


def _assignable_roles(place: Place) -> list[tuple[str, Any]]:
    """Those that this member may give."""
    owners_too = members.has_permission(place.member, Permission.MANAGE_OWNERS)
    return [role for role in ROLES if owners_too or role[0] != Role.OWNER]


def _invite(place: Place, form: forms.InvitationForm) -> bool:
    typed = form.cleaned_data
    try:
        with transaction.atomic():
            email, role = typed["email"], Role(typed["role"])
            place.record("invitation.sent", members.invite(place.member, email, role))
    except members.AlreadyMember:
        form.add_error("email", _("Whoever has this address is a member already"))
        return False
    except members.TooManyInvitations:
        told = _("So many invitations were sent today. Go on tomorrow")
        form.add_error("email", told)
        return False
    messages.success(place.request, _("The invitation is sent. It works for a week."))
    return True


def _get_member(place: Place, member: UUID) -> Member:
    found: Member = place.workspace.members.select_related("user").get(pk=member)
    return found


def _show_last_owner_error(place: Place) -> None:
    messages.error(place.request, _("A workspace keeps at least one owner."))
