"""The workspace of whoever runs the service: what it orders, it pays for itself."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.db import transaction

from workspaces.ledger import open_accounts
from workspaces.models import Account, Workspace

# No id that is made is this one, as they begin with the time.
OPERATOR_ID = UUID("00000000-0000-7000-8000-000000000001")


@transaction.atomic
def operator_account(environment: str) -> Account:
    """Opened when it is first asked for; two who ask at once get the same."""
    workspace, is_new = Workspace.objects.get_or_create(
        pk=OPERATOR_ID,
        defaults={
            "name": settings.OPERATOR_NAME[:200],
            "owner_email": settings.DEFAULT_FROM_EMAIL,
            "kind": Workspace.Kind.BUSINESS,
        },
    )
    if is_new:
        open_accounts(workspace, billing=Account.Billing.POSTPAID)
    accounts = Account.objects.select_related("workspace")
    return accounts.get(workspace=workspace, environment=environment)
