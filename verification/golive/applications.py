"""Applications to go live: their transitions, members' verbs, the company's report."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import CharField, Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Cast

from verification.backoffice import audit
from verification.backoffice.approvals import DecisionRefused
from verification.backoffice.models import AuditEvent
from verification.checks.models import ResultStatus
from verification.files.inspection import InspectedFile
from verification.files.storage import StoredFile, delete_unused, store
from verification.golive.models import (
    WAITING,
    Application,
    Document,
    DocumentKind,
    Status,
)
from verification.jobs.claims import sweep
from verification.jobs.queue import job
from verification.reports.create import create_reports
from verification.reports.models import Report
from verification.reports.request import (
    InvalidRequest,
    Order,
    RuleContext,
    catalogue,
    read_orders,
)
from verification.values.clock import now
from workspaces.create import operator_account
from workspaces.members import (
    Permission,
    WorkspaceSuspended,
    lock_workspace,
    require_permission,
)
from workspaces.models import Client, Member, Workspace

VERBS = {
    Status.SUBMITTED: "submitted",
    Status.IN_REVIEW: "taken",
    Status.APPROVED: "approved",
    Status.REJECTED: "rejected",
}
# Status -> prefix of the fields with the time and user of the transition.
FIELD_PREFIXES = {
    Status.SUBMITTED: "submitted",
    Status.IN_REVIEW: "taken",
    Status.APPROVED: "decided",
    Status.REJECTED: "decided",
}
# How long details and documents are kept. Of an approved company from the closure or
# suspension of its workspace: the law on money laundering demands seven years of banks.
# Of others from the last change, the rejection, or the suspension.
APPROVED_RETENTION, RETENTION = timedelta(days=7 * 365 + 2), timedelta(days=365)
COMPANY_CHECK = "BUSINESS_VERIFICATION"
# The actor of the company's report.
ACTOR = "go-live"
COPIED_FIELDS = (
    "kind",
    "name",
    "content_type",
    "size",
    "file",
    "data_key",
    "uploaded_by",
)
# Checks the locked application, and returns more fields to write with the status.
Prepare = Callable[[Application], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ActingUser:
    """A user with the actor that the audit trail names."""

    user: User
    actor: audit.Actor


class WrongStatus(DecisionRefused):
    """The application cannot move from the status that it has."""

    def __init__(self, source: str) -> None:
        if source == Status.SUBMITTED:
            why = "the application has to be taken for review first."
        else:
            status = Status(source).label.lower()
            why = f"the application was taken or decided meanwhile. It is {status} now."
        super().__init__(f"Nothing was done: {why}")


class NotEditable(Exception):
    """The workspace has no application that members may edit."""


class NoContact(Exception):
    """The application has no contact for people."""


class Incomplete(Exception):
    """A kind of document is missing."""


def newest_application(workspace: Workspace) -> Application | None:
    return Application.objects.filter(workspace=workspace).order_by("-id").first()


def rejection_reason(workspace: Workspace) -> str:
    """Return the reason of a rejection, until members submit again; else empty."""
    rejected = Application.objects.filter(workspace=workspace, status=Status.REJECTED)
    last = rejected.order_by("-id").first()
    is_open = workspace.go_live == Workspace.GoLive.REJECTED
    return last.reason if last and is_open else ""


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
        details=before.details or {},
    )
    # The copies name the same files.
    for document in before.documents.all():
        copied = {name: getattr(document, name) for name in COPIED_FIELDS}
        Document.objects.create(application=application, **copied)
    _record("begun-again", by, application)
    return application


def upload_document(
    member: Member, kind: DocumentKind, name: str, file: InspectedFile, by: ActingUser
) -> Document:
    """Store a document in place of the one of its kind. Raises NotEditable."""
    require_permission(member, Permission.GO_LIVE)
    stored = store(file.content)
    try:
        with transaction.atomic():
            document = _replace_document(member, kind, name, file, stored)
            _record("document-handed-in", by, document.application, kind)
    except BaseException:
        delete_unused(stored.name, Document)
        raise
    return document


def submit(
    member: Member, by: ActingUser, *, checked_in: str | None = None
) -> Application:
    """Submit the draft, make the workspace a business, and order the company's check.

    The check runs in `checked_in` in place of GO_LIVE_ENVIRONMENT. Raises NotEditable,
    Incomplete, NoContact, WorkspaceSuspended, InsufficientBalance of the operator,
    and InvalidRequest if the details do not make an order.
    """
    require_permission(member, Permission.GO_LIVE)
    environment = checked_in or settings.GO_LIVE_ENVIRONMENT
    draft = newest_application(member.workspace)
    if draft is None or draft.status != Status.DRAFT:
        raise NotEditable

    def prepare(application: Application) -> dict[str, Any]:
        workspace = application.workspace
        if workspace.is_suspended:
            raise WorkspaceSuspended
        if not (application.details or {}).get("publicContact"):
            raise NoContact
        kinds = application.documents.values_list("kind", flat=True)
        if set(kinds) != set(DocumentKind.values):
            raise Incomplete
        workspace.kind = Workspace.Kind.BUSINESS
        workspace.save(update_fields=["kind"])
        return {"report": _order_report(application, environment)}

    return change_status(draft.pk, Status.SUBMITTED, by, prepare)


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
    _delete_documents(application.documents.filter(kind=kind))
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


def _delete_documents(documents: QuerySet[Document]) -> None:
    """Delete the rows, and after the commit the files that no other row names."""
    for name in documents.values_list("file", flat=True):
        transaction.on_commit(partial(delete_unused, name, Document))
    documents.delete()


def _lock_draft(member: Member) -> Application | None:
    """Return the draft, locked, or None. Raises NotEditable during a review."""
    workspace = lock_workspace(member.workspace_id)
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


@transaction.atomic
def change_status(
    application_id: UUID,
    target: Status,
    by: ActingUser,
    prepare: Prepare | None = None,
    *,
    reason: str = "",
) -> Application:
    """Give an application its next status, and record it in the audit trail.

    An approval copies the reviewed names and the contact to the workspace. Raises
    WrongStatus, and the refusals of `prepare`.
    """
    application = lock_application(application_id)
    if target not in Application.TRANSITIONS.get(application.status, ()):
        raise WrongStatus(application.status)
    workspace, prefix = application.workspace, FIELD_PREFIXES[target]
    workspace.go_live = Workspace.GoLive(target.value)
    changed = ["go_live"]
    if target == Status.APPROVED:
        details = application.details
        if details is None:
            raise DecisionRefused("Details and documents are erased. Reject it.")
        names = application.company_name, details.get("tradingName") or ""
        changed += workspace.set_reviewed_names(*names)
        workspace.contact = details["publicContact"]
        changed.append("contact")
    workspace.save(update_fields=changed)
    changes: dict[str, Any] = {
        "status": target,
        f"{prefix}_by": by.user,
        f"{prefix}_at": now(),
        "reason": reason,
        **(prepare(application) if prepare else {}),
    }
    for name, value in changes.items():
        setattr(application, name, value)
    application.save(update_fields=list(changes))
    action = f"{audit.noun(application)}.{VERBS[target]}"
    audit.record(action, by.actor, application, reason=reason)
    return application


def lock_application(application_id: UUID) -> Application:
    """Lock the workspace, then the application, and return the application."""
    workspace = Application.objects.values("workspace").get(pk=application_id)
    owner = lock_workspace(workspace["workspace"])
    application = Application.objects.select_for_update().get(pk=application_id)
    application.workspace = owner
    return application


def can_be_checked(company_name: str, number: str, country: str) -> bool:
    """Return whether the details make an order of the company's check."""
    try:
        _read_order(company_name, number, country, settings.GO_LIVE_ENVIRONMENT)
    except InvalidRequest:
        return False
    return True


