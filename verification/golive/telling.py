"""Mails of what was decided. The key goes to the owner alone."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.urls import reverse

from verification.golive.models import Application
from verification.notifications.models import BOTH, Channel, Kind
from verification.notifications.notifying import Wanted, notify
from workspaces.models import Member, Role


def tell_approved(application: Application, key: str) -> None:
    """Its message is the only place that has the key, sealed, until it is sent."""
    owner, *others = _told(application)
    sent = {**_context(application, "keys"), "key": key}
    notify(
        _mail(application, Kind.GO_LIVE_KEY, owner, sent),
        *(
            _mail(application, Kind.GO_LIVE_APPROVED, one, _context(application, ""))
            for one in others
        ),
    )


def tell_rejected(application: Application, reason: str) -> None:
    told = {**_context(application, "golive"), "reason": reason}
    notify(
        *(
            _mail(application, Kind.GO_LIVE_REJECTED, one, told)
            for one in _told(application)
        )
    )


def owners_of(application: Application) -> list[User]:
    """Who has owned it longest comes first."""
    return [m.user for m in _members(application) if m.role == Role.OWNER]


def _told(application: Application) -> list[User]:
    """The owners, and who applied."""
    owners = owners_of(application)
    applied = application.submitted_by_id
    return owners + [
        m.user
        for m in _members(application)
        if m.user_id == applied and m.user not in owners
    ]


def _members(application: Application) -> QuerySet[Member]:
    found = Member.objects.select_related("user").order_by("created_at", "id")
    return found.filter(workspace=application.workspace_id, user__is_active=True)


def _mail(
    application: Application, kind: Kind, user: User, context: dict[str, Any]
) -> Wanted:
    return Wanted(
        kind,
        Channel.EMAIL,
        cause=f"go-live:{kind.value}:{application.pk}:{user.pk}",
        recipient=user.email,
        context=context,
        # Which language its owners read is not known.
        language=BOTH,
        workspace_id=application.workspace_id,
    )


def _context(application: Application, page: str) -> dict[str, Any]:
    place = [application.workspace_id, "production"]
    path = reverse(f"console:{page or 'dashboard'}", args=place)
    return {
        "workspace": application.workspace.name,
        "company": application.company_name,
        "operator": settings.OPERATOR_NAME,
        "url": f"{settings.BASE_URL}{path}",
    }
