"""The pages of a referee's link: look up, call one verb, lead back to the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import get_language
from django.views.decorators.http import require_safe

from verification import links
from verification.addresses import client_address
from verification.hosted.forms import Reason
from verification.hosted.pages import answer, hosted
from verification.hosted.reference_form import Answers
from verification.hosted.reference_visits import generation_of, path_of, remember
from verification.ordering import referring
from verification.references.models import Reference

TIMEZONE = "Africa/Nairobi"
USER_AGENT_LENGTH = 500
ASKED = "asked"
# What `closed_as` says -> page and status.
PAGES = {
    None: (ASKED, 200),
    "SUBMITTED": ("submitted", 200),
    "DECLINED": ("declined", 200),
    "EXPIRED": ("expired", 410),
    "REPLACED": ("replaced", 410),
    "REPORT_ENDED": ("ended", 410),
}


@dataclass(frozen=True, slots=True)
class Opened:
    """A reference, opened by the link of this generation in this browser."""

    reference: Reference
    generation: int
    page: str
    status: int


View = Callable[..., HttpResponse]
OpenedView = Callable[[HttpRequest, Opened], HttpResponse]


def opened(view: OpenedView) -> View:
    """Hand over the reference that this browser's link opened."""

    @hosted
    @wraps(view)
    def shown(request: HttpRequest, reference_id: UUID) -> HttpResponse:
        generation = generation_of(request, reference_id)
        rows = Reference.objects.select_related("report__workspace")
        reference = rows.filter(pk=reference_id).first() if generation else None
        if generation is None or reference is None:
            return answer(request, "reference/over", status=403)
        closed = referring.closed_as(reference, reference.report, generation)
        try:
            return view(request, Opened(reference, generation, *PAGES[closed]))
        except referring.ReferenceClosed:
            # It went another way meanwhile: the page tells how.
            return to_page(reference_id)

    return shown


@require_safe
@hosted
def open_link(request: HttpRequest, token: str) -> HttpResponse:
    """Take the token out of the address bar; nothing else happens."""
    found = Reference.objects.filter(token_digest=links.digest(token))
    reference = found.only("id", "generation").first()
    if reference is None:
        return answer(request, "unknown", status=404)
    response = to_page(reference.pk)
    remember(response, reference.pk, reference.generation)
    return response


@require_safe
@opened
def show(request: HttpRequest, visited: Opened) -> HttpResponse:
    return page(request, visited, visited.page, visited.status)


@opened
def submit(request: HttpRequest, visited: Opened) -> HttpResponse:
    reference = visited.reference
    if request.method != "POST" or visited.page != ASKED:
        return to_page(reference.pk)
    form = Answers(request.POST)
    if not form.is_valid():
        return page(request, visited, ASKED, form=form)
    evidence = _evidence(request)
    referring.submit(reference.pk, visited.generation, form.answers(), evidence)
    return to_page(reference.pk)


@opened
def decline(request: HttpRequest, visited: Opened) -> HttpResponse:
    """Asks why, which need not be answered, and then does it."""
    reference = visited.reference
    if visited.page != ASKED:
        return to_page(reference.pk)
    form = Reason(request.POST if request.method == "POST" else None)
    if not form.is_valid():
        return page(request, visited, "decline", form=form)
    reason = form.cleaned_data["reason"]
    referring.decline(reference.pk, visited.generation, _evidence(request), reason)
    return to_page(reference.pk)


def page(
    request: HttpRequest,
    visited: Opened,
    name: str,
    status: int = 200,
    **more: Any,
) -> HttpResponse:
    """One of `templates/hosted/reference`; names the person only while it asks."""
    reference = visited.reference
    context = {
        "reference": reference,
        "client": reference.report.workspace.name,
        "timezone": TIMEZONE,
    }
    if visited.page == ASKED:
        subject = reference.report.subject or {}
        context |= {
            "name": subject.get("fullName", ""),
            "employer": subject.get("employerName", ""),
            "form": Answers(initial={"name": subject.get("refereeName", "")}),
        }
    return answer(request, f"reference/{name}", context | more, status)


def to_page(reference_id: UUID) -> HttpResponse:
    """See Other: what follows is a GET whatever this was."""
    response = HttpResponseRedirect(path_of(reference_id))
    response.status_code = 303
    return response


def _evidence(request: HttpRequest) -> referring.Evidence:
    return referring.Evidence(
        address=str(client_address(request) or ""),
        user_agent=request.headers.get("User-Agent", "")[:USER_AGENT_LENGTH],
        language=get_language() or "en",
    )
