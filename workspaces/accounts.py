"""Opening an account with the service."""

from __future__ import annotations

from django.db import transaction

from workspaces.ledger import open_accounts
from workspaces.models import Account, Workspace


@transaction.atomic
def create_workspace(
    *,
    name: str,
    owner_email: str,
    kind: Workspace.Kind = Workspace.Kind.BUSINESS,
    billing: Account.Billing = Account.Billing.PREPAID,
) -> Workspace:
    """A workspace with its play money and its real money, billed as told."""
    workspace = Workspace.objects.create(name=name, owner_email=owner_email, kind=kind)
    open_accounts(workspace, billing=billing)
    return workspace
