"""Access to a workspace: its API keys, members and invitations."""

from datetime import date, datetime, time, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from allauth.account.internal.flows.login import perform_password_login
from allauth.account.models import Login
from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Least
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.timezone import localdate
from django.utils.translation import gettext_lazy as _

from verification.accounts.forms import JoinForm
from verification.accounts.provider_grants import has_no_password
from verification.accounts.views import account_page
from verification.backoffice import audit
from verification.console.base import (
    Place,
    Refusals,
    dashboard_url,
    member_required,
    post_required,
)
from verification.console.fields import (
    ChoicesForm,
    Option,
    date_field,
    email_field,
    text_field,
)
from verification.console.home import FIRST_ORDER, samples_of
from verification.console.sandbox_pages import with_messages
from verification.console.words import WORDS, choices_of
from verification.values.clock import now
from verification.values.local_time import NAIROBI
from verification.values.networks import WrongNetwork, read_networks
from verification.web.pages import REQUIRED_ERROR
from workspaces import keys, members
from workspaces.logins import has_account
from workspaces.members import Permission
from workspaces.models import (
    ApiKey,
    Invitation,
    Member,
    Role,
    default_scopes,
)


class NetworksField(forms.CharField):
    """Networks, one on each line or with commas between."""

    widget = forms.Textarea(attrs={"rows": 3})
    errors = {
        "unreadable": _(
            "%(text)s is not a network such as 192.0.2.0/24 or 2001:db8::7"
        ),
        "host-bits": _("Write %(meant)s for the network, or the address alone"),
        "everywhere": _("Leave this empty for a key that works from everywhere"),
        "too-many": _("A key has at most 20 networks"),
    }

    def __init__(self) -> None:
        super().__init__(
            label=_("Networks that it works from"),
            required=False,
            max_length=2000,
            help_text=_("Such as 192.0.2.0/24, one per line; empty means everywhere"),
        )

    def clean(self, value: Any) -> list[str]:
        typed = super().clean(value).replace(",", " ").split()
        try:
            return read_networks(typed)
        except WrongNetwork as e:
            shown = {"text": e.text, "meant": e.meant}
            raise forms.ValidationError(self.errors[e.code], params=shown) from None


class KeyForm(forms.Form):
    name = text_field(
        _("Name"),
        100,
        help_text=_("So that you know it again, such as the system that uses it"),
    )
    scopes = forms.MultipleChoiceField(
        label=_("What it may do"),
        choices=[(code, Option(word, code)) for code, word in WORDS["scope"].items()],
        initial=default_scopes,
        widget=forms.CheckboxSelectMultiple,
        error_messages=REQUIRED_ERROR,
    )
    expires = date_field(
        label=_("Last day"),
        help_text=_("Without one it works until you revoke it"),
    )
    networks = NetworksField()

    def clean_expires(self) -> date | None:
        day: date | None = self.cleaned_data["expires"]
        if day and day < localdate():
            raise forms.ValidationError(_("Choose today or a later day"))
        return day

    @property
    def expires_at(self) -> datetime | None:
        day = self.cleaned_data["expires"]
        return datetime.combine(day, time.max, NAIROBI) if day else None


class NetworksForm(forms.Form):
    networks = NetworksField()


class RotationForm(forms.Form):
    ends = forms.TypedChoiceField(
        label=_("How long the old key still works"),
        coerce=int,
        choices=[
            (0, _("It ends now")),
            (1, _("One hour")),
            (24, _("One day")),
            (168, _("One week")),
        ],
        initial=24,
        error_messages=REQUIRED_ERROR,
    )

    @property
    def old_ends_at(self) -> datetime:
        return now() + timedelta(hours=self.cleaned_data["ends"])


class InvitationForm(ChoicesForm):
    email = email_field(_("E-mail address"))
    role = forms.ChoiceField(
        label=_("Role"), initial=Role.VIEWER, error_messages=REQUIRED_ERROR
    )


REFUSALS: Refusals = {
    members.LastOwner: _("Make another member an owner first: a workspace keeps one."),
    members.InvitationEnded: _("The invitation was used or withdrawn, or has expired."),
    keys.KeyHasEnded: _("This key was revoked or replaced, or has expired."),
    keys.TooManyKeys: _("There are 50 keys that work. Revoke one first."),
}


