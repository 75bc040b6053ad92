"""How a workspace goes live: its company, its documents, and what comes of it."""

from __future__ import annotations

from time import monotonic
from typing import Any
from uuid import UUID

from allauth.mfa.utils import is_mfa_enabled
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from verification.backoffice import audit
from verification.console.base import Place, opened
from verification.console.golive_forms import KINDS, Company, File, Submission
from verification.console.templatetags.console import slug
from verification.golive import applications
from verification.golive.applications import newest
from verification.golive.documents import download
from verification.golive.models import Application, Document, DocumentKind, Status
from verification.golive.status import InvalidTransition
from verification.reports.request import InvalidRequest
from verification.values.wire import one_line
from workspaces import rate_limits
from workspaces.members import Permission
from workspaces.models import Workspace

GO_LIVE = Permission.GO_LIVE
STATES: dict[str, Any] = {
    "": gettext_lazy("Not begun"),
    Status.DRAFT: gettext_lazy("Being filled in"),
    Status.SUBMITTED: gettext_lazy("Waiting for a review"),
    Status.IN_REVIEW: gettext_lazy("In review"),
    Status.APPROVED: gettext_lazy("Approved"),
    Status.REJECTED: gettext_lazy("Rejected"),
}
# A file counts once, and once more for each second that we look into it.
DOCUMENTS_PER_MINUTE = 30
EDITED = {None, Status.DRAFT, Status.REJECTED}


@opened()
def overview(place: Place) -> HttpResponse:
    application = newest(place.workspace)
    given = {d.kind: d for d in application.documents.all()} if application else {}
    status = application.status if application else ""
    if place.workspace.go_live == Workspace.GoLive.APPROVED:
        status = Status.APPROVED
    shown = {
        "application": application,
        "status": status,
        "state": STATES[status],
        "reason": applications.refusal(place.workspace),
        "documents": [(kind, label, given.get(kind)) for kind, label in KINDS.items()],
        "needs_factor": not is_mfa_enabled(place.member.user),
        "is_draft": status in {"", Status.DRAFT},
        "is_complete": bool(application) and len(given) == len(KINDS),
    }
    return place.show("golive/overview", shown)


@opened(GO_LIVE)
def company(place: Place) -> HttpResponse:
    application = newest(place.workspace)
    is_live = place.workspace.go_live == Workspace.GoLive.APPROVED
    if is_live or not _is_edited(application):
        return _over(place)
    kept = {}
    if application:
        kept = Company.typed(application.company_name, application.details)
    form = Company(place.request.POST or None, initial=kept)
    if place.request.method == "POST" and form.is_valid():
        name = form.cleaned_data["company_name"]
        try:
            applications.describe(place.member, name, form.details, place.by)
        except applications.NotEditable:
            return _over(place)
        messages.success(place.request, _("Saved."))
        return place.to("golive")
    return place.show("golive/company", {"form": form})


@opened(GO_LIVE)
def hand_in(place: Place, kind: str) -> HttpResponse:
    wanted = next((k for k in DocumentKind if slug(k) == kind), None)
    if wanted is None:
        raise Http404
    application = newest(place.workspace)
    if application is None or application.status != Status.DRAFT:
        return _over(place)
    sends = place.request.method == "POST"
    if sends and _counts(place, 1):
        return _retried(render(place.request, "429.html", status=429))
    form = File(place.request.POST, place.request.FILES) if sends else File()
    begun = monotonic()
    is_valid = sends and form.is_valid()
    if seconds := int(monotonic() - begun):
        _counts(place, seconds)
    if is_valid:
        name = one_line(form.cleaned_data["file"].name)[-150:]
        try:
            applications.hand_in(place.member, wanted, name, form.found, place.by)
        except applications.NotEditable:
            return _over(place)
        messages.success(place.request, _("The document is kept."))
        return place.to("golive")
    shown = {"form": form, "label": KINDS[wanted]}
    page = place.show("golive/hand_in", shown, form.status)
    return page if form.status == 200 else _retried(page)


@opened(GO_LIVE)
def document(place: Place, document: UUID) -> HttpResponse:
    """One of their own, for who may hand them in."""
    mine = Document.objects.select_related("application")
    found = mine.get(pk=document, application__workspace=place.workspace)
    read = f"{audit.noun(found.application)}.document-read"
    place.record(read, found.application, found.kind)
    return download(found, slug(found.kind))


@require_POST
@opened(GO_LIVE)
def again(place: Place) -> HttpResponse:
    try:
        applications.begin_again(place.member, place.by)
    except applications.NotEditable:
        return _over(place)
    return place.to("golive")


@opened(GO_LIVE)
def submit(place: Place) -> HttpResponse:
    application = newest(place.workspace)
    if application is None or application.status != Status.DRAFT:
        return _over(place)
    sends = place.request.method == "POST"
    form = Submission(place.request.POST) if sends else Submission()
    if sends and form.is_valid():
        if _submitted(place):
            told = _("It is submitted. We write to you when it is decided.")
            messages.success(place.request, told)
        return place.to("golive")
    return place.show("golive/submit", {"form": form, "application": application})


def _counts(place: Place, by: int) -> bool:
    """Count files, or seconds that they took; True over the account's or workspace's
    limit."""
    subjects = (place.member.user_id, place.workspace.pk)
    counted = [
        rate_limits.count(f"documents:{s}", DOCUMENTS_PER_MINUTE, by) for s in subjects
    ]
    return any(rate.exceeded for rate in counted)


def _retried(response: HttpResponse) -> HttpResponse:
    response["Retry-After"] = str(rate_limits.WINDOW_SECONDS)
    return response


def _submitted(place: Place) -> bool:
    told = ""
    try:
        applications.submit(place.member, place.by)
    except applications.Incomplete:
        told = _("A document is missing.")
    except applications.NoContact:
        told = _("Say in the company's part where people reach you.")
    except InvalidRequest:
        told = _("The company cannot be checked as it is described. Correct it.")
    except applications.Suspended:
        told = _("It cannot be changed now.")
    except (applications.NotEditable, InvalidTransition):
        told = _("It is submitted already.")
    if told:
        messages.error(place.request, told)
    return not told


def _is_edited(application: Application | None) -> bool:
    return (application and application.status) in EDITED


def _over(place: Place) -> HttpResponse:
    messages.error(place.request, _("It cannot be changed now."))
    return place.to("golive")
