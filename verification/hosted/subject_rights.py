"""The subject's pages to object, to have everything deleted, and to ask for the rest.

They lie behind the gate of `subject_data`. A page asks before each step; the page after
it stays readable with the same link, as an erased report names nobody.
"""

from __future__ import annotations

import orjson
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import get_language
from django.views.decorators.http import require_safe

from verification.hosted.consent_page import OpenConsent
from verification.hosted.hosted_pages import (
    ASK_OR_DO,
    see_other,
)
from verification.hosted.subject_data import (
    data_required,
    proof_of,
    render_data,
    subject_pages,
    subject_required,
)
from verification.privacy.certificates import certificate_pdf, signed_members
from verification.privacy.erasure import (
    ErasureHeld,
    erasure_of,
    request_erasure,
    waiting_erasure,
)
from verification.privacy.joins import ask_to_join, newest_join, waits_for_answer
from verification.privacy.models import Erasure, Origin
from verification.privacy.objections import object_to_use
from verification.privacy.people import Person, is_held
from verification.reports.status import SUBJECT_ACTOR
from verification.web.pages import attachment


@ASK_OR_DO
@subject_required
def objection(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Ask, then restrict all reports about the subject at this client."""
    report, path = visited.consent.report, subject_pages.path_of(visited.consent.pk)
    if report.erased_at:
        return see_other(path)
    if request.method != "POST":
        return render_data(request, visited, "objection")
    object_to_use(
        report.pk,
        Origin.SUBJECT,
        requested_by=SUBJECT_ACTOR,
        channel=visited.visit.proved_channel(visited.consent),
    )
    return see_other(f"{path}objected")


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
    """Ask, then request the erasure; the next page shows its progress."""
    report, path = visited.consent.report, subject_pages.path_of(visited.consent.pk)
    if report.erased_at or waiting_erasure(report):
        return see_other(f"{path}deletion")
    if request.method != "POST":
        return render_data(request, visited, "delete")
    try:
        request_erasure(
            report.pk,
            Origin.SUBJECT,
            requested_by=SUBJECT_ACTOR,
            channel=visited.visit.proved_channel(visited.consent),
        )
    except ErasureHeld:
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
