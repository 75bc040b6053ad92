"""Transitions of an application, and of its workspace's `go_live` with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.utils.timezone import now

from verification.backoffice import audit
from verification.backoffice.approvals import DecisionRefused
from verification.golive.models import Application, Status
from workspaces.models import Workspace

VERBS = {
    Status.SUBMITTED: "submitted",
    Status.IN_REVIEW: "taken",
    Status.APPROVED: "approved",
    Status.REJECTED: "rejected",
}
# Status: prefix of the fields for time and user of the transition.
STAMPS = {
    Status.SUBMITTED: "submitted",
    Status.IN_REVIEW: "taken",
    Status.APPROVED: "decided",
    Status.REJECTED: "decided",
}
# Checks the locked application, and returns more fields to write with the status.
Prepare = Callable[[Application], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ActingUser:
    """A user with the actor that the audit trail names."""

    user: User
    actor: audit.Actor


class InvalidTransition(DecisionRefused):
    def __init__(self, source: str) -> None:
        if source == Status.SUBMITTED:
            why = "the application has to be taken for review first."
        else:
            status = Status(source).label.lower()
            why = f"the application was taken or decided meanwhile. It is {status} now."
        super().__init__(f"Nothing was done: {why}")


def lock_application(application_id: UUID) -> Application:
    """Lock the workspace, then the application, and return the application."""
    applications = Application.objects.all()
    workspace_id = applications.values_list("workspace_id", flat=True)
    owner = Workspace.objects.select_for_update(no_key=True).get(
        pk=workspace_id.get(pk=application_id)
    )
    application = applications.select_for_update().get(pk=application_id)
    application.workspace = owner
    return application


@transaction.atomic
def move(
    application_id: UUID,
    target: Status,
    by: ActingUser,
    prepare: Prepare | None = None,
    *,
    reason: str = "",
) -> Application:
    """Give an application its next status, and record it in the audit trail.

    An approval copies the reviewed names and the contact to the workspace. Raises
    InvalidTransition, and the refusals of `prepare`.
    """
    application = lock_application(application_id)
    if target not in Application.TRANSITIONS.get(application.status, ()):
        raise InvalidTransition(application.status)
    workspace, stamp = application.workspace, STAMPS[target]
    workspace.go_live = Workspace.GoLive(target.value)
    changed = ["go_live"]
    if target == Status.APPROVED:
        details = application.details
        names = application.company_name, details.get("tradingName") or ""
        changed += workspace.set_reviewed_names(*names)
        workspace.contact = details["publicContact"]
        changed.append("contact")
    workspace.save(update_fields=changed)
    changes: dict[str, Any] = {
        "status": target,
        f"{stamp}_by": by.user,
        f"{stamp}_at": now(),
        **({"reason": reason} if target == Status.REJECTED else {}),
        **(prepare(application) if prepare else {}),
    }
    for name, value in changes.items():
        setattr(application, name, value)
    application.save(update_fields=list(changes))
    action = f"{audit.noun(application)}.{VERBS[target]}"
    audit.record(action, by.actor, application, reason=reason)
    return application
