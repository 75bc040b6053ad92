"""Staff's decisions on applications, and the mails about them.

Only the longest-standing owner gets the production key.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet

from verification.backoffice import audit
from verification.backoffice.approvals import DecisionRefused, is_second_person
from verification.golive.applications import (
    ACTOR,
    ActingUser,
    change_status,
    is_company_checked,
)
from verification.golive.models import Application, NameChange, Status
from verification.links import console_url
from verification.notifications.models import Channel, Kind
from verification.notifications.outbox import OutgoingMessage, notify
from verification.reports.launch import retry
from verification.reports.status import NotRetryable
from workspaces import keys
from workspaces.ledger import InsufficientBalance
from workspaces.models import Client, Environment, Member, Role, full_name

KEY_NAME = "Production"


class OwnWorkspace(DecisionRefused):
    def __init__(self) -> None:
        super().__init__(
            "Another person must decide: you, or an account with your e-mail address, "
            "belong to this workspace or made the request."
        )


def take(application_id: Any, by: ActingUser) -> Application:
    """Take an application for review. Raises WrongStatus and OwnWorkspace."""
    return change_status(
        application_id, Status.IN_REVIEW, by, lambda a: _require_outsider(a, by.user)
    )


def approve(application_id: Any, by: ActingUser) -> Application:
    """Approve an application, create the production key, and send it to an owner.

    Raises WrongStatus, and DecisionRefused with the reason.
    """

    def prepare(application: Application) -> dict[str, Any]:
        _require_outsider(application, by.user)
        if application.workspace.is_suspended:
            raise DecisionRefused("The workspace is suspended.")
        if not application.report or not is_company_checked(application.report):
            raise DecisionRefused("The check of the company has not completed.")
        if not _active_members(application.workspace_id).filter(role=Role.OWNER):
            raise DecisionRefused(
                "The workspace has no owner whom the key could be sent to."
            )
        key, text = keys.issue(
            application.workspace,
            environment=Environment.PRODUCTION,
            name=KEY_NAME,
        )
        audit.record(f"{audit.noun(key)}.created", by.actor, key)
        notify_approved(application, text)
        return {"api_key": key}

    return change_status(application_id, Status.APPROVED, by, prepare)


def reject(application_id: Any, by: ActingUser, reason: str) -> Application:
    """Reject an application. Raises WrongStatus and OwnWorkspace."""

    def prepare(application: Application) -> dict[str, Any]:
        _require_outsider(application, by.user)
        notify_rejected(application, reason)
        return {}

    return change_status(application_id, Status.REJECTED, by, prepare, reason=reason)


@transaction.atomic
def check_again(application_id: Any, by: ActingUser) -> None:
    """Retry the failed check of the company. Raises DecisionRefused."""
    found = Application.objects.select_related("report__workspace")
    application = found.get(pk=application_id)
    report = application.report
    assert report is not None  # noqa: S101
    actor = f"{ACTOR}, {by.user.get_username()}"[:100]
    client = Client.of(report.workspace, report.environment, actor)
    try:
        retry(client, report.pk)
    except (NotRetryable, InsufficientBalance) as e:
        raise DecisionRefused(str(e)) from e
    action = f"{audit.noun(application)}.checked-again"
    audit.record(action, by.actor, application)


def _require_outsider(application: Application, user: User) -> dict[str, Any]:
    """Raise OwnWorkspace for insiders, and for submitter and uploaders who left."""
    uploaders = application.documents.values_list("uploaded_by_id", flat=True)
    requesters = [application.submitted_by_id, *uploaders]
    require_outsider(application.workspace_id, user, requesters)
    return {}


def require_outsider(
    workspace_id: UUID, user: User, requesters: Iterable[int | None]
) -> None:
    """Raise OwnWorkspace for members, requesters, and accounts with their address."""
    members = Member.objects.filter(workspace=workspace_id)
    insiders = {*members.values_list("user_id", flat=True), *requesters}
    if not is_second_person(user.pk, insiders):
        raise OwnWorkspace


def notify_approved(application: Application, key: str) -> None:
    """Send the key to an owner, and a mail without it to the others.

    Only this message holds the key, sealed, until it is sent.
    """
    owner, *others = _recipients(application, application.submitted_by_id)
    context = _context(application, "dashboard")
    key_context = {**_context(application, "keys"), "key": key}
    notify(
        _mail(application, Kind.GO_LIVE_KEY, owner, key_context),
        *(_mail(application, Kind.GO_LIVE_APPROVED, user, context) for user in others),
    )


def notify_rejected(application: Application, reason: str) -> None:
    context = {**_context(application, "golive"), "reason": reason}
    users = _recipients(application, application.submitted_by_id)
    notify(
        *(_mail(application, Kind.GO_LIVE_REJECTED, user, context) for user in users)
    )


def notify_name_decided(change: NameChange) -> None:
    context = {
        "wanted": full_name(change.legal_name, change.trading_name),
        "isApproved": change.status == NameChange.Status.APPROVED,
        "reason": change.reason,
        "url": console_url("settings-name", change.workspace_id, "production"),
    }
    users = _recipients(change, change.asked_by_id)
    notify(*(_mail(change, Kind.GO_LIVE_NAME, user, context) for user in users))


def _recipients(about: Application | NameChange, requester: int | None) -> list[User]:
    """Return the owners, the longest-standing first, and then the requester."""
    members = list(_active_members(about.workspace_id))
    others = [m for m in members if m.user_id == requester and m.role != Role.OWNER]
    return [m.user for m in members if m.role == Role.OWNER] + [m.user for m in others]


def _active_members(workspace_id: UUID) -> QuerySet[Member]:
    members = Member.objects.select_related("user").order_by("created_at", "id")
    return members.filter(workspace=workspace_id, user__is_active=True)


def _mail(
    about: Application | NameChange, kind: Kind, user: User, context: dict[str, Any]
) -> OutgoingMessage:
    return OutgoingMessage(
        kind,
        Channel.EMAIL,
        cause=f"go-live:{kind.value}:{about.pk}:{user.pk}",
        recipient=user.email,
        context=context,
        workspace_id=about.workspace_id,
    )


def _context(application: Application, page: str) -> dict[str, Any]:
    return {
        "workspace": application.workspace.name,
        "company": application.company_name,
        "url": console_url(page, application.workspace_id, "production"),
    }
