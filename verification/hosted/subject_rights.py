"""The subject's pages to object, erase, ask for the rest, dispute, and have reviewed.

They lie behind the gate of `subject_data`. A page asks before each step; the page after
it stays readable with the same link, as an erased report names nobody. The link in the
message about a declined application opens its notice (`decisions.notices`), which
offers a review by a person if none has looked at it.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial, wraps
from typing import Any, Concatenate
from uuid import UUID

import orjson
from django.conf import settings
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from verification.checks.finding_words import summary_text
from verification.checks.models import CheckResult, ResultStatus
from verification.consents.models import Consent
from verification.decisions import notices
from verification.decisions.decide import successor_of
from verification.decisions.models import (
    AdverseNotice,
    FactKind,
    reason_text,
)
from verification.documents.decline_notice import notice_pdf, state_of
from verification.files.uploads import ACCEPTED, status_of
from verification.hosted import forms
from verification.hosted.consent import OpenConsent
from verification.hosted.hosted_pages import (
    ASK_OR_DO,
    DAY,
    render_page,
    require_rate,
    see_other,
)
from verification.hosted.subject_data import (
    DOWNLOADS_PER_MINUTE,
    SubjectPages,
    correction_view,
    data_context,
    data_required,
    proof_of,
    render_data,
    subject_pages,
    subject_required,
)
from verification.privacy import access, corrections
from verification.privacy.certificates import certificate_pdf, signed_members
from verification.privacy.erasure import (
    ErasureHeld,
    erasure_of,
    request_erasure,
    waiting_erasure,
)
from verification.privacy.joins import ask_to_join, newest_join, waits_for_answer
from verification.privacy.models import Correction, Erasure, Origin, RequestKind
from verification.privacy.objections import object_to_use
from verification.privacy.people import Person, is_held
from verification.privacy.reviews import request_review
from verification.reports.models import Report
from verification.reports.status import SUBJECT_ACTOR
from verification.values.clock import now
from verification.web.pages import View, attachment
from workspaces import rate_limits

# The statements that one person may send by their link.
FORMS_PER_MINUTE = 6
# The statements with documents that a client's subjects may send
DOCUMENTS_PER_MINUTE = 30


@ASK_OR_DO
@subject_required
def objection(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Ask, then restrict all reports about the subject at this client."""
    report, path = visited.consent.report, subject_pages.path_of(visited.consent.pk)
    if report.erased_at:
        return see_other(path)
    if request.method != "POST":
        return render_data(request, visited, "objection")
    _object(visited)
    return see_other(f"{path}objected")


def _object(visited: OpenConsent) -> None:
    object_to_use(
        visited.consent.report.pk,
        Origin.SUBJECT,
        requested_by=SUBJECT_ACTOR,
        channel=visited.visit.proved_channel(visited.consent),
    )


