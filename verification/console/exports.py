"""Exports: files with the rows of a period."""

from datetime import timedelta
from typing import Any

from django import forms
from django.http.response import HttpResponseBase
from django.utils.timezone import localdate
from django.utils.translation import gettext_lazy as _

from verification.api.authentication import EXPORTS_PER_MINUTE
from verification.api.export_kinds import AUDIT_TRAIL, KINDS
from verification.api.exports import (
    MAX_DAYS,
    Export,
    Period,
    PeriodTooLong,
    TooManyExports,
)
from verification.backoffice import audit
from verification.console.base import Place, member_required
from verification.console.fields import (
    ChoicesForm,
    date_field,
    text_field,
)
from verification.privacy.models import Channel
from verification.values.local_time import NAIROBI
from verification.web.pages import REQUIRED_ERROR
from workspaces import rate_limits
from workspaces.members import Permission, has_permission

EXPORTS: list[tuple[str, Any]] = [
    ("reports", _("Reports")),
    ("results", _("Results")),
    ("decisions", _("Decisions")),
    ("alerts", _("Alerts")),
]
UNDER_WAY = _("Other exports are under way. Start the next when one has ended.")
# The default number of days in the form
USUAL_DAYS = 30


class ExportForm(ChoicesForm):
    kind = forms.ChoiceField(label=_("What"))
    format = forms.ChoiceField(
        label=_("File"),
        choices=[
            ("csv", _("CSV, for a spreadsheet")),
            ("jsonl", _("JSON Lines, for a program")),
        ],
    )
    first = date_field(
        label=_("From"),
        required=True,
        initial=lambda: localdate() - timedelta(days=USUAL_DAYS - 1),
    )
    last = date_field(label=_("To"), required=True, initial=localdate)
    in_full = forms.BooleanField(
        label=_("Do not mask details about people"), required=False
    )
    reason = text_field(
        _("Why you need them unmasked"),
        300,
        required=False,
        help_text=_("The reason is recorded"),
    )

    def clean(self) -> dict[str, Any]:
        typed = self.cleaned_data
        if typed.get("first") and typed.get("last"):
            try:
                typed["period"] = Period(typed["first"], typed["last"], NAIROBI)
            except PeriodTooLong:
                days = {"days": MAX_DAYS}
                why = _("Choose a day after the first, within %(days)s days") % days
                self.add_error("last", why)
        if typed.get("in_full") and not typed.get("reason"):
            self.add_error("reason", REQUIRED_ERROR["required"])
        return typed


@member_required(while_suspended=True)
def overview(place: Place) -> HttpResponseBase:
    """Show the form; a POST sends the file."""
    kinds = EXPORTS
    if has_permission(place.member, Permission.SEE_ADMINISTRATION):
        kinds = [*EXPORTS, (AUDIT_TRAIL.name, _("Audit trail: who did what"))]
    form = ExportForm(place.posted, choices={"kind": kinds})
    if not has_permission(place.member, Permission.EXPORT_IN_FULL):
        del form.fields["in_full"], form.fields["reason"]
    if form.is_valid():
        typed = form.cleaned_data
        kind = KINDS[typed["kind"]]
        if kind == AUDIT_TRAIL and typed.get("in_full"):
            # It names members and addresses of production, also in the sandbox.
            place.require_second_factor()
        subject = f"exports:{place.member.pk}"
        if rate_limits.count(subject, EXPORTS_PER_MINUTE).exceeded:
            form.add_error(None, _("Wait a minute before the next export."))
        else:
            try:
                return Export(
                    kind,
                    place.client,
                    typed["period"],
                    typed["format"],
                    audit.actor_of(place.request),
                    Channel.CONSOLE,
                    masked=not typed.get("in_full"),
                    reason=typed.get("reason", ""),
                ).response()
            except TooManyExports:
                form.add_error(None, UNDER_WAY)
    return place.render("exports", {"form": form, "most": MAX_DAYS})
