"""The workspace of whoever runs the service: what it orders, it pays for itself."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.db import transaction

from workspaces.ledger import open_accounts
from workspaces.models import Account, Workspace

# No id that is made is this one, as they begin with the time.
OPERATOR_ID = UUID("00000000-0000-7000-8000-000000000001")


def check_operator(**options: Any) -> list[CheckMessage]:
    """What `manage.py check` says of who runs the service; the app registers it."""
    if settings.OPERATOR_CONTACT.strip():
        return []
    told = "OPERATOR_CONTACT is not set; people would not know whom to ask."
    hint = (
        "Set OPERATOR_CONTACT to the e-mail address or phone number at which people "
        "ask about their details; every page, mail and receipt shows it."
    )
    return [Error(told, hint=hint, id="workspaces.E001")]


@transaction.atomic
def operator_account(environment: str) -> Account:
    """Opened when it is first asked for; two who ask at once get the same."""
    workspace, is_new = Workspace.objects.get_or_create(
        pk=OPERATOR_ID,
        defaults={
            "name": settings.OPERATOR_NAME[:200],
            "owner_email": settings.DEFAULT_FROM_EMAIL,
            "contact": settings.OPERATOR_CONTACT,
            "kind": Workspace.Kind.BUSINESS,
        },
    )
    if is_new:
        open_accounts(workspace, billing=Account.Billing.POSTPAID)
    accounts = Account.objects.select_related("workspace")
    return accounts.get(workspace=workspace, environment=environment)
