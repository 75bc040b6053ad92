"""Verbs of members: describe the company, upload documents, submit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction

from verification.backoffice import audit
from verification.golive import documents
from verification.golive.company_report import order_report, request_body
from verification.golive.documents import StoredFile
from verification.golive.inspection import InspectedFile
from verification.golive.models import Application, Document, DocumentKind, Status
from verification.golive.status import ActingUser, lock_application, move
from workspaces.members import Permission, require_permission
from workspaces.models import Member, Workspace


class NotEditable(Exception):
    """The workspace has no application that members may edit."""


class Suspended(Exception):
    """The workspace is suspended."""


class NoContact(Exception):
    """The application has no contact for people."""


@dataclass(slots=True)
class Incomplete(Exception):
    """Documents of these kinds are missing."""

    kinds: list[DocumentKind]


def newest_application(workspace: Workspace) -> Application | None:
    return Application.objects.filter(workspace=workspace).order_by("-id").first()


def rejection_reason(workspace: Workspace) -> str:
    """Return the reason of a rejection, until members submit again; else empty."""
    rejected = Application.objects.filter(workspace=workspace, status=Status.REJECTED)
    last = rejected.order_by("-id").first()
    is_open = workspace.go_live == Workspace.GoLive.REJECTED
    return last.reason if last and is_open else ""


def missing_documents(application: Application) -> list[DocumentKind]:
    given = set(application.documents.values_list("kind", flat=True))
    return [kind for kind in DocumentKind if kind not in given]


@transaction.atomic
def describe_company(
    member: Member, company_name: str, details: dict[str, Any], by: ActingUser
) -> Application:
    """Write the company's details to the draft, or to a new one.

    Raises NotEditable.
    """
    require_permission(member, Permission.GO_LIVE)
    application = _lock_draft(member)
    if application is None:
        is_first = newest_application(member.workspace) is None
        new = Application(workspace=member.workspace)
        application = new if is_first else begin_again(member, by)
    changed = _changed_fields(application, company_name, details)
    application.company_name, application.details = company_name, details
    application.save()
    _record("described", by, application, *changed)
    return application


@transaction.atomic
def begin_again(member: Member, by: ActingUser) -> Application:
    """Create a draft as a copy of the rejected application. Raises NotEditable."""
    require_permission(member, Permission.GO_LIVE)
    if draft := _lock_draft(member):
        return draft
    before = newest_application(member.workspace)
    if before is None:
        raise NotEditable
    application = Application.objects.create(
        workspace=member.workspace,
        company_name=before.company_name,
        details=before.details,
    )
    _copy_documents(before.documents.all(), application)
    _record("begun-again", by, application)
    return application


def upload_document(
    member: Member, kind: DocumentKind, name: str, file: InspectedFile, by: ActingUser
) -> Document:
    """Store a document in place of the one of its kind. Raises NotEditable."""
    require_permission(member, Permission.GO_LIVE)
    stored = documents.store(file.content)
    try:
        with transaction.atomic():
            document = _replace_document(member, kind, name, file, stored)
            _record("document-handed-in", by, document.application, kind)
    except BaseException:
        documents.delete_unused(stored.name)
        raise
    return document


def submit(member: Member, by: ActingUser) -> Application:
    """Submit the draft, make the workspace a business, and order the company's check.

    Raises NotEditable, Incomplete, NoContact, Suspended, and InvalidRequest if the
    details do not make an order.
    """
    require_permission(member, Permission.GO_LIVE)
    draft = newest_application(member.workspace)
    if draft is None or draft.status != Status.DRAFT:
        raise NotEditable

    def prepare(application: Application) -> dict[str, Any]:
        workspace = application.workspace
        if workspace.is_suspended:
            raise Suspended
        if not application.details.get("publicContact"):
            raise NoContact
        if kinds := missing_documents(application):
            raise Incomplete(kinds)
        workspace.kind = Workspace.Kind.BUSINESS
        workspace.save(update_fields=["kind"])
        return {
            "report": order_report(
                request_body(application), settings.GO_LIVE_ENVIRONMENT
            )
        }

    return move(draft.pk, Status.SUBMITTED, by, prepare)


def _replace_document(
    member: Member,
    kind: DocumentKind,
    name: str,
    file: InspectedFile,
    stored: StoredFile,
) -> Document:
    application = _lock_draft(member)
    if application is None:
        raise NotEditable
    replaced = application.documents.filter(kind=kind)
    for name_in_storage in replaced.values_list("file", flat=True):
        transaction.on_commit(partial(documents.delete_unused, name_in_storage))
    replaced.delete()
    return Document.objects.create(
        application=application,
        kind=kind,
        name=name,
        content_type=file.content_type,
        size=len(file.content),
        file=stored.name,
        data_key=stored.data_key,
        uploaded_by=member.user,
    )


def _lock_draft(member: Member) -> Application | None:
    """Return the draft, locked, or None. Raises NotEditable during a review."""
    workspaces = Workspace.objects.select_for_update(no_key=True)
    workspace = workspaces.get(pk=member.workspace_id)
    if workspace.go_live == Workspace.GoLive.APPROVED:
        # An operator may have approved it without an application.
        raise NotEditable
    newest = newest_application(workspace)
    if newest is None or newest.status == Status.REJECTED:
        return None
    draft = lock_application(newest.pk)
    if draft.status != Status.DRAFT:
        raise NotEditable
    return draft


def _changed_fields(
    before: Application, company_name: str, details: dict[str, Any]
) -> list[str]:
    old = before.details or {}
    changed = [name for name in details if details[name] != old.get(name)]
    return ["companyName"] * (before.company_name != company_name) + changed


def _record(what: str, by: ActingUser, application: Application, *fields: str) -> None:
    action = f"{audit.noun(application)}.{what}"
    audit.record(action, by.actor, application, fields=fields)


def _copy_documents(files: Iterable[Document], application: Application) -> None:
    """Copy the rows of documents, which name the same files."""
    for before in files:
        Document.objects.create(
            application=application,
            kind=before.kind,
            name=before.name,
            content_type=before.content_type,
            size=before.size,
            file=before.file,
            data_key=before.data_key,
            uploaded_by=before.uploaded_by,
        )
