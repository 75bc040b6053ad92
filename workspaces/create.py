"""Create workspaces with their accounts: of customers, and the operator's own."""

from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from verification.db.ids import uuid7
from verification.values.public_text import find_text_fault
from workspaces.ledger import open_accounts
from workspaces.models import Account, Member, Role, Workspace

# uuid7() never returns this id, as its ids begin with the time.
OPERATOR_ID = UUID("00000000-0000-7000-8000-000000000001")


@transaction.atomic
def create_workspace(
    *,
    name: str,
    owner_email: str,
    kind: Workspace.Kind = Workspace.Kind.BUSINESS,
    billing: Account.Billing = Account.Billing.PREPAID,
    contact: str = "",
    workspace_id: UUID | None = None,
) -> Workspace:
    """Create a workspace with its two accounts.

    People outside see `contact`; it is the owner's address if it is empty.
    """
    workspace = Workspace.objects.create(
        pk=workspace_id or uuid7(),
        name=name,
        owner_email=owner_email,
        kind=kind,
        contact=contact or owner_email,
    )
    open_accounts(workspace, billing=billing)
    return workspace


@transaction.atomic
def create_own_workspace(user: User) -> Workspace:
    """Create a workspace that the user owns, under the user's name if it may be one."""
    name = user.first_name
    if not name or find_text_fault(name):
        name = "My workspace"
    workspace = create_workspace(
        name=name,
        owner_email=user.email,
        kind=Workspace.Kind.INDIVIDUAL,
    )
    Member.objects.create(workspace=workspace, user=user, role=Role.OWNER)
    return workspace


@transaction.atomic
def operator_account(environment: str) -> Account:
    """Return the operator's account, and create its workspace at the first call.

    The operator pays from it for the reports that the service itself orders.
    """
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