@member_required(Permission.SEE_ADMINISTRATION)
def list_keys(place: Place) -> HttpResponse:
    # The keys that work come first, and are fewer than these.
    ended = ApiKey.objects.annotate(ends=Least("revoked_at", "expires_at"))
    by_end = F("ends").desc(nulls_first=True)
    found = ended.filter(**place.lookups).order_by(by_end, "-id")
    users = {None, *place.workspace.members.values_list("user", flat=True)}
    return place.render("keys/list", {"keys": found[:200], "users": users})


@member_required(Permission.MANAGE_KEYS)
def create_key(place: Place) -> HttpResponse:
    """Create a key. The approval of an application creates the first production key."""
    place.require_live()
    form = KeyForm(place.posted)
    if not form.is_valid():
        return place.render("keys/create", {"form": form})
    with place.refusing(REFUSALS, "keys"), transaction.atomic():
        key, text = keys.issue(
            place.workspace,
            environment=place.environment,
            name=form.cleaned_data["name"],
            scopes=form.cleaned_data["scopes"],
            expires_at=form.expires_at,
            networks=form.cleaned_data["networks"],
            made_by=place.member.user_id,
        )
        place.record("api-key.created", key)
    return _show_key(place, key, text)


@member_required(Permission.MANAGE_KEYS)
def rotate_key(place: Place, key: UUID) -> HttpResponse:
    found = ApiKey.objects.get(pk=key, **place.lookups)
    form = RotationForm(place.posted)
    if not form.is_valid():
        return place.render("keys/rotate", {"form": form, "key": found})
    with place.refusing(REFUSALS, "keys"), transaction.atomic():
        successor, text = keys.rotate(
            found, old_ends_at=form.old_ends_at, made_by=place.member.user_id
        )
        place.record("api-key.rotated", found)
        place.record("api-key.created", successor)
    return _show_key(place, successor, text)


@member_required(Permission.MANAGE_KEYS)
def set_networks(place: Place, key: UUID) -> HttpResponse:
    """Show the networks that a key works from; a POST changes them."""
    found = ApiKey.objects.get(pk=key, **place.lookups)
    initial = {"networks": "\n".join(found.networks)}
    form = NetworksForm(place.posted, initial=initial)
    if not form.is_valid():
        return place.render("keys/networks", {"form": form, "key": found})
    with transaction.atomic():
        if keys.set_networks(found, form.cleaned_data["networks"]):
            place.record("api-key.changed", found, "networks")
    return place.to("keys", success=_("The networks of the key are changed."))


@member_required(Permission.MANAGE_KEYS)
def revoke_key(place: Place, key: UUID) -> HttpResponse:
    found = ApiKey.objects.get(pk=key, **place.lookups)
    if place.request.method != "POST":
        working = keys.working_keys(place.workspace)
        others = working.filter(environment=place.environment).exclude(pk=found.pk)
        shown = {"key": found, "is_last": not others.exists()}
        return place.render("keys/revoke", shown)
    with transaction.atomic():
        if keys.revoke(found):
            place.record("api-key.revoked", found)
    return place.to("keys", success=_("The key is revoked."))


def _show_key(place: Place, key: ApiKey, text: str) -> HttpResponse:
    """Show the text of a new key, once.

    It answers the POST: for a redirect, something would have to store the text.
    """
    shown: dict[str, Any] = {"key": key, "text": text}
    if place.is_sandbox:
        shown["samples"] = samples_of(place, FIRST_ORDER, key=text)
    return place.render("keys/shown", shown)


@member_required(Permission.SEE_ADMINISTRATION, Permission.MANAGE_MEMBERS)
def list_members(place: Place) -> HttpResponse:
    """List the members; a POST invites another one."""
    roles = _assignable_roles(place)
    form = InvitationForm(place.posted, choices={"role": roles})
    if form.is_valid() and _invite(place, form):
        return place.to(
            "members", success=_("The invitation is being sent. It works for a week.")
        )
    waiting = members.open_invitations().filter(workspace=place.workspace)
    shown = {
        "form": form,
        "members": place.workspace.members.select_related("user").order_by("id"),
        "invitations": with_messages(waiting.order_by("id"), members.cause_of),
        "roles": roles,
        "may_manage_owners": Permission.MANAGE_OWNERS in place.offered,
        "may_leave": not members.is_last_owner(place.member),
    }
    return place.render("members/list", shown)


