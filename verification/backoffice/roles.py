"""The roles of staff and their permissions, in one table.

Roles are groups. `write_roles` sets their permissions after every migration, so an edit
of a group in the admin does not last. A single person can get more permissions on
**System → Staff**.
"""

from typing import Any

from django.apps import AppConfig, apps
from django.contrib.auth.models import Group, Permission
from django.db import transaction

VIEW, CHANGE = ("view",), ("view", "change")
ENTER = ("view", "add", "change")
REVEAL = {"backoffice.auditevent": ("reveal_personal",)}
_NOTES = {"workspaces.note": ("view", "add")}

# A report and the rows that its page shows.
_REPORT_PAGE = {
    "reports.report": VIEW,
    "checks.checkresult": VIEW,
    "consents.consent": VIEW,
    "consents.consentrecord": VIEW,
    "decisions.decision": VIEW,
    "references.reference": VIEW,
    "workspaces.workspace": VIEW,
    "workspaces.member": VIEW,
}

# Role: model: permissions. Actions such as "Cancel" need `change`. Read-only pages have
# no form, so `change` allows only their actions.
ROLES: dict[str, dict[str, tuple[str, ...]]] = {
    "Reviewer": {
        **_REPORT_PAGE,
        **REVEAL,
        **_NOTES,
        "golive.application": ("view", "decide_application"),
        "golive.namechange": VIEW,
        "workspaces.apikey": VIEW,
        "workspaces.brand": CHANGE,
        "notifications.block": VIEW,
        "privacy.subjectrequest": VIEW,
        "privacy.correction": CHANGE,
    },
    "Operations": {
        **_REPORT_PAGE,
        **REVEAL,
        **_NOTES,
        "reports.report": CHANGE,
        "reports.statuschange": VIEW,
        "consents.consent": CHANGE,
        "references.reference": CHANGE,
        "payments.payment": CHANGE,
        "webhooks.configuration": VIEW,
        "webhooks.event": VIEW,
        "webhooks.delivery": CHANGE,
        "webhooks.attempt": VIEW,
        "monitoring.rule": CHANGE,
        "monitoring.run": VIEW,
        "monitoring.alert": CHANGE,
        "notifications.notification": CHANGE,
        "notifications.block": CHANGE,
        "sources.source": VIEW,
        "sources.call": CHANGE,
        "jobs.job": CHANGE,
        "watchlists.edition": VIEW,
        "django_q.schedule": VIEW,
        "workspaces.workspace": CHANGE,
        "workspaces.apikey": CHANGE,
        "workspaces.brand": CHANGE,
        "privacy.subjectrequest": VIEW,
        "privacy.correction": CHANGE,
        "privacy.hold": VIEW,
        "privacy.erasure": VIEW,
        "privacy.retentionrun": VIEW,
    },
    "Finance": {
        **REVEAL,
        **_NOTES,
        "reports.report": VIEW,
        "checks.checkdefinition": CHANGE,
        "checks.checkpackage": ENTER,
        "payments.payment": CHANGE,
        "payments.checkout": CHANGE,
        "payments.refund": CHANGE,
        "payments.dispute": VIEW,
        "payments.paymentevent": VIEW,
        "payments.operatoralert": VIEW,
        "sources.source": VIEW,
        "sources.call": CHANGE,
        "workspaces.workspace": VIEW,
        "workspaces.account": CHANGE,
        "workspaces.ledgerentry": VIEW,
        "workspaces.staffentry": CHANGE,
    },
    # The data protection officer, who reads the audit trail too.
    "Privacy officer": {
        **_REPORT_PAGE,
        **_NOTES,
        "backoffice.auditevent": ("view", "reveal_personal"),
        "notifications.block": VIEW,
        "privacy.subjectrequest": ENTER,
        "privacy.correction": CHANGE,
        "privacy.hold": ENTER,
        "privacy.disclosure": VIEW,
        "privacy.erasure": VIEW,
        "privacy.stafferasure": ENTER,
        "privacy.retentionrun": VIEW,
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
