"""The security log: one JSON line for each attempt to get in and each act on the trail.

An account that was only typed stands as a keyed hash: people type passwords there, too.

Writing the audit trail, in the transaction of what it tells of.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Model
from django.http import HttpRequest
from django.utils.text import slugify

from verification.backoffice.models import ActorKind, AuditEvent
from verification.db.encryption import keyed_hash
from verification.web.client_address import client_address
from verification.web.request_log import current_request_id

log = logging.getLogger("verification.security")


def write_security_log(
    event: str, outcome: str, request: HttpRequest | None = None, **more: Any
) -> None:
    """Write a line; `outcome` is accepted, refused or locked-out."""
    address = client_address(request) if request is not None else None
    log.log(
        logging.INFO if outcome == "accepted" else logging.WARNING,
        event,
        extra={
            "outcome": outcome,
            "address": str(address) if address else None,
            **more,
        },
    )


def account_hash(typed: str) -> str:
    """Return a name for what somebody typed as an account, alike for alike accounts."""
    return str(UUID(bytes=keyed_hash("account", typed.strip().casefold())[:16]))


MAX_REASON_LENGTH = 500
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
    log.info(
        "audit",
        extra={
            "action": action,
            "actor_kind": actor.kind,
            "account": account_hash(actor.name),
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
        reason=reason[:MAX_REASON_LENGTH],
        request_id=current_request_id(),
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
