"""The messages that a member gets: the choice, and the link that turns one kind off."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django import forms
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.csrf import csrf_exempt

from verification.backoffice import audit
from verification.backoffice.models import ActorKind
from verification.console.base import Place, member_required
from verification.web.pages import REQUIRED_ERROR, private_page
from workspaces import member_messages
from workspaces.member_messages import DIGEST, NEEDED
from workspaces.members import has_permission
from workspaces.models import Environment, Member, MemberMessage, MessageTime


class MessagesForm(forms.Form):
    """When a member gets each kind of messages."""

    def __init__(
        self, *args: Any, kinds: Iterable[tuple[str, Any, Any]], **options: Any
    ) -> None:
        super().__init__(*args, **options)
        for kind, label, hint in kinds:
            self.fields[kind] = forms.ChoiceField(
                label=label,
                help_text=hint,
                choices=[
                    (MessageTime.NOW, _("At once")),
                    (MessageTime.DAILY, _("Once a day, at 7 in the morning")),
                    (MessageTime.OFF, _("Never")),
                ],
                error_messages=REQUIRED_ERROR,
            )


# A reader who opens the link of a message has not logged in.
LINK = audit.Actor(ActorKind.SERVICE, "link of a message")
NAMES: dict[str, Any] = {
    MemberMessage.REPORT_READY: _("Reports that are ready"),
    MemberMessage.REPORT_FAILED: _("Reports that ended without all results"),
    MemberMessage.DECISION_WAITING: _("Decisions that wait for you"),
    MemberMessage.HAND_OVER: _("Notices to deliver"),
    MemberMessage.ALERT: _("Monitoring alerts"),
    MemberMessage.RULES_PAUSED: _("Monitoring rules that are paused"),
    MemberMessage.LOW_BALANCE: _("A low balance"),
    MemberMessage.WEBHOOK: _("Webhooks that fail or are disabled"),
    DIGEST: _("The daily digest"),
}
HINTS: dict[str, Any] = {
    MemberMessage.REPORT_READY: _("Without the runs of monitoring rules"),
    MemberMessage.REPORT_FAILED: _("Without the runs of monitoring rules"),
    MemberMessage.DECISION_WAITING: _(
        "Nobody has taken them, or another member has proposed them"
    ),
    MemberMessage.HAND_OVER: _("No message has reached the person"),
}


@member_required(while_suspended=True)
def choose(place: Place) -> HttpResponse:
    """Show what the member gets, and when; a POST changes it."""
    choices = member_messages.choices_of([place.workspace.pk])[place.workspace.pk]
    member, environment = place.member, place.environment
    kinds = [
        kind
        for kind in member_messages.kinds_of(environment)
        if has_permission(member, NEEDED[kind])
    ]
    form = MessagesForm(
        place.posted,
        initial={k: choices.time(member, environment, k) for k in kinds},
        kinds=[(kind, NAMES[kind], HINTS.get(kind, "")) for kind in kinds],
    )
    if form.is_valid():
        with transaction.atomic():
            member_messages.choose(member, environment, form.cleaned_data)
            place.record("messages.chosen", member, *form.changed_data)
        return place.to("messages", success=_("Saved."))
    shown = {
        "form": form,
        "has_refused": member_messages.has_refused(member),
        "unread": [NAMES[k] for k in choices.unread(environment) if k in kinds],
    }
    return place.render("messages/choose", shown)


@private_page
@login_required
def choose_workspace(request: HttpRequest) -> HttpResponse:
    """List the workspaces whose messages the user chooses, or open the only one."""
    found = Member.objects.filter(user=request.user.pk).select_related("workspace")
    mine = list(found.order_by("workspace__name", "id"))
    if len(mine) == 1:
        is_live = mine[0].workspace.is_live
        environment = Environment.PRODUCTION if is_live else Environment.SANDBOX
        place = [mine[0].workspace_id, environment.value]
        return HttpResponseRedirect(reverse("console:messages", args=place))
    return render(request, "console/messages/workspaces.html", {"members": mine})


# A mail program posts here without a cookie; the link itself shows who may act.
@csrf_exempt
@private_page
def turn_off(request: HttpRequest, member: UUID, what: str, token: str) -> HttpResponse:
    """Turn off one kind of messages, without a login. Only POST changes anything."""
    rows = Member.objects.select_related("workspace", "user")
    found = rows.filter(pk=member, user__is_active=True).first()
    if found is None or not member_messages.is_off_link(token, found, what):
        raise Http404
    is_post = request.method == "POST"
    if is_post:
        with transaction.atomic():
            member_messages.turn_off(found, what)
            audit.record("messages.turned-off", LINK, found)
    if request.POST.get("List-Unsubscribe") == "One-Click":
        return HttpResponse(status=204)
    environment, _dash, kind = what.rpartition("-")
    shown = {
        "member": found,
        "is_off": is_post,
        "what": NAMES[kind],
        "environment": environment or Environment.PRODUCTION.value,
    }
    return render(request, "console/messages/off.html", shown)
