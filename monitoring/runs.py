"""Create rules and launch their runs. A run is an ordinary report, and a row.

Rule, run, report, charge and the rule's next time are one transaction, so that a time
runs once, even if processes die or several clusters launch at once.

A job launches due runs in the order of their times, several in one transaction. A rule
that cannot be launched, whose last run is under way or whose workspace is suspended is
put off, so that the rules behind it do not wait. A referee holds up no other check.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from uuid import UUID

from django.db import DatabaseError, transaction
from django.db.models import Min, Q, QuerySet

from monitoring.models import (
    Cadence,
    PauseReason,
    Rule,
    RuleStatus,
    Run,
    lock_rule,
    locked_rules,
    next_run_time,
)
from monitoring.pauses import pause
from monitoring.rules import (
    RuleRequest,
    attestation,
    find_run_obstacle,
    leave_out_referees,
    order_of,
    price_of,
    require_newer_consent,
    set_subject,
    set_terms,
)
from verification.backoffice import audit
from verification.checks.packages import packages_of
from verification.db.base import run_sql
from verification.db.bulk_insert import Row, Rows
from verification.db.ids import uuid7
from verification.jobs.claims import together_or_alone, update_in_batches
from verification.jobs.queue import beat, ensure_job_by, job, schedule_job
from verification.reports.create import NewReport, create_batches
from verification.reports.models import Subject
from verification.reports.request import Catalogue, Order, catalogue
from verification.reports.status import lock_person
from verification.values.clock import now
from workspaces.ledger import Accounts, InsufficientBalance, accounts_of
from workspaces.members import lock_active_workspace
from workspaces.models import Client, Workspace

logger = logging.getLogger(__name__)

ACTOR = "monitoring"
# Rules whose runs are launched in one transaction.
BATCH_SIZE = 200
# A job ends after this time, so that the cluster can be stopped and watched.
JOB_SECONDS = 60.0
BUSY_DELAY = timedelta(seconds=1)
# Rules of a suspended workspace are tried again after this time. When it is resumed,
# they are released at once.
SUSPENDED_DELAY = timedelta(hours=1)
# Rules whose last run is under way are tried again after this time.
UNDER_WAY_DELAY = timedelta(minutes=10)
DEFER_FAILED = """
UPDATE monitoring_rule SET last_error = %(error)s,
    launch_failures = launch_failures + 1,
    put_off_until = %(at)s::timestamptz + least(
        interval '1 minute' * power(2, least(launch_failures, 9)), interval '6 hours'
    )
WHERE id = %(id)s AND status = 'ACTIVE' AND launch_at <= %(at)s
"""
ADVANCE_RULES = """
UPDATE monitoring_rule r SET next_run_at = u.next_run_at, runs_made = r.runs_made + 1,
    put_off_until = NULL, launch_failures = 0, last_error = ''
