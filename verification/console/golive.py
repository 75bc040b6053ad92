"""Going live: describe the company, upload documents, submit, read the decision."""

from __future__ import annotations

from time import monotonic
from typing import Any
from uuid import UUID

from allauth.mfa.utils import is_mfa_enabled
from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy
from django.views.decorators.http import require_POST

from verification.backoffice import audit
from verification.console import forms
from verification.console.base import (
    Place,
    member_required,
    too_often,
    with_retry_after,
)
from verification.console.templatetags.console import slug
from verification.files.storage import download
from verification.files.uploads import status_of
from verification.golive import applications
from verification.golive.applications import InvalidTransition, newest_application
from verification.golive.models import Application, Document, DocumentKind, Status
from verification.reports.request import InvalidRequest
from workspaces import rate_limits
from workspaces.members import Permission
from workspaces.models import Workspace

STATES: dict[str, Any] = {
    "": gettext_lazy("Not begun"),
    Status.DRAFT: gettext_lazy("Being filled in"),
    Status.SUBMITTED: gettext_lazy("Waiting for a review"),
    Status.IN_REVIEW: gettext_lazy("In review"),
    Status.APPROVED: pgettext_lazy("application", "Approved"),
    Status.REJECTED: gettext_lazy("Rejected"),
}
# A file counts once, and once more for each second of its inspection.
DOCUMENTS_PER_MINUTE = 30
EDITABLE_STATUSES = {None, Status.DRAFT, Status.REJECTED}


@member_required(Permission.SEE_ADMINISTRATION)
def overview(place: Place) -> HttpResponse:
    application = newest_application(place.workspace)
    given = {d.kind: d for d in application.documents.all()} if application else {}
    status = application.status if application else ""
    if place.workspace.go_live == Workspace.GoLive.APPROVED:
        status = Status.APPROVED
    shown = {
        "application": application,
        "status": status,
        "state": STATES[status],
        "reason": applications.rejection_reason(place.workspace),
        "documents": [
            (kind, label, given.get(kind))
            for kind, label in forms.DOCUMENT_LABELS.items()
        ],
        "needs_factor": not is_mfa_enabled(place.member.user),
        "is_draft": status in {"", Status.DRAFT},
        "is_complete": bool(application) and len(given) == len(forms.DOCUMENT_LABELS),
    }
    return place.render("golive/overview", shown)


@member_required(Permission.GO_LIVE)
def company(place: Place) -> HttpResponse:
    application = newest_application(place.workspace)
    is_live = place.workspace.go_live == Workspace.GoLive.APPROVED
    if is_live or not _is_editable(application):
        return _refuse_change(place)
    initial = forms.initial_of(application) if application else {}
    form = forms.CompanyForm(place.posted, initial=initial)
    if form.is_valid():
        name = form.cleaned_data["company_name"]
        try:
            applications.describe_company(place.member, name, form.details, place.by)
        except applications.NotEditable:
            return _refuse_change(place)
        return place.to("golive", success=_("Saved."))
    return place.render("golive/company", {"form": form})


@member_required(Permission.GO_LIVE)
def upload_document(place: Place, kind: str) -> HttpResponse:
    """Take an uploaded document; `kind` is the slug of a DocumentKind."""
    document_kind = next((k for k in DocumentKind if slug(k) == kind), None)
    if document_kind is None:
        raise Http404
    application = newest_application(place.workspace)
    if application is None or application.status != Status.DRAFT:
        return _refuse_change(place)
    if place.request.method == "POST":
        if _is_rate_limited(place, 1):
            return too_often(place)
        form = forms.DocumentForm(place.request.POST, place.request.FILES)
    else:
        form = forms.DocumentForm()
    start = monotonic()
    is_valid = form.is_valid()
    if seconds := int(monotonic() - start):
        _is_rate_limited(place, seconds)
    if is_valid:
        upload = form.cleaned_data["file"]
        try:
            applications.upload_document(
                place.member, document_kind, upload.name, upload.file, place.by
            )
        except applications.NotEditable:
            return _refuse_change(place)
        return place.to("golive", success=_("The document is kept."))
    shown = {"form": form, "label": forms.DOCUMENT_LABELS[document_kind]}
    status = status_of(form)
    page = place.render("golive/hand_in", shown, status)
    return page if status == 200 else with_retry_after(page)


@member_required(Permission.GO_LIVE)
def document(place: Place, document: UUID) -> HttpResponse:
    """Return a document of the workspace, and record it in the audit trail."""
    mine = Document.objects.select_related("application")
    found = mine.get(pk=document, application__workspace=place.workspace)
    read = f"{audit.noun(found.application)}.document-read"
    place.record(read, found.application, found.kind)
    return download(found, slug(found.kind))


@require_POST
@member_required(Permission.GO_LIVE)
def begin_again(place: Place) -> HttpResponse:
    try:
        applications.begin_again(place.member, place.by)
    except applications.NotEditable:
        return _refuse_change(place)
    return place.to("golive")


@member_required(Permission.GO_LIVE)
def submit(place: Place) -> HttpResponse:
    application = newest_application(place.workspace)
    if application is None or application.status != Status.DRAFT:
        return _refuse_change(place)
    form = forms.SubmissionForm(place.posted)
    if form.is_valid():
        return _submit(place)
    return place.render("golive/submit", {"form": form, "application": application})


def _is_rate_limited(place: Place, by: int) -> bool:
    """Count files or seconds; return whether user or workspace exceeds the limit."""
    subjects = (place.member.user_id, place.workspace.pk)
    counted = [
        rate_limits.count(f"documents:{s}", DOCUMENTS_PER_MINUTE, by) for s in subjects
    ]
    return any(rate.exceeded for rate in counted)


def _submit(place: Place) -> HttpResponse:
    try:
        applications.submit(place.member, place.by)
    except applications.Incomplete:
        error = _("A document is missing.")
    except applications.NoContact:
        error = _("Say in the company's part where people reach you.")
    except InvalidRequest:
        error = _("The company cannot be checked as it is described. Correct it.")
    except applications.Suspended:
        error = _("It cannot be changed now.")
    except (applications.NotEditable, InvalidTransition):
        error = _("It is submitted already.")
    else:
        success = _("It is submitted. We write to you when it is decided.")
        return place.to("golive", success=success)
    return place.to("golive", error=error)


def _is_editable(application: Application | None) -> bool:
    return (application and application.status) in EDITABLE_STATUSES


def _refuse_change(place: Place) -> HttpResponse:
    return place.to("golive", error=_("It cannot be changed now."))
