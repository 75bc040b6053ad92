"""A workspace's settings, names, closing, balance and statements."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

from django import forms
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.forms.models import model_to_dict
from django.http import HttpResponse, StreamingHttpResponse
from django.utils.text import format_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from monitoring.models import PauseReason, Rule, RuleStatus, locked_rules
from verification.accounts.forms import PublicNameField
from verification.api.authentication import EXPORTS_PER_MINUTE
from verification.checks.models import CheckResult
from verification.console.base import (
    PAGE_SIZE,
    Place,
    member_required,
    post_required,
)
from verification.console.fields import (
    ContactField,
    name_field,
    number_field,
    text_field,
    trading_name_field,
)
from verification.db.base import ResultPage
from verification.decisions.notices import reports_under_correction
from verification.documents.statements import statement_response
from verification.golive import names
from verification.privacy.retention import MAX_COUNT, count_expired
from verification.reports.models import Report
from verification.values.clock import now
from verification.web.pages import REQUIRED_ERROR
from webhooks.configuration import HEALTHY_STATE
from webhooks.models import Configuration
from workspaces import rate_limits, statements
from workspaces.members import Permission, require_permission, withdraw_all_invitations
from workspaces.models import (
    CLOSED_REASON,
    MAX_RETENTION_DAYS,
    MIN_RETENTION_DAYS,
    Account,
    ApiKey,
    Environment,
    LedgerEntry,
    Member,
    NamesInLists,
)


def retention_field(label: Any, environment: Environment) -> forms.IntegerField:
    least = MIN_RETENTION_DAYS[environment]
    error = format_lazy(
        _("Enter a number of days from {least} to {most}"),
        least=least,
        most=MAX_RETENTION_DAYS,
    )
    hint = _("From a report's end. More days apply to later reports only")
    return number_field(label, least, MAX_RETENTION_DAYS, error, help_text=hint)


class SettingsForm(forms.Form):
    name = PublicNameField(
        label=_("Name"),
        max_length=200,
        help_text=_("People who are asked for their consent see it"),
        error_messages=REQUIRED_ERROR,
    )
    contact = ContactField()
    retention_days = retention_field(
        _("Days that reports in production are kept"), Environment.PRODUCTION
    )
    sandbox_retention_days = retention_field(
        _("Days that reports in the sandbox are kept"), Environment.SANDBOX
    )
    names_in_lists = forms.ChoiceField(
        label=_("Names in lists"),
        choices=[
            (NamesInLists.FULL, _("Full names")),
            (NamesInLists.INITIALS, _("Initials of people")),
        ],
        widget=forms.RadioSelect,
        help_text=_("Others may see your screen. A report's page has the full name"),
        error_messages=REQUIRED_ERROR,
    )
    low_balance_at = forms.DecimalField(
        label=_("Warn members when the balance is down to"),
        min_value=Decimal(0),
        max_digits=14,
        decimal_places=2,
        required=False,
        help_text=_("In production; empty for never"),
        error_messages={
            name: _("Enter an amount, such as 1000, or nothing for never")
            for name in ("invalid", "min_value", "max_digits", "max_decimal_places")
        },
    )


class NamesForm(forms.Form):
    legal_name = name_field(_("Legal name"), help_text=_("As on the certificate"))
    trading_name = trading_name_field()
    note = text_field(
        _("How we can check it"),
        500,
        required=False,
        help_text=_("Such as the day on which the register changed the name"),
    )


class CloseForm(forms.Form):
    """Asks for the password, unless the owner logs in by an identity provider."""

    password = forms.CharField(
        label=_("Your password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
        error_messages=REQUIRED_ERROR,
    )

    def __init__(self, data: Any, user: User) -> None:
        super().__init__(data)
        self.user = user
        if not user.has_usable_password():
            del self.fields["password"]

    def clean_password(self) -> str:
        """Check the password. Over the limit of attempts, even the right one fails."""
        password: str = self.cleaned_data["password"]
        rate = rate_limits.count(f"closing:{self.user.pk}", PASSWORDS_PER_MINUTE)
        if rate.exceeded or not self.user.check_password(password):
            raise forms.ValidationError(_("The password is not right"))
        return password


PASSWORDS_PER_MINUTE = 5


@member_required(write=Permission.MANAGE_SETTINGS)
def edit_settings(place: Place) -> HttpResponse:
    workspace = place.workspace
    account = workspace.accounts.get(environment=Environment.PRODUCTION)
    initial = model_to_dict(workspace, SettingsForm.base_fields)
    initial |= {
        "contact": workspace.contact,
        "low_balance_at": account.low_balance_at,
    }
    form = SettingsForm(place.posted, initial=initial)
    form.fields["low_balance_at"].label_suffix = f"({account.currency})"
    if workspace.requester.is_reviewed:
        del form.fields["name"]
    if form.is_valid():
        erased = _reports_to_erase(place, form)
        if erased and "confirmed" not in place.request.POST:
            shown = {"form": form, "erased": erased, "most": MAX_COUNT}
            return place.render("settings/retention", shown)
        _save_settings(place, account, form)
        return place.to("settings", success=_("Saved."))
    return place.render("settings/form", {"form": form})


def _reports_to_erase(place: Place, form: forms.Form) -> list[dict[str, Any]]:
    """Return how many reports of which environment a shorter retention erases."""
    days = {
        Environment.PRODUCTION: form.cleaned_data["retention_days"],
        Environment.SANDBOX: form.cleaned_data["sandbox_retention_days"],
    }
    return [
        {"is_sandbox": environment == Environment.SANDBOX, "days": new, "count": count}
        for environment, new in days.items()
        if new < place.workspace.retention(environment).days
        and (count := count_expired(place.workspace, environment, new))
    ]


@transaction.atomic
def _save_settings(place: Place, account: Account, form: forms.Form) -> None:
    workspace, typed = place.workspace, form.cleaned_data
    fields = [f for f in ("name", "contact", "names_in_lists") if f in typed]
    for field in fields:
        setattr(workspace, field, typed[field])
    # Other processes write other fields at the same time.
    workspace.save(update_fields=fields)
    workspace.change_retention(typed["retention_days"], typed["sandbox_retention_days"])
    account.low_balance_at = typed["low_balance_at"]
    account.save(update_fields=["low_balance_at"])
    place.record("workspace.changed", workspace, *form.changed_data)


@member_required(Permission.MANAGE_SETTINGS)
def edit_names(place: Place) -> HttpResponse:
    """Show the reviewed names and their newest change; a POST requests a change."""
    workspace = place.workspace
    if not workspace.requester.is_reviewed:
        return place.to("settings")
    initial = model_to_dict(workspace, NamesForm.base_fields)
    form = NamesForm(place.posted, initial=initial)
    if form.is_valid():
        try:
            names.request_name_change(place.member, **form.cleaned_data, by=place.by)
        except names.Unchanged:
            form.add_error(None, _("These are the names that you have."))
        else:
            success = _(
                "It is submitted. People see the old name until we have reviewed it."
            )
            return place.to("settings-name", success=success)
    shown = {"form": form, "change": names.newest_change(workspace)}
    return place.render("settings/name", shown)


@post_required(Permission.MANAGE_SETTINGS)
def withdraw_names(place: Place) -> HttpResponse:
    is_withdrawn = names.withdraw_name_change(place.member, place.by)
    success = _("The change is withdrawn.") if is_withdrawn else ""
    return place.to("settings-name", success=success)


@member_required(Permission.CLOSE)
def close(place: Place) -> HttpResponse:
    form = CloseForm(place.posted, place.member.user)
    if form.is_valid():
        with transaction.atomic():
            if close_workspace(place.member):
                place.record("workspace.closed", place.workspace)
        return place.to("dashboard", success=_("The workspace is closed."))
    return place.render("settings/closing", {"form": form})


@transaction.atomic
def close_workspace(actor: Member) -> bool:
    """Suspend a workspace and all that works for it; nothing is deleted.

    `reports.ends` cancels the reports that have not ended.
    Its consents and reports stay provable until their retention ends. Returns False
    if it was suspended already. Raises NotAllowed.
    """
    # The role may have changed since the request began.
    actor = Member.objects.select_related("workspace").get(pk=actor.pk)
    require_permission(actor, Permission.CLOSE)
    workspace, moment = actor.workspace, now()
    if not workspace.suspend(CLOSED_REASON):
        return False
    keys = ApiKey.objects.filter(workspace=workspace)
    keys.filter(Q(revoked_at=None) | Q(revoked_at__gt=moment)).update(revoked_at=moment)
    active = locked_rules().filter(workspace=workspace, status=RuleStatus.ACTIVE)
    Rule.objects.filter(pk__in=active.values("pk")).update(
        status=RuleStatus.PAUSED, pause_reason=PauseReason.BY_CLIENT, paused_at=moment
    )
    withdraw_all_invitations(workspace)
    receivers = Configuration.objects.filter(workspace=workspace)
    receivers.update(enabled=False, updated_at=moment, **HEALTHY_STATE)
    return True


@member_required(Permission.SEE_ADMINISTRATION)
def balance(place: Place) -> HttpResponse:
    number = place.paging["page"]
    entries = LedgerEntry.objects.filter(account=place.account)
    first = number * PAGE_SIZE
    rows = list(entries.order_by("-created_at", "-id")[first : first + PAGE_SIZE + 1])
    # One row more shows whether a next page exists, without a count of all.
    page = ResultPage(rows[:PAGE_SIZE], first + len(rows), number, PAGE_SIZE)
    shown = {
        "available": place.account.spendable,
        "page": page,
        "rows": _with_reports(page.rows),
        "disputed": reports_under_correction(
            [one.report_id for one in page.rows if one.report_id]
        ),
        "months": statements.months(place.account.pk),
    }
    return place.render("money", shown)


def _with_reports(
    entries: Sequence[LedgerEntry],
) -> list[tuple[LedgerEntry, Report | None, str]]:
    """Return each entry with its report and the name of its check."""
    found = Report.objects.filter(pk__in=[entry.report_id for entry in entries])
    reports = {
        row.pk: row
        for row in found.only("subject_name", "subject_type", "restricted_at")
    }
    results = CheckResult.every.filter(pk__in=[entry.result_id for entry in entries])
    named = results.values_list("pk", "definition__display_name")
    checks: dict[UUID | None, str] = {pk: gettext(name) for pk, name in named}
    return [
        (
            entry,
            reports.get(entry.report_id) if entry.report_id else None,
            checks.get(entry.result_id, ""),
        )
        for entry in entries
    ]


@member_required(Permission.SEE_ADMINISTRATION)
def statement(place: Place, month: str, kind: str) -> StreamingHttpResponse:
    """Return the statement of a month as `csv` or `pdf`."""
    place.require_rate(EXPORTS_PER_MINUTE, f"exports:{place.member.pk}")
    return statement_response(place.account, month, kind)