FROM unnest(%s::uuid[], %s::timestamptz[]) AS u(id, next_run_at) WHERE r.id = u.id
"""


@dataclass(frozen=True, slots=True)
class DueRun:
    """A run to launch, of a locked rule that is read with its workspace."""

    rule: Rule
    due_at: datetime
    next_at: datetime


class RunRefused(Exception):
    """The rule cannot run now; the text says why."""


@transaction.atomic
def create_rule(
    client: Client, request: RuleRequest, order: Order, actor: audit.Actor
) -> Rule:
    """Create a rule and its first run, which is the baseline.

    Raises InsufficientBalance when a prepaid workspace cannot pay for that run,
    InvalidRequest if the subject objected after the consent, and WorkspaceSuspended.
    """
    lock_active_workspace(client.workspace.pk)
    at = now()
    rule = Rule(
        id=uuid7(),
        **client.lookups,
        check_names=[definition.name for definition in order.definitions],
        package=order.package.name if order.package else None,
        cadence=request.cadence.value,
        consent=attestation(order.consent),
        reference=order.reference,
        status=RuleStatus.ACTIVE.value,
        starts_at=at,
        next_run_at=next_run_time(at, request.cadence, at),
        runs_made=1,
        created_by=client.actor,
        created_at=at,
    )
    set_subject(rule, order.subject)
    lock_person(*rule.subject_ids)
    is_stated = request.consent is not None
    require_newer_consent(rule, order.consent, is_stated=is_stated)
    first = order_of(rule, {d.name: d for d in order.definitions}, order.package)

    def more_rows(created: list[list[NewReport]]) -> list[Rows]:
        report_id = created[0][0].report.pk
        run = _run_row(rule, report_id, number=1, due_at=at, at=at)
        return [Rows(Rule, [rule]), Rows(Run, [run])]

    create_batches([(client, [first])], more_rows)
    audit.record("rule.created", actor, rule)
    return rule


@transaction.atomic
def change_rule(
    client: Client, rule_id: UUID, cadence: Cadence, reference: str | None
) -> Rule:
    """Change how often a rule runs, and its reference. Raises Rule.DoesNotExist.

    Its times stay counted from its start; the next one is the first that is to come.
    """
    rule = lock_rule(client, rule_id)
    if cadence != rule.cadence:
        rule.cadence = cadence
        rule.next_run_at = next_run_time(rule.starts_at, cadence, now())
    rule.reference = reference
    set_terms(rule, Subject(rule.subject))
    rule.save(update_fields=["cadence", "next_run_at", "reference", "terms"])
    schedule_job(launch_due_runs, at=rule.next_run_at)
    return rule


@transaction.atomic
def run_now(rule_id: UUID, actor: str, *, made: int) -> UUID:
    """Launch an additional run; return the id of its report. `next_run_at` stays.

    `made` is the number of runs at the time of the request, so that a repeated request
    launches one run. Raises RunRefused.
    """
    rule = locked_rules().select_related("workspace").get(pk=rule_id)
    definitions, at = catalogue(), now()
    if not rule.is_active:
        raise RunRefused("The rule is paused.")
    if rule.runs_made != made:
        raise RunRefused("The rule has run since you opened this page.")
    if leave_out_referees([rule]):
        raise RunRefused("A run of it is under way.")
    if rule.check_names == [rule.left_out]:
        raise RunRefused("Its referee has not answered yet.")
    if rule.workspace.is_suspended:
        raise RunRefused("Its workspace is suspended.")
    if why := find_run_obstacle(rule, definitions):
        raise RunRefused(why)
    try:
        accounts = accounts_of([rule])
        (report_id,) = launch_runs(
            [DueRun(rule, at, rule.next_run_at)], accounts, definitions, at, actor
        )
    except InsufficientBalance as e:
        raise RunRefused(str(e)) from e
    return report_id


def launch_runs(
    due: Sequence[DueRun],
    accounts: Accounts,
    definitions: Catalogue,
    at: datetime,
    actor: str,
) -> list[UUID]:
    """Launch these runs; return the ids of their reports by account."""
    batches: dict[UUID, list[DueRun]] = defaultdict(list)
    clients = {}
    for run in due:
        account = accounts[run.rule.workspace_id, run.rule.environment]
        batches[account.pk].append(run)
        clients[account.pk] = Client(run.rule.workspace, account, actor)

    def run_rows(created: list[list[NewReport]]) -> list[Rows]:
        runs = chain.from_iterable(batches.values())
        reports = (new.report for new in chain.from_iterable(created))
        rows = [
            _run_row(
                run.rule,
                report.pk,
                number=run.rule.runs_made + 1,
                due_at=run.due_at,
                at=at,
            )
            for run, report in zip(runs, reports, strict=True)
        ]
        return [Rows(Run, rows)]

    rule_ids = [run.rule.pk for run in due]
    run_sql(ADVANCE_RULES, [rule_ids, [run.next_at for run in due]])
    packages = packages_of(run.rule for run in due)
    orders = [
        (
            clients[account_id],
            [order_of(r.rule, definitions, packages.get(r.rule.pk)) for r in batch],
        )
        for account_id, batch in batches.items()
    ]
    created = create_batches(orders, run_rows)
    return [new.report.pk for new in chain.from_iterable(created)]


def _run_row(
    rule: Rule, report_id: UUID, *, number: int, due_at: datetime, at: datetime
) -> Row:
    return {
        "id": uuid7(),
        "rule_id": rule.pk,
        "report_id": report_id,
        "number": number,
        "due_at": due_at,
        "created_at": at,
    }


@job
def launch_due_runs() -> None:
    """Launch the runs of all rules that are due."""
    stop_at = time.monotonic() + JOB_SECONDS
    for ids in _due_ids():
        for rule_id, error in together_or_alone(
            "launch of runs", launch_rules, ids, alone=_launch_alone
        ):
            _defer(rule_id, type(error).__name__)
        if not beat() or time.monotonic() > stop_at:
            ensure_job_by(launch_due_runs, now())
            return
    launch_at, at = _active_rules().aggregate(first=Min("launch_at"))["first"], now()
    # A rule that is still due is locked by another worker.
    is_busy = launch_at and launch_at <= at
    ensure_job_by(launch_due_runs, at + BUSY_DELAY if is_busy else launch_at)


@job
def release_rules(workspace_id: str) -> None:
    """Make the rules that were put off while the workspace was suspended due."""
    waiting = Rule.objects.filter(
        workspace=UUID(workspace_id), put_off_until__isnull=False
    )
    update_in_batches(waiting.order_by("id"), skip_locked=False, put_off_until=None)
    schedule_job(launch_due_runs)


def _due_ids() -> Iterator[list[UUID]]:
    """Yield the ids of due rules in batches, each rule once."""
    due = _active_rules().filter(launch_at__lte=now()).order_by("launch_at", "pk")
    page = due
    while rows := list(page.values_list("launch_at", "pk")[:BATCH_SIZE]):
        yield [pk for _, pk in rows]
        time, pk = rows[-1]
        page = due.filter(
            Q(launch_at__gt=time) | Q(launch_at=time, pk__gt=pk),
            launch_at__gte=time,
        )


def _active_rules() -> QuerySet[Rule]:
    return Rule.objects.filter(status=RuleStatus.ACTIVE)


def _defer(rule_id: UUID, error: str) -> None:
    try:
        with transaction.atomic():
            values = {"id": rule_id, "error": error[:100], "at": now()}
            run_sql(DEFER_FAILED, values)
    except DatabaseError as e:
        logger.error("rule %s is not put off: %s", rule_id, type(e).__name__)


@transaction.atomic
def launch_rules(ids: Sequence[UUID], due_by: datetime | None = None) -> None:
    """Lock these rules and launch those of their runs that are due.

    The sandbox passes a later `due_by` to launch a run ahead of its time.

    There is no claim with a lease, because a run, its charge and the rule's next time
    are one transaction, and the lock holds as long.
    """
    due = locked_rules().filter(
        pk__in=ids, status=RuleStatus.ACTIVE, launch_at__lte=due_by or now()
    )
    locked = due.select_related("workspace").select_for_update(
        of=("self",), no_key=True, skip_locked=True
    )
    found = sorted(locked, key=lambda rule: rule.next_run_at)
    rules, suspended = _partition(found, lambda rule: not rule.workspace.is_suspended)
    _defer_suspended(suspended)
    definitions, at = catalogue(), now()
    accounts = accounts_of(rules)
    able, blocked = _partition(
        rules, lambda rule: not find_run_obstacle(rule, definitions)
    )
    under_way = leave_out_referees(able)
    free, busy = _partition(able, lambda rule: rule.pk not in under_way)
    some, none = _partition(free, lambda rule: rule.check_names != [rule.left_out])
    paid, unpaid = _partition(some, _can_pay(some, accounts, definitions))
    for rule in busy:
        rule.put_off_until = at + UNDER_WAY_DELAY
    for rule in none:
        rule.next_run_at, rule.put_off_until = _next_run_after(rule, at), None
    Rule.objects.bulk_update([*busy, *none], ["next_run_at", "put_off_until"])
    pause(blocked, PauseReason.CHECK_INACTIVE)
    pause(unpaid, PauseReason.INSUFFICIENT_BALANCE)
    if paid:
        runs = [
            DueRun(rule, rule.next_run_at, _next_run_after(rule, at)) for rule in paid
        ]
        launch_runs(runs, accounts, definitions, at, ACTOR)


def _launch_alone(rule_id: UUID) -> None:
    # The balance was spent after `_can_pay`: the next launch pauses the rule.
    with suppress(InsufficientBalance):
        launch_rules([rule_id])


def _defer_suspended(rules: Sequence[Rule]) -> None:
    """Put off the rules whose workspace is suspended still."""
    if not rules:
        return
    # Locked, so that a resume at the same time finds the rules that are put off here.
    # Others lock a workspace before its rules: rules of a locked one stay due.
    unlocked = Workspace.objects.select_for_update(no_key=True, skip_locked=True)
    still = unlocked.filter(
        pk__in={rule.workspace_id for rule in rules}, suspended_at__isnull=False
    )
    workspaces = set(still.order_by("pk").values_list("pk", flat=True))
    ids = [rule.pk for rule in rules if rule.workspace_id in workspaces]
    Rule.objects.filter(pk__in=ids).update(put_off_until=now() + SUSPENDED_DELAY)


def _partition(
    rules: Iterable[Rule], test: Callable[[Rule], bool]
) -> tuple[list[Rule], list[Rule]]:
    """Return the rules that pass a test, and the others."""
    passed: list[Rule] = []
    failed: list[Rule] = []
    for rule in rules:
        (passed if test(rule) else failed).append(rule)
    return passed, failed


def _can_pay(
    rules: Sequence[Rule], accounts: Accounts, definitions: Catalogue
) -> Callable[[Rule], bool]:
    """Return a test for one of these rules after another: can its account pay, too?"""
    packages = packages_of(rules)
    balances = {
        account.pk: account.spendable
        for account in accounts.values()
        if account.spendable is not None
    }

    def pays(rule: Rule) -> bool:
        account = accounts[rule.workspace_id, rule.environment]
        price = price_of(rule, definitions, packages.get(rule.pk))
        if price and balances.get(account.pk, price) < price:
            return False
        if account.pk in balances:
            balances[account.pk] -= price
        return True

    return pays


def _next_run_after(rule: Rule, at: datetime) -> datetime:
    # A clock that was set back does not repeat a time.
    return next_run_time(rule.starts_at, rule.cadence, max(at, rule.next_run_at))
