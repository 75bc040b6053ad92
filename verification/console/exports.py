"""Exports: files with the rows of a period."""

from __future__ import annotations

from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _

from verification.api.authentication import EXPORTS_PER_MINUTE
from verification.api.export_kinds import KINDS
from verification.api.exports import MAX_DAYS, Export
from verification.backoffice import audit
from verification.console import forms
from verification.console.base import Place, member_required
from verification.privacy.models import Channel
from workspaces import rate_limits
from workspaces.members import Permission, has_permission


@member_required(while_suspended=True)
def overview(place: Place) -> HttpResponseBase:
    """Show the form; a POST sends the file."""
    form = forms.ExportForm(
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


def _export(place: Place, form: forms.ExportForm) -> HttpResponseBase:
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
