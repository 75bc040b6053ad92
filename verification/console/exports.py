"""Exports: files with the rows of a period."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http.response import HttpResponseBase
from django.utils.translation import gettext_lazy as _

from verification.api.authentication import EXPORTS_PER_MINUTE
from verification.api.export_kinds import KINDS
from verification.api.exports import MAX_DAYS, Export, Period, PeriodTooLong
from verification.backoffice import audit
from verification.console.base import Place, member_required
from verification.console.fields import REQUIRED_ERROR, date_field, text_field
from verification.privacy.models import Channel
from verification.values.local_time import NAIROBI
from workspaces import rate_limits
from workspaces.members import Permission, has_permission


class ExportForm(forms.Form):
    KINDS = (
        ("reports", _("Reports")),
        ("results", _("Results")),
        ("decisions", _("Decisions")),
        ("alerts", _("Alerts")),
        ("audit-trail", _("Audit trail: who did what")),
    )
    kind = forms.ChoiceField(label=_("What"), choices=KINDS)
    first = date_field(label=_("From"))
    last = date_field(label=_("To"))
    format = forms.ChoiceField(
        label=_("File"),
        choices=[
            ("csv", _("CSV, for a spreadsheet")),
            ("jsonl", _("JSON Lines, for a program")),
        ],
    )
    in_full = forms.BooleanField(
        label=_("Do not mask details about people"), required=False
    )
    reason = text_field(
        _("Why you need them"),
        300,
        required=False,
        help_text=_("It is recorded"),
    )

    def __init__(self, *args: Any, may_unmask: bool, may_see_trail: bool) -> None:
        super().__init__(*args)
        if not may_see_trail:
            kinds = [kind for kind in self.KINDS if kind[0] != "audit-trail"]
            self.fields["kind"].choices = kinds  # type: ignore[attr-defined]
        for name in ("first", "last"):
            self.fields[name].required = True
            self.fields[name].error_messages |= REQUIRED_ERROR
        if not may_unmask:
            del self.fields["in_full"], self.fields["reason"]

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
    form = ExportForm(
        place.posted,
        may_unmask=has_permission(place.member, Permission.EXPORT_IN_FULL),
        may_see_trail=has_permission(place.member, Permission.SEE_ADMINISTRATION),
    )
    if form.is_valid():
        subject = f"exports:{place.member.pk}"
        if not rate_limits.count(subject, EXPORTS_PER_MINUTE).exceeded:
            return _export(place, form)
        form.add_error(None, _("Wait a minute before the next export."))
    return place.render("exports", {"form": form, "most": MAX_DAYS})


def _export(place: Place, form: ExportForm) -> HttpResponseBase:
    typed = form.cleaned_data
    return Export(
        KINDS[typed["kind"]],
        place.client,
        typed["period"],
        typed["format"],
        audit.actor_of(place.request),
        Channel.CONSOLE,
        masked=not typed.get("in_full"),
        reason=typed.get("reason", ""),
    ).response()
