"""What a referee is asked. Labels are questions; errors say what to do.

The pages of a referee's link: look up, call one verb, lead back to the page.
"""

from __future__ import annotations

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
from django.views.decorators.http import require_safe

from verification import links
from verification.checks.events import consent_status_of
from verification.consents.models import RetiredLink
from verification.documents.receipts import reference_receipt_pdf
from verification.hosted.blocks import block_page
from verification.hosted.forms import ReasonForm, TextField, parse_number
from verification.hosted.pages import (
    VisitCookie,
    client_context,
    hosted,
    make_visit_required,
    pdf_response,
    qr_code,
    render_page,
    retired_link,
    see_other,
)
from verification.notifications.models import Channel
from verification.references import answers
from verification.references.models import Reference
from verification.references.notices import Notice, notice_for
from verification.values.wire import one_line
from verification.web.client_address import client_address, user_agent

NAME_LENGTH = 200
REMARKS_LENGTH = 1000
FIRST_YEAR = 1940
# Parts of a date are typed; the day may be forgotten.
DATE_PARTS = ("day", "month", "year")


def _text(label: Any, missing: Any, *, help_text: Any = "") -> TextField:
    """Required by `clean`, for some are not when there was no employment."""
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
    """Answers by a person; `answers()` has them as `providers.referee` reads them."""

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
        _("Their job title"),
        _("Write their job title"),
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
            self._require("employer", "job_title")
            if not typed.get("rehire") and "rehire" not in self.errors:
                self.add_error("rehire", _("Say whether they would be hired again"))
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
            "wouldRehire": typed["rehire"],
        }
        return {
            "employed": employed,
            # What was typed before a "no" is not what they say.
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
        if start and start > localdate():
            self.add_error("from_day", _("The first day cannot be in the future"))
        elif end and end > _end_of_month(localdate()):
            self.add_error("to_day", _("The last day cannot be in the future"))
        elif start and end and end < start:
            self.add_error("to_day", _("The last day cannot be before the first"))
        typed["employed_from"], typed["employed_to"] = start, end

    def _date(self, which: str, typed: dict[str, Any], *, last: bool) -> date | None:
        """Without a day, the first or last of the month; None adds an error."""
        day, month, year = (typed.get(f"{which}_{part}") or "" for part in DATE_PARTS)
        try:
            return _parse_date(day, month, year, last=last)
        except ValueError:
            error = _("Enter the date in numbers, for example 27 3 2019 or 3 2019")
            if which == "to":
                error = _("Enter the date in numbers, or tick that they still work")
            self.add_error(f"{which}_day", error)
            return None


def _end_of_month(day: date) -> date:
    """Without a day, this month is its last one."""
    return _parse_date("", str(day.month), str(day.year), last=True)


def _parse_date(day: str, month: str, year: str, *, last: bool) -> date:
    if parse_number(year) < FIRST_YEAR:
        raise ValueError("too long ago")
    if day.strip():
        return date(parse_number(year), parse_number(month), parse_number(day))
    first = date(parse_number(year), parse_number(month), 1)
    return first.replace(day=monthrange(first.year, first.month)[1]) if last else first


def _iso(day: date | None) -> str | None:
    return day.isoformat() if day else None


TIMEZONE = "Africa/Nairobi"
# Longer than for subjects: a referee may have to look things up.
COOKIE = VisitCookie("/r/v/", "hosted.reference", seconds=4 * 3600)
QUESTIONS_PAGE = "asked"
PAGES_WITH_RECEIPT = {"submitted", "declined"}
# What `closed_as` says -> page and status.
PAGE_BY_CLOSURE = {
    None: (QUESTIONS_PAGE, 200),
    "SUBMITTED": ("submitted", 200),
    "DECLINED": ("declined", 200),
    "EXPIRED": ("expired", 410),
    "REPLACED": ("replaced", 410),
    "REPORT_ENDED": ("ended", 410),
}


@dataclass(frozen=True, slots=True)
class OpenReference:
    """A reference, opened by the link of this generation in this browser."""

    reference: Reference
    generation: int
    page: str
    status: int


def _open_reference(request: HttpRequest, reference_id: UUID) -> OpenReference | None:
    generation = COOKIE.value_of(request, reference_id)
    rows = Reference.objects.select_related("report__workspace", "report__consent")
    reference = rows.filter(pk=reference_id).first() if generation else None
    if reference is None:
        return None
    closed = answers.closed_status(reference, reference.report, generation)
    return OpenReference(reference, generation, *PAGE_BY_CLOSURE[closed])


visit_required = make_visit_required(
    COOKIE, _open_reference, over="reference/over", overtaken=(answers.ReferenceClosed,)
)


@require_safe
@hosted
def open_link(request: HttpRequest, token: str) -> HttpResponse:
    """Take the token out of the address bar; nothing else happens."""
    digest = links.digest(token)
    found = Reference.objects.filter(token_digest=digest).only("id", "generation")
    if reference := found.first():
        return _redirect_with_visit(reference.pk, reference.generation)
    if retired := retired_link(RetiredLink.Purpose.REFERENCE, digest):
        return _redirect_with_visit(retired.row_id, retired.generation)
    return render_page(request, "unknown", status=404)


@require_safe
@visit_required
def show(request: HttpRequest, visited: OpenReference) -> HttpResponse:
    return page(request, visited, visited.page, visited.status)


@visit_required
def submit(request: HttpRequest, visited: OpenReference) -> HttpResponse:
    reference = visited.reference
    if request.method != "POST" or visited.page != QUESTIONS_PAGE:
        return redirect_to_page(reference.pk)
    form = AnswersForm(request.POST)
    if not form.is_valid():
        return page(request, visited, QUESTIONS_PAGE, form=form)
    evidence = _evidence(request, reference)
    if request.POST.get("shown") != evidence.notice["noticeSha256"]:
        # Other words than those that the referee has read.
        return page(request, visited, QUESTIONS_PAGE, form=form, changed=True)
    answers.submit(reference.pk, visited.generation, form.answers(), evidence)
    return redirect_to_page(reference.pk)


@visit_required
def decline(request: HttpRequest, visited: OpenReference) -> HttpResponse:
    """Asks why, which need not be answered, and then does it."""
    reference = visited.reference
    if visited.page != QUESTIONS_PAGE:
        return redirect_to_page(reference.pk)
    form = ReasonForm(request.POST if request.method == "POST" else None)
    if not form.is_valid():
        return page(request, visited, "decline", form=form)
    reason, evidence = form.cleaned_data["reason"], _evidence(request, reference)
    answers.decline(reference.pk, visited.generation, evidence, reason)
    return redirect_to_page(reference.pk)


@visit_required
def block(request: HttpRequest, visited: OpenReference) -> HttpResponse:
    reference = visited.reference
    if visited.page == "replaced":
        return redirect_to_page(reference.pk)
    email = (reference.report.subject or {}).get("refereeEmail")
    addresses = [(Channel.EMAIL.value, email)] if email else []
    return block_page(
        request, reference.report, addresses, COOKIE.path_of(reference.pk)
    )


@require_safe
@visit_required
def receipt(request: HttpRequest, visited: OpenReference) -> HttpResponse:
    """What was done, as a PDF."""
    reference = visited.reference
    if visited.page not in PAGES_WITH_RECEIPT:
        return redirect_to_page(reference.pk)
    name = f"receipt-{reference.number}.pdf"
    return pdf_response(reference_receipt_pdf(reference), name)


def page(
    request: HttpRequest,
    visited: OpenReference,
    name: str,
    status: int = 200,
    **more: Any,
) -> HttpResponse:
    """One of `templates/hosted/reference`; names the person only while it asks."""
    reference = visited.reference
    context = {
        "reference": reference,
        **client_context(reference.report.workspace),
        "timezone": TIMEZONE,
        "stop": visited.page != "replaced"
        and reverse("reference:block", args=[reference.pk]),
    }
    if visited.page in PAGES_WITH_RECEIPT:
        url = links.reference_url(reference.pk, visited.generation)
        context |= {"url": url, "qr": qr_code(url)}
    if visited.page == QUESTIONS_PAGE:
        subject = reference.report.subject or {}
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


def redirect_to_page(reference_id: UUID) -> HttpResponse:
    return see_other(COOKIE.path_of(reference_id))


def _redirect_with_visit(reference_id: UUID, generation: int) -> HttpResponse:
    response = redirect_to_page(reference_id)
    COOKIE.remember(response, reference_id, generation)
    return response


def _notice(reference: Reference) -> Notice:
    status = consent_status_of(reference.report)
    return notice_for(reference, status, get_language() or "en")


def _evidence(request: HttpRequest, reference: Reference) -> answers.AnswerEvidence:
    return answers.AnswerEvidence(
        address=str(client_address(request) or ""),
        user_agent=user_agent(request),
        language=get_language() or "en",
        notice=_notice(reference).kept,
    )
