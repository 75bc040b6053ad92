"""Mails about decisions. Only the longest-standing owner gets the key."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.urls import reverse

from verification.golive.models import Application, NameChange
from verification.notifications.models import BILINGUAL, Channel, Kind
from verification.notifications.outbox import OutgoingMessage, notify
from workspaces.models import Member, Role, full_name


def notify_approved(application: Application, key: str) -> None:
    """Send the key to an owner, and a mail without it to the others.

    Only this message holds the key, sealed, until it is sent.
    """
    owner, *others = _recipients(application.workspace_id, application.submitted_by_id)
    context = {**_context(application, "keys"), "key": key}
    notify(
        _mail(application, Kind.GO_LIVE_KEY, owner, context),
        *(
            _mail(application, Kind.GO_LIVE_APPROVED, one, _context(application, ""))
            for one in others
        ),
    )


def notify_rejected(application: Application, reason: str) -> None:
    context = {**_context(application, "golive"), "reason": reason}
    notify(
        *(
            _mail(application, Kind.GO_LIVE_REJECTED, one, context)
            for one in _recipients(
                application.workspace_id, application.submitted_by_id
            )
        )
    )


def notify_name_decided(change: NameChange) -> None:
    context = {
        "wanted": full_name(change.legal_name, change.trading_name),
        "isApproved": change.status == NameChange.Status.APPROVED,
        "reason": change.reason,
        "operator": settings.OPERATOR_NAME,
        "url": _url(change.workspace_id, "settings-name"),
    }
    notify(
        *(
            _mail(change, Kind.GO_LIVE_NAME, one, context)
            for one in _recipients(change.workspace_id, change.asked_by_id)
        )
    )


def owners_of(workspace_id: UUID) -> list[User]:
    """Return the active owners, the longest-standing first."""
    return [m.user for m in _members(workspace_id) if m.role == Role.OWNER]


def _recipients(workspace_id: UUID, requester: int | None) -> list[User]:
    """Return the owners and the requester."""
    owners = owners_of(workspace_id)
    return owners + [
        m.user
        for m in _members(workspace_id)
        if m.user_id == requester and m.user not in owners
    ]


def _members(workspace_id: UUID) -> QuerySet[Member]:
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
        # The language of the recipients is not known.
        language=BILINGUAL,
        workspace_id=about.workspace_id,
    )


def _context(application: Application, page: str) -> dict[str, Any]:
    return {
        "workspace": application.workspace.name,
        "company": application.company_name,
        "operator": settings.OPERATOR_NAME,
        "url": _url(application.workspace_id, page or "dashboard"),
    }


def _url(workspace_id: UUID, page: str) -> str:
    path = reverse(f"console:{page}", args=[workspace_id, "production"])
    return f"{settings.BASE_URL}{path}"
