"""What staff do: take an application, run its check again, approve it or reject it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q

from verification.backoffice import audit
from verification.golive.company_report import ACTOR, is_completed
from verification.golive.messages import notify_approved, notify_rejected, owners_of
from verification.golive.models import Application, Status
from verification.golive.status import ActingUser, move
from verification.reports.retry import retry
from workspaces import keys
from workspaces.models import Account, Client, Environment, Member

KEY_NAME = "Production"


class DecisionRefused(Exception):
    """Told to staff as it is."""


class OwnWorkspace(DecisionRefused):
    def __init__(self) -> None:
        super().__init__("You have to do with this workspace: somebody else decides.")


class NotChecked(DecisionRefused):
    def __init__(self) -> None:
        super().__init__("The check of the company has not completed.")


def take(application_id: Any, by: ActingUser) -> Application:
    """Raises InvalidTransition and OwnWorkspace."""
    return move(
        application_id, Status.IN_REVIEW, by, lambda a: _require_outsider(a, by.user)
    )


def approve(application_id: Any, by: ActingUser) -> Application:
    """Make the production key and have it sent. InvalidTransition or Refused."""

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
    """Raises InvalidTransition and OwnWorkspace."""

    def prepare(application: Application) -> dict[str, Any]:
        _require_outsider(application, by.user)
        notify_rejected(application, reason)
        return {}

    return move(application_id, Status.REJECTED, by, prepare, reason=reason)


def check_again(application: Application, actor: str) -> None:
    """Where its source was away. Raises NotRetryable."""
    report = application.report
    assert report is not None  # noqa: S101
    account = Account.objects.select_related("workspace").get(
        workspace=report.workspace_id, environment=report.environment
    )
    retry(Client(account.workspace, account, f"{ACTOR}, {actor}"[:100]), report.pk)


def _require_outsider(application: Application, user: User) -> dict[str, Any]:
    """Raise OwnWorkspace also for somebody who has left the workspace since."""
    if (
        application.submitted_by_id == user.pk
        or application.documents.filter(uploaded_by=user).exists()
    ):
        raise OwnWorkspace
    refuse_insiders(application.workspace_id, user)
    return {}


def refuse_insiders(workspace_id: UUID, user: User) -> None:
    """Raise OwnWorkspace for a member, or another account with a member's address."""
    is_member = Q(user=user)
    if user.email:
        is_member |= Q(user__email__iexact=user.email)
    if Member.objects.filter(is_member, workspace=workspace_id).exists():
        raise OwnWorkspace
