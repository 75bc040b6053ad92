"""The pages of a referee's link: look up, call one verb, lead back to the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import get_language
from django.views.decorators.http import require_safe

from verification import links
from verification.addresses import client_address, user_agent
from verification.checks.events import consent_status_of
from verification.consents.models import RetiredLink
from verification.hosted.blocks import block_page
from verification.hosted.cookies import VisitCookie
from verification.hosted.forms import Reason
from verification.hosted.pages import (
    answer,
    client_of,
    document,
    hosted,
    opening,
    qr_code,
    see_other,
)
from verification.hosted.reference_form import Answers
from verification.hosted.retired import retired_link
from verification.notifications.models import Channel
from verification.ordering import referring
from verification.receipts import reference_receipt_pdf
from verification.references.models import Reference
from verification.references.notices import Notice, notice_for
from verification.wire import one_line

TIMEZONE = "Africa/Nairobi"
# Longer than for subjects: a referee may have to look things up.
COOKIE = VisitCookie("/r/v/", "hosted.reference", seconds=4 * 3600)
ASKED = "asked"
RECEIPTS = {"submitted", "declined"}
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


def _opened(request: HttpRequest, reference_id: UUID) -> Opened | None:
    generation = COOKIE.value_of(request, reference_id)
    rows = Reference.objects.select_related("report__workspace", "report__consent")
    reference = rows.filter(pk=reference_id).first() if generation else None
    if reference is None:
        return None
    closed = referring.closed_as(reference, reference.report, generation)
    return Opened(reference, generation, *PAGES[closed])


opened = opening(
    COOKIE, _opened, over="reference/over", overtaken=(referring.ReferenceClosed,)
)


@require_safe
@hosted
def open_link(request: HttpRequest, token: str) -> HttpResponse:
    """Take the token out of the address bar; nothing else happens."""
    digest = links.digest(token)
    found = Reference.objects.filter(token_digest=digest).only("id", "generation")
    if reference := found.first():
        return _onward(reference.pk, reference.generation)
    if retired := retired_link(RetiredLink.Purpose.REFERENCE, digest):
        return _onward(retired.row_id, retired.generation)
    return answer(request, "unknown", status=404)


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
    evidence = _evidence(request, reference)
    if request.POST.get("shown") != evidence.notice["noticeSha256"]:
        # Other words than those that the referee has read.
        return page(request, visited, ASKED, form=form, changed=True)
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
    reason, evidence = form.cleaned_data["reason"], _evidence(request, reference)
    referring.decline(reference.pk, visited.generation, evidence, reason)
    return to_page(reference.pk)


@opened
def block(request: HttpRequest, visited: Opened) -> HttpResponse:
    reference = visited.reference
    if visited.page == "replaced":
        return to_page(reference.pk)
    email = (reference.report.subject or {}).get("refereeEmail")
    addresses = [(Channel.EMAIL.value, email)] if email else []
    return block_page(
        request, reference.report, addresses, COOKIE.path_of(reference.pk)
    )


@require_safe
@opened
def receipt(request: HttpRequest, visited: Opened) -> HttpResponse:
    """What was done, as a PDF."""
    reference = visited.reference
    if visited.page not in RECEIPTS:
        return to_page(reference.pk)
    name = f"receipt-{reference.number}.pdf"
    return document(reference_receipt_pdf(reference), name)


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
        **client_of(reference.report.workspace),
        "timezone": TIMEZONE,
        "stop": visited.page != "replaced"
        and reverse("reference:block", args=[reference.pk]),
    }
    if visited.page in RECEIPTS:
        url = links.reference_url(reference.pk, visited.generation)
        context |= {"url": url, "qr": qr_code(url)}
    if visited.page == ASKED:
        subject = reference.report.subject or {}
        context |= {
            "name": subject.get("fullName", ""),
            "employer": subject.get("employerName", ""),
            "notice": (notice := _notice(reference)),
            "names": notice.names,
            "form": Answers(initial={"name": one_line(subject.get("refereeName", ""))}),
        }
    return answer(request, f"reference/{name}", context | more, status)


def to_page(reference_id: UUID) -> HttpResponse:
    return see_other(COOKIE.path_of(reference_id))


def _onward(reference_id: UUID, generation: int) -> HttpResponse:
    response = to_page(reference_id)
    COOKIE.remember(response, reference_id, generation)
    return response


def _notice(reference: Reference) -> Notice:
    status = consent_status_of(reference.report)
    return notice_for(reference, status, get_language() or "en")


def _evidence(request: HttpRequest, reference: Reference) -> referring.Evidence:
    return referring.Evidence(
        address=str(client_address(request) or ""),
        user_agent=user_agent(request),
        language=get_language() or "en",
        notice=_notice(reference).kept,
    )
