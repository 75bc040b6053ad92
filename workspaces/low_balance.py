"""Telling owners once, before what they have paid in advance is used up."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Case, Exists, F, OuterRef, QuerySet, When
from django.utils.timezone import now

from verification.jobs.queue import job
from verification.links import top_up_url
from verification.notifications.models import Channel, Kind
from verification.notifications.outbox import OutgoingMessage, notify
from verification.values.wire import utc_text
from workspaces.models import Account, LedgerEntry

# As `Account.spendable`.
SPENDABLE = F("balance") + Case(
    When(billing=Account.Billing.PREPAID, then=F("credit_limit")),
    When(billing=Account.Billing.POSTPAID, then=F("ceiling")),
)


@job
def notify_low_balances() -> None:
    """Any number of these may run at once; nobody is told of one crossing twice."""
    told = Account.objects.filter(low_balance_notified_at__isnull=False)
    told.exclude(pk__in=_low_accounts()).update(low_balance_notified_at=None)
    charges = LedgerEntry.objects.filter(
        account=OuterRef("pk"), kind=LedgerEntry.Kind.CHARGE
    )
    # Who never bought anything expects no balance.
    low = _low_accounts().filter(
        Exists(charges), low_balance_notified_at=None, workspace__suspended_at=None
    )
    for account_id in list(low.values_list("pk", flat=True)):
        _notify_owner(account_id)


def _low_accounts() -> QuerySet[Account]:
    """Accounts that can spend no more than the owner wants to be told at."""
    accounts = Account.objects.alias(left=SPENDABLE)
    return accounts.filter(left__lte=F("low_balance_at"))


@transaction.atomic
def _notify_owner(account_id: UUID) -> None:
    moment = now()
    untold = _low_accounts().filter(pk=account_id, low_balance_notified_at=None)
    if not untold.update(low_balance_notified_at=moment):
        return
    account = Account.objects.select_related("workspace").get(pk=account_id)
    notify(
        OutgoingMessage(
            Kind.LOW_BALANCE,
            Channel.EMAIL,
            cause=f"low-balance:{account.pk}:{utc_text(moment)}",
            recipient=account.workspace.contact_email,
            context=_context(account),
            workspace_id=account.workspace_id,
        )
    )


def _context(account: Account) -> dict[str, str]:
    return {
        "workspace": account.workspace.name,
        "workspaceId": str(account.workspace_id),
        "currency": account.currency,
        "balance": _money(account.balance),
        "credit": _money(account.limit) if account.limit else "",
        "available": _money(account.spendable or Decimal(0)),
        "threshold": _money(account.low_balance_at or Decimal(0)),
        # The page where the workspace pays, where somebody takes the money.
        "topUpUrl": top_up_url(account.pk) if settings.PAYMENT_PROVIDER else "",
    }


def _money(amount: Decimal) -> str:
    return f"{amount:,.2f}"
