"""Opening an account with the service."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction

from workspaces.ledger import open_accounts
from workspaces.models import Account, Member, Role, Workspace


@transaction.atomic
def create_workspace(
    *,
    name: str,
    owner_email: str,
    kind: Workspace.Kind = Workspace.Kind.BUSINESS,
    billing: Account.Billing = Account.Billing.PREPAID,
    contact: str = "",
) -> Workspace:
    """A workspace with its play money and its real money, billed as told.

    `contact` is what people outside are shown; the owner's address if it is empty.
    """
    workspace = Workspace.objects.create(
        name=name, owner_email=owner_email, kind=kind, contact=contact or owner_email
    )
    open_accounts(workspace, billing=billing)
    return workspace


@transaction.atomic
def create_own_workspace(user: User) -> Workspace:
    """Somebody's own workspace, which they own; they may call it otherwise later."""
    workspace = create_workspace(
        name=user.first_name or "My workspace",
        owner_email=user.email,
        kind=Workspace.Kind.INDIVIDUAL,
    )
    Member.objects.create(workspace=workspace, user=user, role=Role.OWNER)
    return workspace
