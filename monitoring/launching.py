"""Launching the runs that are due: each time once, by whichever cluster is first.

Rules are taken in the order of their times, some at once in one transaction. A rule
that cannot be launched holds up no other, however many of them there are.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.utils.timezone import now

from monitoring.cadences import next_time
from monitoring.models import PauseReason, Rule, RuleStatus
from monitoring.orders import cannot_run
from monitoring.pausing import RUN_DUE, held, pause
from monitoring.running import Accounts, Due, accounts_of, run
from verification.jobs.heartbeat import beat
from verification.jobs.queue import wake_up_by
from verification.ordering.intake import Catalogue, catalogue
from workspaces.ledger import InsufficientBalance
from workspaces.models import Account

logger = logging.getLogger(__name__)

ACTOR = "monitoring"
# Rules whose runs are launched in one transaction.
AT_ONCE = 200
# A job ends after this long, so that the cluster can be stopped and watched.
JOB_SECONDS = 60.0
SOON = timedelta(seconds=1)


def run_due() -> None:
    """Launch the runs of all rules that are due."""
    busy = False
    stop_at = time.monotonic() + JOB_SECONDS
    for ids in _due_ids():
        busy = _launch(ids) < len(ids) or busy
        if not beat() or time.monotonic() > stop_at:
            wake_up_by(RUN_DUE, now())
            return
    # Others hold some of them at this moment.
    wake_up_by(RUN_DUE, now() + SOON if busy else _next_time())


def _due_ids() -> Iterator[list[UUID]]:
    """Onward from the last ones, so that none that stays due is met twice."""
    due = _running().filter(next_run_at__lte=now()).order_by("next_run_at", "pk")
    page = due
    while rows := list(page.values_list("next_run_at", "pk")[:AT_ONCE]):
        yield [pk for _, pk in rows]
        time, pk = rows[-1]
        page = due.filter(
            Q(next_run_at__gt=time) | Q(next_run_at=time, pk__gt=pk),
            next_run_at__gte=time,
        )


def _next_time() -> datetime | None:
    later = _running().filter(next_run_at__gt=now()).order_by("next_run_at")
    return later.values_list("next_run_at", flat=True).first()


def _running() -> QuerySet[Rule]:
    return Rule.objects.filter(
        status=RuleStatus.ACTIVE, workspace__suspended_at__isnull=True
    )


def _launch(ids: Sequence[UUID]) -> int:
    """How many of these nobody else held; each alone where not all can be together."""
    try:
        return _launch_together(ids)
    except Exception as e:
        logger.warning("%s runs are launched singly: %s", len(ids), type(e).__name__)
        return sum(_launch_alone(rule_id) for rule_id in ids)


def _launch_alone(rule_id: UUID) -> int:
    try:
        return _launch_together([rule_id])
    except InsufficientBalance:
        # Spent between our look and the charge: the next look sees it.
        return 0
    except Exception as e:
        # Not the message, which may hold personal data. It stays due, and is tried
        # again every minute.
        logger.error("rule %s could not be run: %s", rule_id, type(e).__name__)
        if not connection.in_atomic_block:
            # One that was lost is opened anew for the others.
            connection.close_if_unusable_or_obsolete()
        return 1


@transaction.atomic
def _launch_together(ids: Sequence[UUID]) -> int:
    due = held().filter(pk__in=ids, status=RuleStatus.ACTIVE, next_run_at__lte=now())
    unheld = due.select_related("workspace").select_for_update(
        of=("self",), no_key=True, skip_locked=True
    )
    rules = sorted(unheld, key=lambda rule: rule.next_run_at)
    definitions, at = catalogue(), now()
    accounts = accounts_of(rules)
    right, wrong = _split(rules, lambda rule: not cannot_run(rule, definitions))
    paid, unpaid = _split(right, _pays(accounts, definitions))
    pause(wrong, PauseReason.CHECK_INACTIVE)
    pause(unpaid, PauseReason.INSUFFICIENT_BALANCE)
    if paid:
        runs = [Due(rule, rule.next_run_at, _time_after(rule, at)) for rule in paid]
        run(runs, accounts, definitions, at, ACTOR)
    return len(rules)


def _split(
    rules: Iterable[Rule], is_one: Callable[[Rule], bool]
) -> tuple[list[Rule], list[Rule]]:
    ones: list[Rule] = []
    others: list[Rule] = []
    for rule in rules:
        (ones if is_one(rule) else others).append(rule)
    return ones, others


def _pays(accounts: Accounts, definitions: Catalogue) -> Callable[[Rule], bool]:
    """Tells of one rule after another whether its workspace can pay for it as well."""
    left = {
        account.pk: account.balance + account.credit_limit
        for account in accounts.values()
        if account.billing == Account.Billing.PREPAID
    }

    def pays(rule: Rule) -> bool:
        account = accounts[rule.workspace_id, rule.environment]
        price = sum((definitions[name].price for name in rule.check_names), Decimal(0))
        if left.get(account.pk, price) < price:
            return False
        if account.pk in left:
            left[account.pk] -= price
        return True

    return pays


def _time_after(rule: Rule, at: datetime) -> datetime:
    # A clock that was set back does not bring a time twice.
    return next_time(rule.starts_at, rule.cadence, max(at, rule.next_run_at))
