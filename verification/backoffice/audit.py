"""The audit trail, and the security log.

`record` writes an audit event in the transaction of the change. The security log has
one JSON line for each audit event and each attempt to log in. It names an account by a
keyed hash, because people type passwords into the field of the account, too.
"""

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
from verification.web.request import client_address, current_request_id

log = logging.getLogger("verification.security")


def write_security_log(
    event: str, outcome: str, request: HttpRequest | None = None, **more: Any
) -> None:
    """Write a line. `outcome` is accepted, refused, slowed or locked-out."""
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


def account_hash(account: str) -> str:
    """Return the keyed hash that names an account in the log, as a UUID."""
    return str(UUID(bytes=keyed_hash("account", account.strip().casefold())[:16]))


MAX_REASON_LENGTH = 500
# Fields that lead from a row without a workspace to a row with one.
OWNERS = ("report", "account", "checkout")


@dataclass(frozen=True, slots=True)
class Actor:
    """The person, key or job of an audit event, and the client's address, if any."""

    kind: ActorKind
    name: str
    address: str | None = None


SERVICE = Actor(ActorKind.SERVICE, "service")


def actor_of(request: HttpRequest, user: Any = None) -> Actor:
    """Return the user as an actor; the default is the user who is logged in."""
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
    """Write an audit event about a row, and its line in the security log.

    `fields` are names of fields that the actor changed or saw. Without `workspace_id`,
    the event names the workspace of the row or of its owner.
    """
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
    """Return the noun of an action: `api-key`, `webhook-configuration`."""
    return slugify(str(obj._meta.verbose_name))


def workspace_of(obj: Model) -> UUID | None:
    if obj._meta.label == "workspaces.Workspace":
        return obj.pk
    if workspace_id := getattr(obj, "workspace_id", None):
        return workspace_id
    for name in OWNERS:
        if owner := getattr(obj, name, None):
            return workspace_of(owner)
    return None
