"""The subject's pages about a disputed finding: the form, and its progress."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from verification.checks.finding_words import summary_text
from verification.checks.models import CheckResult, ResultStatus
from verification.files.uploads import ACCEPTED, status_of
from verification.hosted import forms, subject_data_page
from verification.hosted.consent_page import OpenConsent
from verification.hosted.hosted_pages import (
    ASK_OR_DO,
    render_page,
    require_rate,
    see_other,
)
from verification.hosted.subject_data import (
    data_context,
    proof_of,
    render_data,
    subject_pages,
    subject_required,
)
from verification.privacy import access, corrections
from verification.privacy.corrections import (
    MAX_DOCUMENTS,
    AlreadyDisputed,
    NoFinding,
    NotWithdrawable,
    Statement,
    TooManyCorrections,
)
from verification.privacy.models import Correction, RequestKind
from verification.reports.models import Report
from verification.values.clock import now
from workspaces import rate_limits

# The statements that one person may send by their link.
FORMS_PER_MINUTE = 6


@ASK_OR_DO
@subject_required
def dispute(request: HttpRequest, visited: OpenConsent, result: UUID) -> HttpResponse:
    """Show the form; a POST opens the correction of this finding."""
    found = CheckResult.objects.select_related("definition", "report").filter(
        pk=result, status=ResultStatus.COMPLETED, disputed_at=None
    )
    wrong = found.first()
    if wrong is None or not _sees(visited, wrong.report):
        return subject_pages.redirect(visited.consent.pk)
    if request.method != "POST":
        return _render_form(request, visited, wrong, forms.DisputeForm())
    require_rate(
        rate_limits.count(f"corrections:{visited.consent.pk}", FORMS_PER_MINUTE)
    )
    form = forms.DisputeForm(request.POST, request.FILES.getlist("documents"))
    if form.is_valid():
        statement = Statement(
            form.cleaned_data["what"],
            form.cleaned_data["why"],
            get_language() or "en",
        )
        try:
            opened = corrections.open_correction(
                wrong.report_id, wrong.pk, statement, form.files_read
            )
        except (AlreadyDisputed, NoFinding):
            return subject_pages.redirect(visited.consent.pk)
        except TooManyCorrections:
            form.add_error(
                "what", _("You told us of many mistakes today. Go on tomorrow")
            )
        else:
            return _redirect(visited, opened)
    return _render_form(request, visited, wrong, form)


@ASK_OR_DO
@subject_required
def show(request: HttpRequest, visited: OpenConsent, correction: UUID) -> HttpResponse:
    """Show how far a correction is; a POST withdraws it."""
    found = Correction.objects.select_related("request", "report", "result__definition")
    row = found.filter(pk=correction).first()
    if row is None or not _sees(visited, row.report):
        return subject_pages.redirect(visited.consent.pk)
    if request.method == "POST":
        # If it is decided, the page says how.
        with suppress(NotWithdrawable):
            corrections.withdraw(row.pk)
        return _redirect(visited, row)
    view = subject_data_page.correction_view(row, row.report.workspace)
    documents = [document.name for document in row.documents.order_by("id")]
    return render_data(request, visited, "correction", view=view, documents=documents)


def _sees(visited: OpenConsent, report: Report) -> bool:
    """Return whether the visitor's page shows this report, and not that it is gone."""
    own = visited.consent.report
    return own.erased_at is None and access.is_one_of(proof_of(visited), report)


def _redirect(visited: OpenConsent, correction: Correction) -> HttpResponse:
    arguments = [visited.consent.pk, correction.pk]
    return see_other(reverse("hosted:data-correction", args=arguments))


def _render_form(
    request: HttpRequest,
    visited: OpenConsent,
    wrong: CheckResult,
    form: forms.DisputeForm,
) -> HttpResponse:
    (seen,) = access.load_reports([wrong.report], now())
    is_about_another = wrong.pk in seen.strangers
    shown: dict[str, Any] = {
        "form": form,
        "check": wrong.definition.title,
        "summary": ""
        if is_about_another
        else summary_text(
            wrong.name, seen.finding(wrong), wrong.score, to_subject=True
        ),
        "numbers": range(1, MAX_DOCUMENTS + 1),
        "accepted": ACCEPTED,
        "days": settings.SUBJECT_REQUEST_DAYS[RequestKind.CORRECTION],
    }
    context = data_context(visited) | shown
    status = status_of(form)
    page = render_page(request, "data/dispute", context, status)
    if status != 200:
        page["Retry-After"] = str(rate_limits.WINDOW_SECONDS)
    return page
