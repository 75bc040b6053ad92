"""Name changes of an approved workspace: members request them, staff decide."""

from typing import Any

from django.db import transaction

from verification.backoffice import audit
from verification.backoffice.approvals import DecisionRefused
from verification.golive.applications import ActingUser
from verification.golive.models import NameChange
from verification.golive.review import notify_name_decided, require_outsider
from verification.values.clock import now
from workspaces.members import Permission, lock_workspace, require_permission
from workspaces.models import Member, Workspace

Status = NameChange.Status


class Unchanged(Exception):
    """The workspace has these names already."""


def waiting_change(workspace: Workspace) -> NameChange | None:
    return workspace.name_changes.filter(status=Status.WAITING).first()


def newest_change(workspace: Workspace) -> NameChange | None:
    return workspace.name_changes.order_by("-id").first()


@transaction.atomic
def request_name_change(
    member: Member, legal_name: str, trading_name: str, note: str, by: ActingUser
) -> NameChange:
    """Request a change, and withdraw one that waits.

    Raises NotAllowed and Unchanged.
    """
    require_permission(member, Permission.MANAGE_SETTINGS)
    workspace = lock_workspace(member.workspace_id)
    if not workspace.requester.is_reviewed:
        raise ValueError("owners rename a workspace that is not approved themselves")
    if (legal_name, trading_name) == (workspace.legal_name, workspace.trading_name):
        raise Unchanged
    _withdraw(workspace, by)
    change = NameChange.objects.create(
        workspace=workspace,
        legal_name=legal_name,
        trading_name=trading_name,
        note=note,
        asked_by=by.user,
    )
    audit.record(f"{audit.noun(change)}.requested", by.actor, change)
    return change


@transaction.atomic
def withdraw_name_change(member: Member, by: ActingUser) -> bool:
    """Withdraw the change that waits. Returns False if there is none."""
    require_permission(member, Permission.MANAGE_SETTINGS)
    return _withdraw(lock_workspace(member.workspace_id), by)


@transaction.atomic
def approve_name_change(change_id: Any, by: ActingUser) -> NameChange:
    """Approve a change: pages show the new names. Raises DecisionRefused."""
    change = _decide(change_id, Status.APPROVED, by)
    workspace = change.workspace
    names = workspace.set_reviewed_names(change.legal_name, change.trading_name)
    workspace.save(update_fields=names)
    return change


@transaction.atomic
def reject_name_change(change_id: Any, by: ActingUser, reason: str) -> NameChange:
    """Reject a change; pages keep the old names. Raises DecisionRefused."""
    return _decide(change_id, Status.REJECTED, by, reason)


def _decide(
    change_id: Any, status: Status, by: ActingUser, reason: str = ""
) -> NameChange:
    workspaces = NameChange.objects.values_list("workspace_id", flat=True)
    workspace = lock_workspace(workspaces.get(pk=change_id))
    change = NameChange.objects.select_related("asked_by").get(pk=change_id)
    change.workspace = workspace
    if change.status != Status.WAITING:
        raise DecisionRefused("The change was decided or withdrawn meanwhile.")
    require_outsider(workspace.pk, by.user, [change.asked_by_id])
    change.status, change.reason = status, reason
    change.decided_by, change.decided_at = by.user, now()
    change.save()
    action = f"{audit.noun(change)}.{status.lower()}"
    audit.record(action, by.actor, change, reason=reason)
    notify_name_decided(change)
    return change


def _withdraw(workspace: Workspace, by: ActingUser) -> bool:
    change = waiting_change(workspace)
    if change is None:
        return False
    change.status = Status.WITHDRAWN
    change.save(update_fields=["status"])
    audit.record(f"{audit.noun(change)}.withdrawn", by.actor, change)
    return True
