"""The referee's page: its form, and views that call one verb and redirect back."""

from calendar import monthrange
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.timezone import localdate
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _

from verification import links
from verification.checks.events import consent_status_of
from verification.documents.receipts import reference_receipt_pdf
from verification.hosted.blocks import block_page
from verification.hosted.forms import ReasonForm, TextField, parse_number
from verification.hosted.hosted_pages import (
    DAY,
    HostedPages,
    VisitCookie,
    client_context,
    qr_code,
    render_page,
)
from verification.notifications.models import Channel
from verification.references import answers
from verification.references.answers import Notice, notice_for
from verification.references.models import Reference
from verification.references.requests import (
    ReferenceClosed,
    asked_subject,
    closed_status,
)
from verification.reports.hosted_links import link_end
from verification.values.formats import one_line
from verification.web.pages import attachment
from verification.web.request import client_address, user_agent

NAME_LENGTH = 200
REMARKS_LENGTH = 1000
FIRST_YEAR = 1940
# A referee types the parts of a date; the day is optional.
DATE_PARTS = ("day", "month", "year")


def _text(label: Any, missing: Any = "", *, help_text: Any = "") -> TextField:
    """Return a text field; `AnswersForm.clean` says `missing` if it needs a text."""
    field = TextField(
        label=label,
        help_text=help_text,
        max_length=NAME_LENGTH,
        required=False,
        error_messages={"max_length": _("Write at most 200 characters")},
    )
    field.missing = missing  # type: ignore[attr-defined]
    return field


class AnswersForm(forms.Form):
    """The questionnaire; `answers()` returns the form of `providers.referee`."""

    employed = forms.ChoiceField(
        choices=[("YES", _("Yes")), ("NO", _("No"))],
        error_messages=dict.fromkeys(
            ("required", "invalid_choice"), _("Say whether they worked there")
        ),
    )
    employer = _text(
        _("Name of the employer"),
        _("Write the name of the employer"),
        help_text=_("As it is registered, if you know"),
    )
    job_title = _text(
        _("Their job title (you need not say)"),
        help_text=_("The last one, if there were several"),
    )
    from_day = forms.Field(required=False)
    from_month = forms.Field(required=False)
    from_year = forms.Field(required=False)
    still = forms.BooleanField(required=False)
    to_day = forms.Field(required=False)
    to_month = forms.Field(required=False)
    to_year = forms.Field(required=False)
    rehire = forms.ChoiceField(
        choices=[
            ("YES", _("Yes")),
            ("NO", _("No")),
            ("UNKNOWN", _("I cannot say")),
        ],
        required=False,
        error_messages={"invalid_choice": _("Say whether they would be hired again")},
    )
    remarks = TextField(
        max_length=REMARKS_LENGTH,
        required=False,
        error_messages={"max_length": _("Write at most 1000 characters")},
    )
    name = _text(_("Your full name"), _("Write your full name"))
    title = _text(_("Your job title"), _("Write your job title"))
    may_answer = forms.BooleanField(
        error_messages={"required": _("Tick the box if you may answer")}
    )

    def clean(self) -> dict[str, Any]:
        typed = super().clean() or {}
        self._require("name", "title")
        if typed.get("employed") == "YES":
            self._require("employer")
            self._clean_dates(typed)
        return typed

    def answers(self) -> dict[str, Any]:
        typed = self.cleaned_data
        employed = typed["employed"] == "YES"
        about = {
            "employer": typed["employer"],
            "jobTitle": typed["job_title"],
            "employedFrom": _iso(typed.get("employed_from")),
            "employedTo": _iso(typed.get("employed_to")),
            "stillEmployed": typed["still"],
            "wouldRehire": typed["rehire"] or "UNKNOWN",
        }
        return {
            "employed": employed,
            # A "no" voids the answers about the employment.
            **(about if employed else dict.fromkeys(about)),
            "remarks": typed["remarks"],
            "refereeName": typed["name"],
            "refereeTitle": typed["title"],
            "mayAnswer": True,
        }

    def _require(self, *names: str) -> None:
        for name in names:
            if name not in self.errors and not self.cleaned_data.get(name):
                self.add_error(name, self.fields[name].missing)  # type: ignore[attr-defined]

    def _clean_dates(self, typed: dict[str, Any]) -> None:
        start = self._date("from", typed, last=False)
        end = None if typed.get("still") else self._date("to", typed, last=True)
        today = localdate()
        if start and start > today:
            self.add_error("from_day", _("The first day cannot be in the future"))
        elif end and (end.year, end.month) > (today.year, today.month):
            self.add_error("to_day", _("The last day cannot be in the future"))
        elif start and end and end < start:
            self.add_error("to_day", _("The last day cannot be before the first"))
        typed["employed_from"], typed["employed_to"] = start, end

    def _date(self, which: str, typed: dict[str, Any], *, last: bool) -> date | None:
        """Return the date or None, and add an error if it is invalid.

        A missing day is the first or last of the month.
        """
        day, month, year = (typed.get(f"{which}_{part}") or "" for part in DATE_PARTS)
        if not (day + month + year).strip():
            return None
        try:
            return _parse_date(day, month, year, last=last)
        except ValueError:
            error = _("Enter the date in numbers, for example 27 3 2019 or 3 2019")
            self.add_error(f"{which}_day", error)
            return None