@post_required(Permission.MANAGE_MEMBERS)
def change_role(place: Place, member: UUID) -> HttpResponse:
    other = _get_member(place, member)
    role = place.request.POST.get("role", "")
    if role not in Role.values or role == other.role:
        return place.to("members")
    with place.refusing(REFUSALS, "members"), transaction.atomic():
        members.change_role(place.member, other, Role(role))
        place.record("member.role-changed", other, "role")
    return place.to("members", success=_("The role is changed."))


@member_required(Permission.MANAGE_MEMBERS)
def remove_member(place: Place, member: UUID) -> HttpResponse:
    other = _get_member(place, member)
    if place.request.method != "POST":
        known = Q(made_by_user=other.user_id)
        if other.role == Role.OWNER:
            # An owner gets the first production key, which staff issue.
            known |= Q(made_by_user=None)
        working = keys.working_keys(place.workspace).filter(known).order_by("id")
        return place.render("members/remove", {"other": other, "keys": working})
    with place.refusing(REFUSALS, "members"), transaction.atomic():
        place.record("member.removed", other)
        members.remove(place.member, other)
    return place.to("members", success=_("The member is removed."))


@post_required(Permission.MANAGE_MEMBERS)
def withdraw_invitation(place: Place, invitation: UUID) -> HttpResponse:
    found = place.workspace.invitations.get(pk=invitation)
    with place.refusing(REFUSALS, "members"), transaction.atomic():
        members.withdraw_invitation(place.member, found)
        place.record("invitation.withdrawn", found)
    return place.to("members", success=_("The invitation is withdrawn."))


@member_required(while_suspended=True)
def leave(place: Place) -> HttpResponse:
    if place.request.method != "POST":
        return place.render("members/leave")
    with place.refusing(REFUSALS, "members"), transaction.atomic():
        place.record("member.left", place.member)
        members.leave(place.member)
    return HttpResponseRedirect(reverse("console:home"))


@partial(account_page, limit=10)
def show_invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Show who invites; a POST by the invited person accepts.

    A person without an account opens it here: the link proves the address.
    """
    found = members.lock_open_invitation(token)
    if found is None:
        return render(request, "console/invitation_over.html", status=410)
    user = request.user
    is_theirs = isinstance(user, User) and members.email_hash(user.email) == bytes(
        found.email_hash
    )
    if request.method == "POST" and isinstance(user, User) and is_theirs:
        return HttpResponseRedirect(_accept(request, user, found, token))
    form, email = None, found.email
    # Only an ended invitation has no address.
    assert email is not None  # noqa: S101
    is_new = not user.is_authenticated and not has_account(email)
    if is_new and not has_no_password(email):
        form = JoinForm(request.POST or None, email=email)
        if request.method == "POST" and form.is_valid():
            joining = form.save(request)
            page = _accept(request, joining, found, token)
            login = Login(user=joining, redirect_url=page)
            return perform_password_login(request, {"email": form.email}, login)
    shown = {
        "invitation": found,
        "is_theirs": is_theirs,
        "form": form,
        "next": request.path,
    }
    return render(request, "console/invitation.html", shown)


def _accept(request: HttpRequest, user: User, found: Invitation, token: str) -> str:
    """Make the user a member, and return the address of the first page."""
    member = members.accept(user, token)
    audit.record("invitation.accepted", audit.actor_of(request, user), found)
    messages.success(request, _("You are a member now."))
    return dashboard_url(member)


def _assignable_roles(place: Place) -> list[tuple[str, Any]]:
    """Return the roles that the member may give."""
    owners_too = members.has_permission(place.member, Permission.MANAGE_OWNERS)
    return [role for role in choices_of("role") if owners_too or role[0] != Role.OWNER]


def _invite(place: Place, form: InvitationForm) -> bool:
    email, role = form.cleaned_data["email"], Role(form.cleaned_data["role"])
    try:
        with transaction.atomic():
            place.record("invitation.sent", members.invite(place.member, email, role))
    except members.AlreadyMember:
        form.add_error("email", _("This person is already a member"))
    except members.TooManyInvitations:
        form.add_error(
            "email", _("Too many invitations were sent today. Go on tomorrow")
        )
    except members.TooManyOpenInvitations:
        error = _("Before you are live, 10 invitations may wait. Withdraw one first")
        form.add_error("email", error)
    return form.is_valid()


def _get_member(place: Place, member: UUID) -> Member:
    found: Member = place.workspace.members.select_related("user").get(pk=member)
    return found
