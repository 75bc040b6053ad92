"""Notices of declines on a report's page: resend, hand-over, PDF; and their rule."""

from typing import Any, Self
from uuid import UUID

from django import forms
from django.db import transaction
from django.http import HttpResponse
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _

from verification.console.base import (
    Place,
    Refusals,
    member_required,
    post_required,
)
from verification.console.fields import date_field, number_field, text_field
from verification.decisions import notices
from verification.decisions.models import (
    MAX_WAITING_DAYS,
    AdverseNotice,
    NoticeRule,
    NoticeState,
    notice_rule_of,
)
from verification.decisions.notices import MAX_NAME_LENGTH, NoticeRefused
from verification.documents.decline_notice import notice_pdf
from verification.notifications.models import Language
from verification.reports.hosted_links import ResendTooSoon
from verification.reports.models import Report
from verification.values.clock import now
from verification.values.local_time import NAIROBI
from verification.web.pages import attachment
from workspaces.members import Permission


class NoticeRuleForm(forms.ModelForm):
    """The time that a decline with a notice waits."""

    waiting_days = number_field(
        _("Working days until such a decline counts"),
        1,
        MAX_WAITING_DAYS,
        _("Enter a number from 1 to 30"),
        required=False,
        help_text=_("1 to 30, from the service of the notice on. Empty for none"),
    )

    class Meta:
        model = NoticeRule
        fields = ["waiting_days"]


class HandOverForm(forms.Form):
    """The hand-over of a notice of a decline: by a named person, on a day."""

    by = text_field(_("Handed over by"), MAX_NAME_LENGTH)
    on = date_field(label=_("Handed over on"), required=True)

    @classmethod
    def of(cls, notice: AdverseNotice) -> Self:
        """Return the form of a notice. The browser refuses days that cannot be."""
        form = cls(auto_id=f"%s-{notice.number}")
        days = {"min": notice.created_at, "max": now()}
        form.fields["on"].widget.attrs |= {
            name: moment.astimezone(NAIROBI).date() for name, moment in days.items()
        }
        return form


REFUSALS: Refusals = {
    NoticeRefused: lambda e: _(e.obstacle),
    ResendTooSoon: _(
        "A message with the notice is less than a minute old. Try again in a minute."
    ),
}


def notices_context(report: Report) -> list[dict[str, Any]]:
    """Return what the page of a report shows of its notices, newest first."""
    rows = AdverseNotice.objects.filter(report=report).select_related("decision")
    return [
        {
            "row": row,
            "bureaus": notices.bureaus_of(row),
            "facts": list(row.facts.all()),
            "is_open": row.state != NoticeState.ENDED and not report.erased_at,
            "form": HandOverForm.of(row),
        }
        for row in rows.prefetch_related("facts").order_by("-pk")
    ]


@post_required(Permission.DECIDE_REPORTS)
def resend(place: Place, notice: UUID) -> HttpResponse:
    report_id = _find(place, notice).report_id
    refusing = place.refusing(REFUSALS, "reports-detail", report=report_id)
    with refusing, transaction.atomic():
        sent = notices.resend(place.client, notice, place.member)
        place.record("notice.sent-again", sent)
    return place.to_report(report_id, success=_("The notice is on its way."))


@post_required(Permission.DECIDE_REPORTS)
def hand_over(place: Place, notice: UUID) -> HttpResponse:
    """Record who handed the notice to the person, and when."""
    report_id = _find(place, notice).report_id
    form = HandOverForm(place.posted)
    if not form.is_valid():
        return place.to_report(report_id, error=_("Say who handed it over, and when."))
    with place.refusing(REFUSALS, "reports-detail", report=report_id):
        notices.hand_over(
            place.client, notice, place.member, place.by.actor, **form.cleaned_data
        )
    return place.to_report(report_id, success=_("The hand-over is recorded."))


@member_required(Permission.DECIDE_REPORTS)
def pdf(place: Place, notice: UUID) -> HttpResponse:
    """Return the notice to hand over; `?proof` adds the proof of its service.

    `?in=sw` returns it in the person's language, whatever that of the console is.
    """
    found = _find(place, notice)
    place.record("notice.pdf-downloaded", found)
    asked = place.request.GET.get("in", "")
    language = asked if asked in Language else get_language() or "en"
    document = notice_pdf(found, language, proof="proof" in place.request.GET)
    return attachment(document, f"{found.number}.pdf")


@post_required(Permission.MANAGE_SETTINGS)
def edit_rule(place: Place) -> HttpResponse:
    """Set how long declines with a notice wait."""
    form = NoticeRuleForm(place.posted, instance=notice_rule_of(place.workspace))
    if not form.is_valid():
        wrong = _("Enter a number from 1 to 30")
        return place.to("settings-decisions", error=wrong)
    return place.save(form, "notice-settings.changed", "settings-decisions")


def _find(place: Place, notice: UUID) -> AdverseNotice:
    lookups = {f"report__{name}": value for name, value in place.lookups.items()}
    rows = AdverseNotice.objects.select_related("decision", "report__workspace")
    return rows.filter(**lookups).get(pk=notice)