def _parse_date(day: str, month: str, year: str, *, last: bool) -> date:
    if parse_number(year) < FIRST_YEAR:
        raise ValueError("too long ago")
    if day.strip():
        return date(parse_number(year), parse_number(month), parse_number(day))
    first = date(parse_number(year), parse_number(month), 1)
    return first.replace(day=monthrange(first.year, first.month)[1]) if last else first


def _iso(day: date | None) -> str | None:
    return day.isoformat() if day else None


QUESTIONS_STAGE = "asked"
RECEIPT_STAGES = {"submitted", "declined"}
# Status of `closed_status` -> stage, which names the template, and HTTP status.
STAGE_BY_CLOSURE = {
    None: (QUESTIONS_STAGE, 200),
    "SUBMITTED": ("submitted", 200),
    "DECLINED": ("declined", 200),
    "EXPIRED": ("expired", 410),
    "REPLACED": ("replaced", 410),
    "REPORT_ENDED": ("ended", 410),
}


@dataclass(frozen=True, slots=True)
class OpenReference:
    """A reference that this browser has opened by the link of this generation."""

    reference: Reference
    generation: int
    stage: str
    status: int


class ReferencePages(HostedPages[OpenReference]):
    # It is longer than a subject's, as a referee may have to look into files.
    cookie = VisitCookie("/r/v/", "hosted.reference", seconds=DAY)
    over = "reference/over"
    conflicts = (ReferenceClosed,)

    def find(self, request: HttpRequest, row: UUID) -> OpenReference | None:
        generation = self.cookie.value_of(request, row)
        rows = Reference.objects.select_related("report__workspace", "report__consent")
        reference = rows.filter(pk=row).first() if generation else None
        if reference is None:
            return None
        closed = closed_status(reference, reference.report, generation)
        return OpenReference(reference, generation, *STAGE_BY_CLOSURE[closed])


pages = ReferencePages()
open_link = pages.link_view(Reference)


@pages.read
def show(request: HttpRequest, visited: OpenReference) -> HttpResponse:
    return _render(request, visited, visited.stage, visited.status)


@pages.post_at(QUESTIONS_STAGE)
def submit(request: HttpRequest, visited: OpenReference) -> HttpResponse:
    reference = visited.reference
    form = AnswersForm(request.POST)
    if not form.is_valid():
        return _render(request, visited, QUESTIONS_STAGE, form=form)
    evidence = _evidence(request, reference)
    if request.POST.get("shown") != evidence.notice["noticeSha256"]:
        # The notice has changed since the referee read it.
        return _render(request, visited, QUESTIONS_STAGE, form=form, changed=True)
    answers.submit(reference.pk, visited.generation, form.answers(), evidence)
    return pages.redirect(reference.pk)


@pages.visit_required
def decline(request: HttpRequest, visited: OpenReference) -> HttpResponse:
    """Ask for a reason, which is optional, and record the refusal."""
    reference = visited.reference
    if visited.stage != QUESTIONS_STAGE:
        return pages.redirect(reference.pk)
    form = ReasonForm(request.POST if request.method == "POST" else None)
    if not form.is_valid():
        return _render(request, visited, "decline", form=form)
    reason, evidence = form.cleaned_data["reason"], _evidence(request, reference)
    answers.decline(reference.pk, visited.generation, evidence, reason)
    return pages.redirect(reference.pk)


@pages.visit_required
def block(request: HttpRequest, visited: OpenReference) -> HttpResponse:
    reference = visited.reference
    if visited.stage == "replaced":
        return pages.redirect(reference.pk)
    email = asked_subject(reference).get("refereeEmail")
    addresses = [(Channel.EMAIL.value, email)] if email else []
    return block_page(request, reference.report, addresses, pages.path_of(reference.pk))


@pages.read
def receipt(request: HttpRequest, visited: OpenReference) -> HttpResponse:
    """Return the receipt as a PDF."""
    reference = visited.reference
    if visited.stage not in RECEIPT_STAGES:
        return pages.redirect(reference.pk)
    name = f"receipt-{reference.number}.pdf"
    return attachment(reference_receipt_pdf(reference), name)


def _render(
    request: HttpRequest,
    visited: OpenReference,
    name: str,
    status: int = 200,
    **more: Any,
) -> HttpResponse:
    """Render a template of `hosted/reference`; only the questions name the subject."""
    reference = visited.reference
    context = {
        "reference": reference,
        "expires_at": link_end(reference),
        **client_context(reference.report.workspace, reference.report.environment),
        "stop": visited.stage != "replaced"
        and reverse("reference:block", args=[reference.pk]),
    }
    if visited.stage in RECEIPT_STAGES:
        url = links.reference_url(reference.pk, visited.generation)
        context |= {"url": url, "qr": qr_code(url)}
    if visited.stage == QUESTIONS_STAGE:
        subject = asked_subject(reference)
        context |= {
            "name": subject.get("fullName", ""),
            "employer": subject.get("employerName", ""),
            "notice": (notice := _notice(reference)),
            "names": notice.names,
            "form": AnswersForm(
                initial={"name": one_line(subject.get("refereeName", ""))}
            ),
        }
    return render_page(request, f"reference/{name}", context | more, status)


def _notice(reference: Reference) -> Notice:
    status = consent_status_of(reference.report)
    return notice_for(reference, status, get_language() or "en")


def _evidence(request: HttpRequest, reference: Reference) -> answers.AnswerEvidence:
    return answers.AnswerEvidence(
        address=str(client_address(request) or ""),
        user_agent=user_agent(request),
        language=get_language() or "en",
        notice=_notice(reference).as_evidence,
    )
