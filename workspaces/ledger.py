"""The ledger: append-only entries, and the balance that is their sum.

A movement writes its entry and the balance in the caller's transaction. Accounts are
updated in the order of their ids, so that transactions do not deadlock, and as late as
possible, so that they do not wait for long.

`notify_low_balances` tells owners, and other members who want to know, before what they
have paid in advance is used up.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import Case, Exists, F, OuterRef, QuerySet, When

from verification.db.base import broken_constraint
from verification.db.bulk_insert import Rows, Statement, insert
from verification.db.ids import uuid7
from verification.jobs.queue import job
from verification.links import top_up_url
from verification.notifications.models import Kind as MessageKind
from verification.values.clock import now
from verification.values.local_time import utc_text
from workspaces.member_messages import notify_members
from workspaces.models import (
    Account,
    Environment,
    LedgerEntry,
    MemberMessage,
    Workspace,
)

Kind = LedgerEntry.Kind
# The accounts by workspace and environment.
Accounts = Mapping[tuple[UUID, str], Account]
MOVE_BALANCE = "UPDATE workspaces_account SET balance = balance + %s WHERE id = %s"
# The rules that a charge beyond an account's limit breaks. A trigger names them.
OVERDRAFT_CONSTRAINTS = {
    "prepaid_is_never_overdrawn",
    "postpaid_stays_below_its_ceiling",
    "play_money_stays_within_its_limit",
}


class InsufficientBalance(Exception):
    """The account cannot pay or may not owe more. No money was moved."""

    def __init__(self, needed: Decimal, account: Account) -> None:
        available, currency = account.spendable or Decimal(0), account.currency
        message = f"This needs {currency} {needed:.2f} and the workspace "
        if account.billing == Account.Billing.POSTPAID and account.balance > 0:
            # It was prepaid before.
            message += (
                f"has {currency} {account.balance:.2f} and may owe {currency} "
                f"{account.ceiling:.2f} (its ceiling). Top up, or ask for a higher "
                "ceiling, and try again."
            )
        elif account.billing == Account.Billing.POSTPAID:
            message += (
                f"owes {currency} {-account.balance:.2f}, of {currency} "
                f"{account.ceiling:.2f} that it may owe (its ceiling). Pay what is "
                "owed, or ask for a higher ceiling, and try again."
            )
        else:
            message += (
                f"has {currency} {available:.2f}, its credit included. Top up and "
                "try again."
            )
        super().__init__(message)
        self.needed, self.available = needed, available
        self.account_id, self.environment = account.pk, account.environment


class Movement(NamedTuple):
    """An entry that is about to be written; `amount` is added to the balance."""

    account_id: UUID
    kind: Kind
    amount: Decimal
    actor: str
    report_id: UUID | None = None
    result_id: UUID | None = None
    attempt: int | None = None
    note: str = ""
    checkout_id: UUID | None = None
    staff_entry_id: UUID | None = None


def account_of(workspace: Workspace, environment: str) -> Account:
    return Account.objects.get(workspace=workspace, environment=environment)


def accounts_of(rows: Iterable[Any]) -> Accounts:
    """Return the accounts of the workspaces of these reports or rules."""
    found = Account.objects.filter(workspace__in={row.workspace_id for row in rows})
    return {(account.workspace_id, account.environment): account for account in found}


def book(movements: Sequence[Movement], at: datetime, *before: Rows) -> None:
    """Insert the movements and add them to their accounts, after the other rows.

    The caller has a transaction. Raises InsufficientBalance if an account refuses.
    """
    may_fail = any(movement.amount < 0 for movement in movements)
    with refuse_overdraft(movements) if may_fail else nullcontext():
        insert(*before, entries(movements, at), last=balance_updates(movements))


def balance_updates(movements: Iterable[Movement]) -> list[Statement]:
    """Return the updates of the accounts' balances, for the end of an `insert`.

    Other orders of an account wait for its lock until the commit, and must not wait for
    this process in between.
    """
    sums = sorted(_sums(movements).items())
    return [Statement(MOVE_BALANCE, [amount, key]) for key, amount in sums if amount]


@contextmanager
def refuse_overdraft(movements: Iterable[Movement]) -> Iterator[None]:
    """Raise InsufficientBalance if `balance_updates` in the block cannot be paid.

    Then the block has written nothing. It may add the movements.
    """
    # A failed statement ends its transaction, so an outer one gets a savepoint.
    in_transaction = connection.in_atomic_block
    try:
        with transaction.atomic() if in_transaction else nullcontext():
            yield
    except IntegrityError as e:
        if broken_constraint(e) not in OVERDRAFT_CONSTRAINTS:
            raise
        sums = _sums(movements)
        accounts = Account.objects.filter(pk__in=sums)
        poorest = min(accounts, key=lambda one: _left(one, sums[one.pk]))
        raise InsufficientBalance(-sums[poorest.pk], poorest) from e


def _sums(movements: Iterable[Movement]) -> dict[UUID, Decimal]:
    sums: defaultdict[UUID, Decimal] = defaultdict(Decimal)
    for movement in movements:
        sums[movement.account_id] += movement.amount
    return sums


def _left(account: Account, amount: Decimal) -> Decimal:
    spendable = account.spendable
    return Decimal("inf") if spendable is None else spendable + amount


def entries(movements: Iterable[Movement], at: datetime) -> Rows:
    rows = [
        {"id": uuid7(), **m._asdict(), "kind": m.kind.value, "created_at": at}
        for m in movements
    ]
    return Rows(LedgerEntry, rows)


@transaction.atomic
def record_movements(*movements: Movement) -> None:
    """Write movements that belong to no other rows, such as a top-up."""
    book(movements, now())


@transaction.atomic
def take_back(movement: Movement) -> None:
    """Write what a bank or provider took back of a top-up, or returned.

    The balance may fall below its limit. Then the account can order nothing until it
    is topped up.
    """
    Account.objects.filter(pk=movement.account_id).update(
        balance=F("balance") + movement.amount,
        taken_back=F("taken_back") - movement.amount,
    )
    insert(entries([movement], now()))


def top_up(
    workspace: Workspace, environment: str, amount: Decimal, *, actor: str, note: str
) -> None:
    account = account_of(workspace, environment)
    record_movements(Movement(account.id, Kind.TOP_UP, amount, actor, note=note))


@transaction.atomic
def limit_play_money(
    workspace: Workspace, available: Decimal | None, *, actor: str
) -> Account:
    """Leave the sandbox's account `available` to spend, or any amount if it is None.

    An adjustment makes it the balance, which then cannot fall below zero.
    """
    accounts = Account.objects.select_for_update()
    account = accounts.get(workspace=workspace, environment=Environment.SANDBOX)
    account.ceiling = None
    account.save(update_fields=["ceiling"])
    if available is None:
        return account
    if difference := available - account.balance:
        note = "The client sets its play money"
        record_movements(
            Movement(account.pk, Kind.ADJUSTMENT, difference, actor, note=note)
        )
    Account.objects.filter(pk=account.pk).update(ceiling=0)
    account.refresh_from_db()
    return account


def open_accounts(workspace: Workspace, *, billing: Account.Billing) -> None:
    """Create the accounts of a workspace: play money and real money."""
    made = {Environment.SANDBOX: Account.Billing.PLAY, Environment.PRODUCTION: billing}
    Account.objects.bulk_create(
        Account(workspace=workspace, environment=environment, billing=kind)
        for environment, kind in made.items()
    )


# `Account.spendable` in SQL. Play money warns nobody before it runs out.
SPENDABLE = F("balance") + Case(
    When(billing=Account.Billing.PREPAID, then=F("credit_limit")),
    When(billing=Account.Billing.POSTPAID, then=F("ceiling")),
)


@job
def notify_low_balances() -> None:
    """Notify members of low accounts, once for each fall below the threshold.

    Any number of these jobs may run at once.
    """
    notified = Account.objects.filter(low_balance_notified_at__isnull=False)
    notified.exclude(pk__in=_low_accounts()).update(low_balance_notified_at=None)
    charges = LedgerEntry.objects.filter(
        account=OuterRef("pk"), kind=LedgerEntry.Kind.CHARGE
    )
    # An account without a charge needs no warning.
    low = _low_accounts().filter(
        Exists(charges), low_balance_notified_at=None, workspace__suspended_at=None
    )
    for account_id in list(low.values_list("pk", flat=True)):
        _notify_members(account_id)


def _low_accounts() -> QuerySet[Account]:
    """Return the accounts at or below the threshold that their owners have set."""
    accounts = Account.objects.alias(spendable_sum=SPENDABLE)
    return accounts.filter(spendable_sum__lte=F("low_balance_at"))


@transaction.atomic
def _notify_members(account_id: UUID) -> None:
    moment = now()
    unnotified = _low_accounts().filter(pk=account_id, low_balance_notified_at=None)
    if not unnotified.update(low_balance_notified_at=moment):
        return
    account = Account.objects.select_related("workspace").get(pk=account_id)
    notify_members(
        account.workspace,
        account.environment,
        MemberMessage.LOW_BALANCE,
        MessageKind.LOW_BALANCE,
        f"low-balance:{account.pk}:{utc_text(moment)}",
        {
            "workspaceId": str(account.workspace_id),
            "currency": account.currency,
            "balance": f"{account.balance:,.2f}",
            "credit": f"{account.limit:,.2f}" if account.limit else "",
            "available": f"{account.spendable or 0:,.2f}",
            "threshold": f"{account.low_balance_at or 0:,.2f}",
            # Without a payment provider there is no page to pay on.
            "topUpUrl": top_up_url(account.pk) if settings.PAYMENT_PROVIDER else "",
        },
    )
