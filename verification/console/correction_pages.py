"""Corrections: the queue with its clocks, and the page on which a member decides.

The queue also lists requests for reports that have no address of the person.
"""

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from uuid import UUID

from django import forms
from django.db.models import F, QuerySet
from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from verification.checks.finding_words import label_of, text_of
from verification.checks.models import ResultStatus
from verification.console.base import (
    PAGE_SIZE,
    Place,
    Refusals,
    member_required,
    page_number,
    post_required,
)
from verification.console.fields import (
    FilterForm,
    filter_field,
    text_area,
)
from verification.console.finding_cards import result_context
from verification.console.words import choices_of
from verification.db.base import ResultPage, read_page
from verification.decisions.findings import results_with_same_finding
from verification.decisions.notices import reports_under_correction
from verification.files.storage import download
from verification.privacy import corrections, joins
from verification.privacy.corrections import CorrectionRefused
from verification.privacy.models import (
    Correction,
    CorrectionStatus,
    Outcome,
    SubjectRequest,
)
from verification.privacy.requests import AlreadyAnswered
from verification.values.clock import now
from verification.values.masking import mask
from verification.web.pages import REQUIRED_ERROR
from workspaces.members import Permission, has_permission


class CorrectionFilters(FilterForm):
    status = filter_field(
        _("Status"),
        [one for one in choices_of("correction") if one[0] in CorrectionStatus],
    )


class CorrectionForm(forms.Form):
    """The decision is the button that sent the form."""

    decision = forms.ChoiceField(
        choices=[
            (s, s) for s in (CorrectionStatus.CORRECTED, CorrectionStatus.CONFIRMED)
        ],
        widget=forms.HiddenInput,
    )
    reason = text_area(_("Your reason, which the person reads"), 1000)


