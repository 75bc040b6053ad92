"""Writing the audit trail, in the transaction of what it tells of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Model
from django.http import HttpRequest
from django.utils.text import slugify

from verification.addresses import client_address
from verification.backoffice import security_log
from verification.backoffice.models import ActorKind, AuditEvent
from verification.request_ids import current_id

LONGEST = 500
# By what a row that names no workspace is reached from one that does.
OWNERS = ("report", "account", "checkout")


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts; `address` is where from, where somebody asked for it."""

    kind: ActorKind
    name: str
    address: str | None = None


SERVICE = Actor(ActorKind.SERVICE, "service")


def actor_of(request: HttpRequest, user: Any = None) -> Actor:
    """The person who is logged in, or whom the page itself knows."""
    user = user or request.user
    kind = ActorKind.STAFF if user.is_staff else ActorKind.MEMBER
    address = client_address(request)
    return Actor(kind, user.get_username(), str(address) if address else None)


def record(
    action: str,
    actor: Actor,
    obj: Model,
    *,
    workspace_id: UUID | None = None,
    fields: Sequence[str] = (),
    reason: str = "",
) -> AuditEvent:
    """The workspace is that of `obj`, or of what it belongs to, where none is given."""
    security_log.log.info(
        "audit",
        extra={
            "action": action,
            "actor_kind": actor.kind,
            "account": security_log.account_of(actor.name),
            "object_type": obj._meta.label_lower,
            "object_id": str(obj.pk),
            "address": actor.address,
        },
    )
    return AuditEvent.objects.create(
        actor_kind=actor.kind,
        actor=actor.name,
        action=action,
        object_type=obj._meta.label_lower,
        object_id=str(obj.pk),
        workspace_id=workspace_id or workspace_of(obj),
        fields=list(fields),
        reason=reason[:LONGEST],
        request_id=current_id(),
        address=actor.address,
    )


def noun(obj: Model) -> str:
    """What an action is of: `api-key`, `webhook-configuration`."""
    return slugify(str(obj._meta.verbose_name))


def workspace_of(obj: Model) -> UUID | None:
    if obj._meta.label == "workspaces.Workspace":
        return obj.pk
    if found := getattr(obj, "workspace_id", None):
        return found
    for owner in OWNERS:
        if above := getattr(obj, owner, None):
            return workspace_of(above)
    return None
