"""The subject's pages: their own data, for a visitor who proves to be the subject.

Their addresses begin with that of the consent page, whose link and visit they share.
`subject_required` asks for proof: the challenge and, if the report has an address, a
code.
"""

from __future__ import annotations

from datetime import datetime
from functools import wraps
from typing import Any
from uuid import UUID

import orjson
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from verification.consents.links import ACCESSIBLE_STATUSES, opens_data
from verification.consents.models import Consent, challenge_for_consent
from verification.consents.subject_messages import code_channels
from verification.documents.pdf import render_document
from verification.hosted import subject_data_page
from verification.hosted.consent import (
    ConsentPages,
    Context,
    OpenConsent,
    ProofViews,
    Stage,
    Visit,
    count_steps,
    page_context,
    pages,
)
from verification.hosted.hosted_pages import (
    VisitedView,
    client_context,
    render_page,
    require_rate,
    see_other,
)
from verification.privacy import access
from verification.privacy.models import RequestKind
from verification.privacy.people import Proof
from verification.reports.models import Report
from verification.values.clock import now
from verification.web.pages import View, attachment, read_id
from workspaces.models import Environment

# The limit for one report's subject: each download reads all of their reports.
DOWNLOADS_PER_MINUTE = 10
MAX_REPORTS_IN_PDF = 100

TEMPLATES = {Stage.EXPIRED: "data/expired", Stage.UNPROVED: "data/unproved"}


class SubjectPages(ConsentPages):
    """The pages where a subject sees their data and uses their rights."""

    def path_of(self, row: UUID) -> str:
        return f"{super().path_of(row)}data/"

    def stage_of(self, consent: Consent, visit: Visit) -> Stage:
        return data_stage(consent, visit, now())


subject_pages = SubjectPages()
proofs = ProofViews(subject_pages)


def data_stage(consent: Consent, visit: Visit, at: datetime) -> Stage:
    """Return DATA, the missing proof, or why the link opens no data.

    CANCELLED stands for a request that is still open, which has no such pages.
    """
    if visit.generation != consent.generation or consent.expires_at is None:
        return Stage.REPLACED
    if not opens_data(consent, at):
        is_late = consent.status in ACCESSIBLE_STATUSES
        return Stage.EXPIRED if is_late else Stage.CANCELLED
    if consent.report.erased_at:
        return Stage.DATA
    challenge = challenge_for_consent(consent)
    if challenge and not visit.is_confirmed(consent):
        if consent.is_locked_for_good:
            return Stage.LOCKED_FOR_GOOD
        return Stage.LOCKED if consent.is_locked(at) else Stage.CHALLENGE
    if visit.proved_channel(consent):
        return Stage.DATA
    if not code_channels(consent):
        # A link alone proves nothing: the client may have passed it on to anybody.
        return Stage.DATA if challenge else Stage.UNPROVED
    if consent.is_locked_for_good:
        return Stage.LOCKED_FOR_GOOD
    return Stage.LOCKED if consent.is_locked(at) else Stage.CODE


@subject_pages.read
def show(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Show the subject's data, or the next step of the proof."""
    if visited.stage == Stage.CANCELLED:
        return see_other(pages.path_of(visited.consent.pk))
    if visited.stage == Stage.DATA:
        return _show_data(request, visited)
    context = page_context(request, visited) | _proof_paths(visited)
    template = TEMPLATES.get(visited.stage, visited.stage.value)
    return render_page(request, template, context, visited.status)


def _show_data(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    report = visited.consent.report
    if report.erased_at:
        return render_data(request, visited, "erased", report=report)
    if visited.visit.is_for_notice:
        return see_other(
            reverse("hosted:data-newest-notice", args=[visited.consent.pk])
        )
    access.record_access(report, RequestKind.ACCESS)
    # The report at which the page before ended
    older_than = read_id(request.GET.get("older-than", ""))
    # One more than fit on a page, to know whether another follows
    most = subject_data_page.CHECKS_PER_PAGE + 1
    known = access.reports_of(proof_of(visited), older_than)[:most]
    shown = subject_data_page.first_page(known)
    found = access.load_reports(shown, now())
    return render_data(
        request,
        visited,
        "found",
        found=[subject_data_page.report_view(one, is_short=True) for one in found],
        is_first=older_than is None,
        older=shown[-1].pk if len(shown) < len(known) else None,
    )


def subject_required(view: VisitedView[OpenConsent]) -> View:
    """Let in a visitor who is proved to be the subject; send others to the proof.

    The view gets the request, the OpenConsent and the rest of the address. The data may
    be erased: `visited.consent.report.erased_at`.
    """

    @subject_pages.visit_required
    @wraps(view)
    def gated(request: HttpRequest, visited: OpenConsent, **rest: Any) -> HttpResponse:
        if visited.stage != Stage.DATA:
            return subject_pages.redirect(visited.consent.pk)
        return view(request, visited, **rest)

    return gated


def data_required(view: VisitedView[OpenConsent]) -> View:
    """Like `subject_required`; the page of an erased report says that it is erased."""

    @subject_required
    @wraps(view)
    def gated(request: HttpRequest, visited: OpenConsent, **rest: Any) -> HttpResponse:
        if visited.consent.report.erased_at:
            return subject_pages.redirect(visited.consent.pk)
        return view(request, visited, **rest)

    return gated


@require_safe
@data_required
def pdf(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Return the data as a PDF (PDF/UA), in the language of the page."""
    report = _require_download(visited)
    at = now()
    known = access.reports_of(proof_of(visited))
    shown = known[:MAX_REPORTS_IN_PDF]
    found = access.load_reports(shown, at)
    access.record_access(report, RequestKind.ACCESS)
    data = subject_data_page.document(found, at, is_all=len(known) == len(shown))
    document = render_document("subject_data.typ", at, data)
    return attachment(document, "my-data.pdf")


@require_safe
@data_required
def json(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Return the data for programs: the right to portability."""
    report = _require_download(visited)
    at = now()
    found = access.load_reports(access.reports_of(proof_of(visited)), at)
    access.record_access(report, RequestKind.PORTABILITY)
    content = orjson.dumps(access.as_json(found, at), option=orjson.OPT_INDENT_2)
    return attachment(content, "my-data.json", "application/json")


def _require_download(visited: OpenConsent) -> Report:
    report = visited.consent.report
    require_rate(f"downloads:{report.pk}", DOWNLOADS_PER_MINUTE)
    return report


def proof_of(visited: OpenConsent) -> Proof:
    """Return the visitor's proof: the report, and the address of the code."""
    channel = visited.visit.proved_channel(visited.consent)
    return Proof.of(visited.consent.report, channel)


def data_context(visited: OpenConsent) -> Context:
    """Return what all pages behind the gate show."""
    report = visited.consent.report
    return {
        "consent_id": visited.consent.pk,
        "data_path": subject_pages.path_of(visited.consent.pk),
        **client_context(report.workspace, report.environment),
        "is_test": report.environment == Environment.SANDBOX,
    }


def render_data(
    request: HttpRequest, visited: OpenConsent, name: str, **shown: Any
) -> HttpResponse:
    """Render a template of `hosted/data` behind the gate."""
    return render_page(request, f"data/{name}", data_context(visited) | shown)


def _proof_paths(visited: OpenConsent) -> Context:
    row = [visited.consent.pk]
    return {
        "is_access": True,
        "confirm_path": reverse("hosted:data-confirm", args=row),
        "send_code_path": reverse("hosted:data-send-code", args=row),
        "code_path": reverse("hosted:data-code", args=row),
        "steps": count_steps(visited.consent),
    }