class JoinForm(forms.Form):
    """Confirm or refuse that the visitor is the person; each has its own button."""

    decision = forms.ChoiceField(
        choices=[(each, each) for each in (Outcome.DONE, Outcome.REFUSED)],
        widget=forms.HiddenInput,
    )
    reason = forms.CharField(
        label=_("Why you refuse"),
        required=False,
        max_length=500,
        help_text=_("The person reads it. Do not name anybody"),
        error_messages=REQUIRED_ERROR,
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        is_refusal = cleaned.get("decision") == Outcome.REFUSED
        if is_refusal and not cleaned.get("reason"):
            self.add_error("reason", _("Say why you refuse"))
        return cleaned


REFUSALS: Refusals = {
    AlreadyAnswered: _("It is answered already."),
    CorrectionRefused: lambda e: _(e.obstacle),
}


@member_required()
def listing(place: Place) -> HttpResponse:
    """List corrections; the open ones first, by their deadline."""
    form = CorrectionFilters(place.request.GET)
    found = _corrections(place)
    if status := form.chosen["status"]:
        found = found.filter(status=status)
    found = found.order_by(F("decided_at").desc(nulls_first=True), "request__due_at")
    page = read_page(found, **place.paging)
    page = replace(page, rows=[(row, _days_left(row)) for row in page.rows])
    waiting = _joins(place).filter(answered_at=None).order_by("due_at")
    more = waiting[PAGE_SIZE:].count()
    said = ngettext(
        "%(count)s more waits. It is shown once these are answered.",
        "%(count)s more wait. They are shown once these are answered.",
        more,
    )
    shown = {
        "form": form,
        "page": page,
        "joins": waiting[:PAGE_SIZE],
        "more": said % {"count": more} if more else "",
    }
    return place.render("corrections/list", shown)


@member_required(write=Permission.DECIDE_CORRECTIONS)
def join(place: Place, asked: UUID) -> HttpResponse:
    """Show the visitor and the requested reports; a POST confirms or refuses."""
    found = _joins(place).get(pk=asked)
    form = JoinForm(place.posted)
    if form.is_valid():
        is_refused = form.cleaned_data["decision"] == Outcome.REFUSED
        reason = form.cleaned_data["reason"] if is_refused else ""
        with place.refusing(REFUSALS, "corrections-join", asked=found.pk):
            joins.answer_join(found.pk, place.by, reason)
        done = _("It is answered. The person sees it on their page.")
        return place.to("corrections-join", success=done, asked=found.pk)
    report = found.report
    is_shown = report is not None and report.erased_at is None
    reports, rules = joins.candidates(report) if report and is_shown else ([], [])
    opened = [*reports, *sorted(rules, key=lambda rule: rule.pk, reverse=True)]
    number = page_number(place.request)
    rows = opened[number * PAGE_SIZE :][:PAGE_SIZE]
    shown = {
        "asked": found,
        "is_shown": is_shown,
        "address": mask((found.details or {}).get("address") or ""),
        "page": ResultPage(rows, len(opened), number, PAGE_SIZE),
        "disputed": reports_under_correction([one.pk for one in rows]),
        "form": form,
    }
    return place.render("corrections/join", shown)


@member_required(write=Permission.DECIDE_CORRECTIONS)
def detail(place: Place, correction: UUID) -> HttpResponse:
    """Show the correction; a POST corrects or confirms the finding."""
    form = CorrectionForm(place.posted)
    if form.is_valid():
        return _decide(place, correction, form)
    found = _corrections(place).get(pk=correction)
    others = results_with_same_finding(found.result)
    place.record("correction.opened", found)
    place.disclose([found.report_id])
    statement, row = found.statement or {}, found.rerun
    shown = {
        "correction": found,
        "days_left": _days_left(found),
        "what": statement.get("what"),
        "why": statement.get("why"),
        "documents": found.documents.order_by("id"),
        "opens_documents": has_permission(place.member, Permission.DECIDE_CORRECTIONS),
        "old": result_context(found.result),
        "new": result_context(row) if row else None,
        "asked_with": _changes(found),
        "is_running": bool(row and row.completed_at is None),
        "can_correct": bool(row and row.status == ResultStatus.COMPLETED),
        "page": read_page(others, **place.paging),
        "form": form,
    }
    return place.render("corrections/detail", shown)


@post_required(Permission.DECIDE_CORRECTIONS)
def take(place: Place, correction: UUID) -> HttpResponse:
    _corrections(place).get(pk=correction)
    with _refusing(place, correction):
        corrections.take(correction, place.by)
    done = _("The correction is in review.")
    return place.to("corrections-detail", success=done, correction=correction)


@member_required(Permission.DECIDE_CORRECTIONS)
def rerun(place: Place, correction: UUID) -> HttpResponse:
    """Run the check again with the same details; the page says who changes them."""
    found = _corrections(place).get(pk=correction)
    if place.posted is None:
        return place.render("corrections/run", {"correction": found})
    with _refusing(place, correction):
        corrections.rerun(correction, place.by)
    done = _("The check runs again. We write to you when it has ended.")
    return place.to("corrections-detail", success=done, correction=correction)


@member_required(Permission.DECIDE_CORRECTIONS)
def document(place: Place, correction: UUID, file: UUID) -> HttpResponse:
    """Return a document of the person, and record it in the audit trail."""
    found = _corrections(place).get(pk=correction)
    wanted = found.documents.get(pk=file)
    place.record("correction.document-read", found)
    return download(wanted, f"correction-{found.request.number}")


def _decide(place: Place, correction: UUID, form: CorrectionForm) -> HttpResponse:
    _corrections(place).get(pk=correction)
    decision, reason = form.cleaned_data["decision"], form.cleaned_data["reason"]
    is_corrected = decision == CorrectionStatus.CORRECTED
    verb = corrections.correct if is_corrected else corrections.confirm
    with _refusing(place, correction):
        verb(correction, place.by, reason)
    done = _("It is decided, and the person is told.")
    return place.to("corrections-detail", success=done, correction=correction)


def _refusing(place: Place, correction: UUID) -> AbstractContextManager[None]:
    return place.refusing(REFUSALS, "corrections-detail", correction=correction)


def _corrections(place: Place) -> QuerySet[Correction]:
    own = {f"report__{name}": value for name, value in place.lookups.items()}
    return Correction.objects.filter(**own).select_related(
        "request",
        "report",
        "result__definition",
        "rerun__definition",
    )


def _joins(place: Place) -> QuerySet[SubjectRequest]:
    return joins.joins().filter(**place.lookups).select_related("report")


def _days_left(correction: Correction) -> int | None:
    """Return the whole days until the deadline, or None for a decided correction.

    The number is negative after the deadline.
    """
    if not correction.is_open:
        return None
    return (correction.due_at - now()).days


def _changes(correction: Correction) -> list[tuple[str, str]]:
    """Return the details that the reviewer corrected for the re-run."""
    asked = correction.rerun.inputs if correction.rerun else None
    known: dict[str, Any] = correction.report.subject or {}
    return [
        (label_of(name), text_of(value, name))
        for name, value in (asked or {}).items()
        if known.get(name) != value
    ]
