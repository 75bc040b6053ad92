"""A workspace's settings, names, money and closing."""

from __future__ import annotations

from io import BytesIO

from django import forms as django_forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.http import FileResponse, Http404, HttpResponse
from django.utils.timezone import now
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from monitoring.models import PauseReason, Rule, RuleStatus
from verification.console import forms
from verification.console.base import (
    PAGE_SIZE,
    Page,
    Place,
    member_required,
    page_number,
)
from verification.documents import statements as document_statements
from verification.golive.names import (
    Unchanged,
    newest_change,
    request_name_change,
    withdraw_name_change,
)
from verification.links import top_up_url
from webhooks.models import Configuration
from workspaces import rate_limits, statements
from workspaces.members import Permission, require_permission, withdraw_all_invitations
from workspaces.models import Account, ApiKey, Environment, LedgerEntry, Member

CLOSED_REASON = "Closed by its owner"


@transaction.atomic
def close_workspace(actor: Member) -> bool:
    """False if it was suspended already. Raises NotAllowed."""
    # As it is by now.
    actor = Member.objects.select_related("workspace").get(pk=actor.pk)
    require_permission(actor, Permission.CLOSE)
    workspace, moment = actor.workspace, now()
    if not workspace.suspend(CLOSED_REASON):
        return False
    keys = ApiKey.objects.filter(workspace=workspace)
    keys.filter(Q(revoked_at=None) | Q(revoked_at__gt=moment)).update(revoked_at=moment)
    Rule.objects.filter(workspace=workspace, status=RuleStatus.ACTIVE).update(
        status=RuleStatus.PAUSED, pause_reason=PauseReason.BY_CLIENT, paused_at=moment
    )
    withdraw_all_invitations(workspace)
    Configuration.objects.filter(workspace=workspace).update(enabled=False)
    return True


PASSWORDS_PER_MINUTE = 5


@member_required(write=Permission.MANAGE_SETTINGS)
def edit_settings(place: Place) -> HttpResponse:
    workspace = place.workspace
    account = workspace.accounts.get(environment=Environment.PRODUCTION)
    present = {
        "name": workspace.name,
        "contact": workspace.contact,
        "retention_days": workspace.retention_days,
        "low_balance_at": account.low_balance_at,
    }
    form = forms.SettingsForm(place.request.POST or None, initial=present)
    if workspace.requester.is_reviewed:
        del form.fields["name"]
    if place.request.method == "POST" and form.is_valid():
        _save_settings(place, account, form)
        messages.success(place.request, _("Saved."))
        return place.to("settings")
    return place.render("settings/form", {"form": form})


@member_required(Permission.MANAGE_SETTINGS)
def edit_names(place: Place) -> HttpResponse:
    """The reviewed names, and a change of them that waits for a review."""
    workspace = place.workspace
    if not workspace.requester.is_reviewed:
        return place.to("settings")
    present = {
        "legal_name": workspace.legal_name,
        "trading_name": workspace.trading_name,
    }
    form = forms.NamesForm(place.request.POST or None, initial=present)
    if place.request.method == "POST" and form.is_valid():
        try:
            request_name_change(place.member, **form.cleaned_data, by=place.by)
        except Unchanged:
            form.add_error(None, _("These are the names that you have."))
        else:
            told = _(
                "It is handed in. People see the old name until we have reviewed it."
            )
            messages.success(place.request, told)
            return place.to("settings-name")
    shown = {"form": form, "change": newest_change(workspace)}
    return place.render("settings/name", shown)


@require_POST
@member_required(Permission.MANAGE_SETTINGS)
def withdraw_names(place: Place) -> HttpResponse:
    if withdraw_name_change(place.member, place.by):
        messages.success(place.request, _("The change is withdrawn."))
    return place.to("settings-name")


@member_required(Permission.CLOSE)
def close(place: Place) -> HttpResponse:
    form = forms.CloseForm(place.request.POST or None)
    if place.request.method == "POST" and form.is_valid():
        if _is_correct_password(place, form):
            with transaction.atomic():
                if close_workspace(place.member):
                    place.record("workspace.closed", place.workspace)
            messages.success(place.request, _("The workspace is closed."))
            return place.to("dashboard")
        form.add_error("password", _("The password is not right"))
    return place.render("settings/closing", {"form": form})


@transaction.atomic
def _save_settings(place: Place, account: Account, form: django_forms.Form) -> None:
    workspace, typed = place.workspace, form.cleaned_data
    columns = [c for c in ("name", "contact", "retention_days") if c in typed]
    for column in columns:
        setattr(workspace, column, typed[column])
    # Others write other columns meanwhile.
    workspace.save(update_fields=columns)
    account.low_balance_at = typed["low_balance_at"]
    account.save(update_fields=["low_balance_at"])
    place.record("workspace.changed", workspace, *form.changed_data)


def _is_correct_password(place: Place, form: django_forms.Form) -> bool:
    """Guessed as slowly here as at the login."""
    user = place.request.user
    assert isinstance(user, User)  # noqa: S101
    too_often = rate_limits.count(f"closing:{user.pk}", PASSWORDS_PER_MINUTE).exceeded
    return not too_often and user.check_password(form.cleaned_data["password"])


@member_required()
def balance(place: Place) -> HttpResponse:
    number = page_number(place.request)
    entries = LedgerEntry.objects.filter(account=place.account)
    first = number * PAGE_SIZE
    rows = list(entries.order_by("-created_at", "-id")[first : first + PAGE_SIZE + 1])
    # One more tells whether there are more; nobody needs the number of all.
    page = Page(rows[:PAGE_SIZE], first + len(rows), number)
    can_pay = place.is_sandbox or bool(settings.PAYMENT_PROVIDER)
    shown = {
        "account": place.account,
        "available": place.account.spendable,
        "page": page,
        "months": statements.months(place.account.pk),
        "top_up_url": top_up_url(place.account.pk) if can_pay else "",
    }
    return place.render("money", shown)


@member_required()
def statement(place: Place, month: str, kind: str) -> FileResponse:
    try:
        begun = statements.Month.parse(month)
    except ValueError:
        raise Http404 from None
    if begun.start > now():
        raise Http404
    with statements.open_statement(place.account.pk, begun) as found:
        if kind == "csv":
            file = document_statements.csv_file(found)
        else:
            file = BytesIO(document_statements.statement_pdf(found))
    name = document_statements.file_name(found, kind)
    return FileResponse(file, as_attachment=True, filename=name)
