"""Verbs of staff: take, approve or reject an application, and retry its check."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction

from verification.backoffice import audit
from verification.backoffice.approvals import DecisionRefused, is_second_person
from verification.golive.company_report import ACTOR, is_completed
from verification.golive.messages import notify_approved, notify_rejected, owners_of
from verification.golive.models import Application, Status
from verification.golive.status import ActingUser, move
from verification.reports.retry import retry
from verification.reports.status import NotRetryable
from workspaces import keys
from workspaces.models import Account, Client, Environment, Member

KEY_NAME = "Production"


class OwnWorkspace(DecisionRefused):
    def __init__(self) -> None:
        super().__init__("You have to do with this workspace: somebody else decides.")


class NotChecked(DecisionRefused):
    def __init__(self) -> None:
        super().__init__("The check of the company has not completed.")


def take(application_id: Any, by: ActingUser) -> Application:
    """Take an application for review. Raises InvalidTransition and OwnWorkspace."""
    return move(
        application_id, Status.IN_REVIEW, by, lambda a: _require_outsider(a, by.user)
    )


def approve(application_id: Any, by: ActingUser) -> Application:
    """Approve an application, create the production key, and send it to an owner.

    Raises InvalidTransition, and DecisionRefused with the reason.
    """

    def prepare(application: Application) -> dict[str, Any]:
        _require_outsider(application, by.user)
        if application.workspace.is_suspended:
            raise DecisionRefused("The workspace is suspended.")
        if not application.report or not is_completed(application.report):
            raise NotChecked
        if not owners_of(application.workspace_id):
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

    return move(application_id, Status.APPROVED, by, prepare)


def reject(application_id: Any, by: ActingUser, reason: str) -> Application:
    """Reject an application. Raises InvalidTransition and OwnWorkspace."""

    def prepare(application: Application) -> dict[str, Any]:
        _require_outsider(application, by.user)
        notify_rejected(application, reason)
        return {}

    return move(application_id, Status.REJECTED, by, prepare, reason=reason)


@transaction.atomic
def check_again(application_id: Any, by: ActingUser) -> None:
    """Retry the failed check of the company. Raises DecisionRefused."""
    application = Application.objects.select_related("report").get(pk=application_id)
    report = application.report
    assert report is not None  # noqa: S101
    account = Account.objects.select_related("workspace").get(
        workspace=report.workspace_id, environment=report.environment
    )
    actor = f"{ACTOR}, {by.user.get_username()}"[:100]
    client = Client(account.workspace, account, actor)
    try:
        retry(client, report.pk)
    except NotRetryable as e:
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