@require_safe
@subject_required
def objected(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    return render_data(request, visited, "objected")


@ASK_OR_DO
@data_required
def others(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Ask for the reports without an address, and show how far that is."""
    proof = proof_of(visited)
    if request.method == "POST":
        ask_to_join(proof)
        return see_other(f"{subject_pages.path_of(visited.consent.pk)}others")
    asked = newest_join(proof)
    return render_data(
        request,
        visited,
        "others",
        asked=asked,
        waits=waits_for_answer(asked),
        is_confirmed=proof.is_confirmed,
    )


@ASK_OR_DO
@subject_required
def delete(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Ask, then request the erasure; the next page shows its progress.

    If a hold refuses it, the reports are restricted instead (Data Protection Act,
    section 40(3)).
    """
    report, path = visited.consent.report, subject_pages.path_of(visited.consent.pk)
    if report.erased_at or waiting_erasure(report):
        return see_other(f"{path}deletion")
    if request.method != "POST":
        return render_data(request, visited, "delete")
    with transaction.atomic():
        try:
            request_erasure(
                report.pk,
                Origin.SUBJECT,
                requested_by=SUBJECT_ACTOR,
                channel=visited.visit.proved_channel(visited.consent),
            )
        except ErasureHeld:
            _object(visited)
            return see_other(f"{path}held")
    return see_other(f"{path}deletion")


@require_safe
@subject_required
def held(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Say that a hold of staff keeps the reports, without its reason."""
    report = visited.consent.report
    if not is_held(Person.of(report, proof_of(visited)).find().reports):
        return subject_pages.redirect(visited.consent.pk)
    return render_data(request, visited, "held")


@require_safe
@subject_required
def deletion(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Show that the erasure is under way; at its end, the certificate."""
    report = visited.consent.report
    if report.erased_at is None and waiting_erasure(report) is None:
        return subject_pages.redirect(visited.consent.pk)
    erasure = erasure_of(report)
    if report.erased_at and (erasure is None or erasure.ended_at):
        return render_data(request, visited, "erased", report=report, erasure=erasure)
    return render_data(request, visited, "deletion")


@require_safe
@subject_required
def certificate(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Return the certificate as a PDF (PDF/UA), in the language of the page."""
    erasure = _ended_erasure(visited)
    document = certificate_pdf(erasure, get_language() or "en")
    return attachment(document, f"{erasure.number}.pdf")


@require_safe
@subject_required
def signed_certificate(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Return the signed text of the certificate, with the data to verify it."""
    erasure = _ended_erasure(visited)
    name = f"{erasure.number}.json"
    content = orjson.dumps(signed_members(erasure), option=orjson.OPT_INDENT_2)
    return attachment(content, name, "application/json")


def _ended_erasure(visited: OpenConsent) -> Erasure:
    erasure = erasure_of(visited.consent.report)
    if erasure is None or erasure.ended_at is None:
        raise Http404
    return erasure


class DisputePages(SubjectPages):
    """The page of a form that takes long to fill in; it decides nothing."""

    cookie = replace(SubjectPages.cookie, form_seconds=DAY)


@ASK_OR_DO
@partial(subject_required, pages=DisputePages())
def dispute(request: HttpRequest, visited: OpenConsent, result: UUID) -> HttpResponse:
    """Show the form; a POST opens the correction of this finding."""
    found = CheckResult.objects.select_related("definition", "report").filter(
        pk=result, status=ResultStatus.COMPLETED, disputed_at=None
    )
    wrong = found.first()
    if wrong is None or not _sees(visited, wrong.report):
        return subject_pages.redirect(visited.consent.pk)
    if request.method != "POST":
        return _render_dispute(request, visited, wrong, forms.DisputeForm())
    uploads = request.FILES.getlist("documents")
    is_live = visited.consent.report.workspace.is_live
    form = forms.DisputeForm(request.POST, uploads, is_live=is_live)
    if _is_valid(form, visited.consent, has_documents=bool(uploads)):
        statement = corrections.Statement(
            form.cleaned_data["what"],
            form.cleaned_data["why"],
            get_language() or "en",
        )
        try:
            opened = corrections.open_correction(
                wrong.report_id, wrong.pk, statement, form.files_read
            )
        except (corrections.AlreadyDisputed, corrections.NoFinding):
            return subject_pages.redirect(visited.consent.pk)
        except corrections.TooManyCorrections:
            form.add_error(
                "what", _("You told us of many mistakes today. Go on tomorrow")
            )
        else:
            return _to_correction(visited, opened)
    return _render_dispute(request, visited, wrong, form)


def _is_valid(
    form: forms.DisputeForm, consent: Consent, *, has_documents: bool
) -> bool:
    """Validate the form, which counts for its link, and with documents for the client.

    Each second of their inspection counts as well.
    """
    limits = {f"corrections:{consent.pk}": FORMS_PER_MINUTE}
    if has_documents:
        report = consent.report
        client = f"corrections:{report.workspace_id}:{report.environment}"
        limits[client] = DOCUMENTS_PER_MINUTE
    for subject, limit in limits.items():
        require_rate(subject, limit)
    with rate_limits.count_seconds(*limits):
        return form.is_valid()


@ASK_OR_DO
@subject_required
def show_correction(
    request: HttpRequest, visited: OpenConsent, correction: UUID
) -> HttpResponse:
    """Show how far a correction is; a POST withdraws it."""
    found = Correction.objects.select_related("request", "report", "result__definition")
    row = found.filter(pk=correction).first()
    if row is None or not _sees(visited, row.report):
        return subject_pages.redirect(visited.consent.pk)
    if request.method == "POST":
        # If it is decided, the page says how.
        with suppress(corrections.NotWithdrawable):
            corrections.withdraw(row.pk)
        return _to_correction(visited, row)
    view = correction_view(row, row.report.workspace)
    documents = [document.name for document in row.documents.order_by("id")]
    return render_data(request, visited, "correction", view=view, documents=documents)


def _sees(visited: OpenConsent, report: Report) -> bool:
    """Return whether the visitor's page shows this report, and not that it is gone."""
    own = visited.consent.report
    return own.erased_at is None and access.is_one_of(proof_of(visited), report)


def _to_correction(visited: OpenConsent, correction: Correction) -> HttpResponse:
    arguments = [visited.consent.pk, correction.pk]
    return see_other(reverse("hosted:data-correction", args=arguments))


def _render_dispute(
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
        "numbers": range(1, corrections.MAX_DOCUMENTS + 1),
        "accepted": ACCEPTED,
        "days": settings.SUBJECT_REQUEST_DAYS[RequestKind.CORRECTION],
    }
    context = data_context(visited) | shown
    status = status_of(form)
    page = render_page(request, "data/dispute", context, status)
    if status != 200:
        page["Retry-After"] = str(rate_limits.WINDOW_SECONDS)
    return page


NoticeView = Callable[
    Concatenate[HttpRequest, OpenConsent, AdverseNotice, ...], HttpResponse
]


class NoticeLinks(SubjectPages):
    """The links of notices, which lead to the newest notice of the report."""

    def path_of(self, row: UUID) -> str:
        return f"{super().path_of(row)}notice"

    def visit_by_link(self, generation: int) -> dict[str, Any]:
        """Let the proof lead to the notice, and not to the page of the data."""
        return {**super().visit_by_link(generation), "is_for_notice": True}


open_notice = NoticeLinks().link_view(Consent)


@require_safe
@data_required
def newest_notice(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Lead to the newest notice; from then on the page of the data shows the data."""
    response = subject_pages.store(replace(visited.visit, is_for_notice=False))
    if found := visited.consent.report.notices.order_by("-pk").first():
        response["Location"] = _notice_path(visited, found)
    return response


def notice_required(view: NoticeView) -> View:
    """Let in the subject of the notice; redirect others to their own page."""

    @data_required
    @wraps(view)
    def gated(request: HttpRequest, visited: OpenConsent, notice: UUID) -> HttpResponse:
        rows = AdverseNotice.objects.select_related("decision", "report__workspace")
        found = rows.filter(pk=notice).first()
        if found is None or not access.is_one_of(proof_of(visited), found.report):
            return subject_pages.redirect(visited.consent.pk)
        return view(request, visited, found)

    return gated


@require_safe
@notice_required
def show_notice(
    request: HttpRequest, visited: OpenConsent, notice: AdverseNotice
) -> HttpResponse:
    notices.record_reading(notice, FactKind.OPENED)
    return render_data(request, visited, "notice", **_notice_context(notice))


@require_safe
@notice_required
def download_notice(
    request: HttpRequest, visited: OpenConsent, notice: AdverseNotice
) -> HttpResponse:
    require_rate(f"downloads:{notice.pk}", DOWNLOADS_PER_MINUTE)
    notices.record_reading(notice, FactKind.DOWNLOADED)
    document = notice_pdf(notice, get_language() or "en")
    return attachment(document, f"{notice.number}.pdf")


@require_POST
@notice_required
def ask_for_review(
    request: HttpRequest, visited: OpenConsent, notice: AdverseNotice
) -> HttpResponse:
    request_review(notice.pk)
    return see_other(_notice_path(visited, notice))


def _notice_path(visited: OpenConsent, notice: AdverseNotice) -> str:
    return reverse("hosted:data-notice", args=[visited.consent.pk, notice.pk])


def _notice_context(notice: AdverseNotice) -> dict[str, Any]:
    language = get_language() or "en"
    decision = notice.decision
    disputable = CheckResult.objects.filter(
        pk__in=notice.result_ids, status=ResultStatus.COMPLETED, disputed_at=None
    )
    return {
        "notice": notice,
        "decision": decision,
        "reasons": [reason_text(reason) for reason in decision.reasons],
        "bureaus": notices.bureaus_of(notice),
        "law": notices.law(language),
        "free_copy": notices.free_copy(language),
        "state": state_of(decision),
        "can_be_reviewed": notice.can_be_reviewed and successor_of(decision) is None,
        "results": disputable.select_related("definition"),
        "review_days": settings.SUBJECT_REQUEST_DAYS[RequestKind.REVIEW],
    }
