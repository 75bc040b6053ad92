"""The roles of staff and their permissions, in one table.

Roles are groups. `write_roles` sets their permissions after every migration, so an edit
of a group in the admin does not last. To let one person do more, give the permission to
that person.

Who of the staff asks for something, and who decides about it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.apps import AppConfig, apps
from django.contrib.auth.models import Group, Permission
from django.db import transaction
from django.http import HttpRequest

VIEW, ACT = ("view",), ("view", "change")
REVEAL = {"backoffice.auditevent": ("reveal_personal",)}
_NOTES = {"workspaces.note": ("view", "add")}

# A report and the rows that its page shows.
_STORY = {
    "reports.report": VIEW,
    "checks.checkresult": VIEW,
    "consents.consent": VIEW,
    "consents.consentrecord": VIEW,
    "references.reference": VIEW,
    "workspaces.workspace": VIEW,
    "workspaces.member": VIEW,
}

# Role: model: permissions. Actions such as "Cancel" need `change`. The rows of history
# have no form, so `change` edits none of them.
ROLES: dict[str, dict[str, tuple[str, ...]]] = {
    "Reviewer": {
        **_STORY,
        **REVEAL,
        **_NOTES,
        "golive.application": ("view", "decide_application"),
        "golive.namechange": VIEW,
        "workspaces.apikey": VIEW,
        "notifications.block": VIEW,
    },
    "Operations": {
        **_STORY,
        **REVEAL,
        **_NOTES,
        "reports.report": ACT,
        "reports.statuschange": VIEW,
        "consents.consent": ACT,
        "references.reference": ACT,
        "payments.payment": ACT,
        "webhooks.configuration": VIEW,
        "webhooks.event": VIEW,
        "webhooks.delivery": ACT,
        "webhooks.attempt": VIEW,
        "monitoring.rule": ACT,
        "monitoring.run": VIEW,
        "monitoring.alert": ACT,
        "notifications.notification": ACT,
        "notifications.block": ACT,
        "sources.source": VIEW,
        "sources.call": ACT,
        "jobs.job": ACT,
        "watchlists.edition": VIEW,
        "django_q.schedule": VIEW,
        "workspaces.workspace": ACT,
        "workspaces.apikey": ACT,
    },
    "Finance": {
        **REVEAL,
        **_NOTES,
        "reports.report": VIEW,
        "checks.checkdefinition": ACT,
        "payments.payment": ACT,
        "payments.checkout": ACT,
        "payments.refund": ACT,
        "payments.paymentevent": VIEW,
        "payments.trouble": VIEW,
        "sources.source": VIEW,
        "sources.call": ACT,
        "workspaces.workspace": VIEW,
        "workspaces.account": ACT,
        "workspaces.ledgerentry": VIEW,
        "workspaces.staffentry": ACT,
    },
}
# The role with all permissions, those over staff and roles included.
SUPERUSER = "Superuser"


def is_superuser(user: Any) -> bool:
    """Return whether a user has all permissions, by the flag or by the role.

    The answer is cached on the user, as Django caches permissions."""
    if user.is_superuser:
        return True
    if not hasattr(user, "_has_superuser_role"):
        user._has_superuser_role = user.groups.filter(name=SUPERUSER).exists()
    return user._has_superuser_role


def write_roles() -> None:
    """Create the group of each role and set its permissions. Keep its members."""
    known = {
        (p.content_type.app_label, p.codename): p
        for p in Permission.objects.select_related("content_type")
    }
    with transaction.atomic():
        for role, models in ROLES.items():
            group, _ = Group.objects.get_or_create(name=role)
            # While versions change, a model of the table may have no permissions yet.
            group.permissions.set(known[n] for n in _names(models) if n in known)
        group, _ = Group.objects.get_or_create(name=SUPERUSER)
        group.permissions.set(known.values())


def after_migrate(app_config: AppConfig, **more: object) -> None:
    """Write the roles once a migration, after the last app.

    Django sends `post_migrate` once for each app and creates the app's permissions
    then. The roles need the permissions of all apps."""
    if app_config is [a for a in apps.get_app_configs() if a.models_module][-1]:
        write_roles()


def _names(models: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    """Return (app label, codename) of each permission in one row of the table."""
    return [
        (label.split(".")[0], what if "_" in what else f"{what}_{label.split('.')[1]}")
        for label, allowed in models.items()
        for what in allowed
    ]


class Staff(NamedTuple):
    """A name can be changed, the id of a user cannot."""

    user: int | None
    name: str


SERVICE = Staff(None, "service")


def staff_of(request: HttpRequest) -> Staff:
    return Staff(request.user.pk, f"staff {request.user.get_username()}"[:100])


def is_another(by: Staff, asked_by_user: int | None) -> bool:
    """Whether this is a second person, whatever either is called by now."""
    return by.user is not None and by.user != asked_by_user