def _order_report(application: Application, environment: str) -> Report:
    """Order the company's report, which the operator pays. Raises InvalidRequest."""
    details = application.details or {}
    number, country = details["registrationNumber"], details["country"]
    order = _read_order(application.company_name, number, country, environment)
    account = operator_account(environment)
    client = Client(account.workspace, account, ACTOR)
    return create_reports(client, [order])[0].report


def _read_order(
    company_name: str, number: str, country: str, environment: str
) -> Order:
    item = {
        "subject": {
            "subjectType": "COMPANY",
            "fullName": company_name,
            "registrationNumber": number,
            "country": country,
        },
        "checksRequested": [COMPANY_CHECK],
        "purpose": "Go-live review",
        # The company may have mended its entry in the register since.
        "reuse": False,
    }
    # Without a source the check fails, and staff retry it once there is one.
    context = RuleContext(catalogue(), environment, unanswered=True)
    return read_orders({"reports": [item]}, context)[0]


def is_company_checked(report: Report) -> bool:
    return report.results.get(name=COMPANY_CHECK).status == ResultStatus.COMPLETED


@job
def erase_old_applications() -> None:
    """Erase details and documents whose retention is over; delete drafts."""
    sweep(_expired(now()), _erase)


def _expired(at: datetime) -> QuerySet[Application]:
    before = at - RETENTION
    changes = AuditEvent.objects.filter(
        object_id=Cast(OuterRef("pk"), CharField()), created_at__gte=before
    )
    return Application.objects.filter(
        Q(status=Status.DRAFT, created_at__lt=before) & ~Exists(changes)
        | Q(status=Status.REJECTED, decided_at__lt=before)
        | Q(status__in=WAITING, workspace__suspended_at__lt=before)
        | Q(
            status=Status.APPROVED, workspace__suspended_at__lt=at - APPROVED_RETENTION
        ),
        details__isnull=False,
    )


@transaction.atomic
def _erase(application_id: UUID) -> None:
    application = lock_application(application_id)
    if not _expired(now()).filter(pk=application.pk).exists():
        return
    # The database keeps the documents of an application that has its details.
    Application.objects.filter(pk=application.pk).update(details=None)
    _delete_documents(application.documents.all())
    if application.status == Status.DRAFT:
        application.delete()
