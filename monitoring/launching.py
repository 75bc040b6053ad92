"""Launching the runs that are due: each time once, by whichever cluster is first.

Rules are taken in the order of their times, some at once in one transaction. A rule
that cannot be launched, or whose workspace is suspended, is put off and so holds up no
other, however many of them there are.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import DatabaseError, connection, transaction
from django.db.models import Q, QuerySet
from django.utils.timezone import now

from monitoring.cadences import next_time
from monitoring.models import PauseReason, Rule, RuleStatus
from monitoring.orders import cannot_run, price_of
from monitoring.pausing import RUN_DUE, held, pause
from monitoring.running import Accounts, Due, accounts_of, run
from verification.jobs.heartbeat import beat
from verification.jobs.queue import later, wake_up_by
from verification.jobs.sweeping import in_steps
from verification.ordering.intake import Catalogue, catalogue
from workspaces.ledger import InsufficientBalance
from workspaces.models import Workspace

logger = logging.getLogger(__name__)

ACTOR = "monitoring"
# Rules whose runs are launched in one transaction.
AT_ONCE = 200
# A job ends after this long, so that the cluster can be stopped and watched.
JOB_SECONDS = 60.0
SOON = timedelta(seconds=1)
# Rules of a suspended workspace are looked at again after this; they are let go at once
# when it is resumed.
SUSPENDED_FOR = timedelta(hours=1)
FAILED = """
UPDATE monitoring_rule SET last_error = %(error)s,
    launch_failures = launch_failures + 1,
    put_off_until = %(at)s::timestamptz + least(
        interval '1 minute' * power(2, least(launch_failures, 9)), interval '6 hours'
    )
WHERE id = %(id)s AND status = 'ACTIVE' AND launch_at <= %(at)s
"""
LET_GO = """
UPDATE monitoring_rule SET put_off_until = NULL WHERE id IN (
    SELECT id FROM monitoring_rule
    WHERE workspace_id = %(workspace)s AND put_off_until IS NOT NULL
    ORDER BY id LIMIT %(limit)s FOR NO KEY UPDATE
)
"""


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


def let_go(workspace_id: UUID) -> None:
    """The workspace was resumed: its rules that are due run now."""
    in_steps(LET_GO, workspace=workspace_id)
    later(RUN_DUE)


def _due_ids() -> Iterator[list[UUID]]:
    """Onward from the last ones, so that none that stays due is met twice."""
    due = _active().filter(launch_at__lte=now()).order_by("launch_at", "pk")
    page = due
    while rows := list(page.values_list("launch_at", "pk")[:AT_ONCE]):
        yield [pk for _, pk in rows]
        time, pk = rows[-1]
        page = due.filter(
            Q(launch_at__gt=time) | Q(launch_at=time, pk__gt=pk),
            launch_at__gte=time,
        )


def _next_time() -> datetime | None:
    coming = _active().filter(launch_at__gt=now()).order_by("launch_at")
    return coming.values_list("launch_at", flat=True).first()


def _active() -> QuerySet[Rule]:
    return Rule.objects.filter(status=RuleStatus.ACTIVE)


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
        # Not the message, which may hold personal data.
        logger.error("rule %s could not be run: %s", rule_id, type(e).__name__)
        if not connection.in_atomic_block:
            # One that was lost is opened anew for the others.
            connection.close_if_unusable_or_obsolete()
        _put_off(rule_id, type(e).__name__)
        return 1


def _put_off(rule_id: UUID, error: str) -> None:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            values: dict[str, Any] = {"id": rule_id, "error": error[:100], "at": now()}
            cursor.execute(FAILED, values)
    except DatabaseError as e:
        logger.error("rule %s is not put off: %s", rule_id, type(e).__name__)


@transaction.atomic
def _launch_together(ids: Sequence[UUID]) -> int:
    due = held().filter(pk__in=ids, status=RuleStatus.ACTIVE, launch_at__lte=now())
    unheld = due.select_related("workspace").select_for_update(
        of=("self",), no_key=True, skip_locked=True
    )
    found = sorted(unheld, key=lambda rule: rule.next_run_at)
    rules, suspended = _split(found, lambda rule: not rule.workspace.is_suspended)
    count = len(rules) + _put_off_suspended(suspended)
    definitions, at = catalogue(), now()
    accounts = accounts_of(rules)
    right, wrong = _split(rules, lambda rule: not cannot_run(rule, definitions))
    paid, unpaid = _split(right, _pays(accounts, definitions))
    pause(wrong, PauseReason.CHECK_INACTIVE)
    pause(unpaid, PauseReason.INSUFFICIENT_BALANCE)
    if paid:
        runs = [Due(rule, rule.next_run_at, _time_after(rule, at)) for rule in paid]
        run(runs, accounts, definitions, at, ACTOR)
    return count


def _put_off_suspended(rules: Sequence[Rule]) -> int:
    """How many: not those whose workspace is resumed at this moment."""
    if not rules:
        return 0
    # Locked, so that whoever resumes it finds what is put off here.
    still = Workspace.objects.select_for_update(no_key=True).filter(
        pk__in={rule.workspace_id for rule in rules}, suspended_at__isnull=False
    )
    workspaces = set(still.order_by("pk").values_list("pk", flat=True))
    ids = [rule.pk for rule in rules if rule.workspace_id in workspaces]
    return Rule.objects.filter(pk__in=ids).update(put_off_until=now() + SUSPENDED_FOR)


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
        account.pk: account.spendable
        for account in accounts.values()
        if account.spendable is not None
    }

    def pays(rule: Rule) -> bool:
        account = accounts[rule.workspace_id, rule.environment]
        price = price_of(rule, definitions)
        if price and left.get(account.pk, price) < price:
            return False
        if account.pk in left:
            left[account.pk] -= price
        return True

    return pays


def _time_after(rule: Rule, at: datetime) -> datetime:
    # A clock that was set back does not bring a time twice.
    return next_time(rule.starts_at, rule.cadence, max(at, rule.next_run_at))
