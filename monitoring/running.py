"""Making rules and their runs: a run is an ordinary report, and its row.

Rule, run, report, charge and the rule's next time are one transaction, so that a time
runs once, whatever dies and however many clusters look.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.utils.timezone import now

from monitoring.cadences import next_time
from monitoring.models import Rule, RuleStatus, Run
from monitoring.orders import (
    RuleRequest,
    attestation,
    cannot_run,
    describe,
    order_of,
)
from monitoring.pausing import held
from verification.ids import uuid7
from verification.ordering.client import Client
from verification.ordering.creating import Created, create_batches, values_of
from verification.ordering.intake import Catalogue, Order, catalogue
from verification.tables import Rows
from workspaces.ledger import InsufficientBalance
from workspaces.models import Account

RULE_COLUMNS = [
    "id",
    "workspace_id",
    "environment",
    "subject_id",
    "subject_type",
    "subject_name",
    "search_name",
    "terms",
    "subject",
    "check_names",
    "cadence",
    "consent",
    "reference",
    "status",
    "pause_reason",
    "starts_at",
    "next_run_at",
    "runs_made",
    "created_by",
    "created_at",
]
RUN_COLUMNS = ["id", "rule_id", "report_id", "number", "due_at", "created_at"]
MOVE_ON = """
UPDATE monitoring_rule r SET next_run_at = u.next_run_at, runs_made = r.runs_made + 1,
    put_off_until = NULL, launch_failures = 0, last_error = ''
FROM unnest(%s::uuid[], %s::timestamptz[]) AS u(id, next_run_at) WHERE r.id = u.id
"""


@dataclass(frozen=True, slots=True)
class Due:
    """A run to be, of a held rule that comes with its workspace."""

    rule: Rule
    due_at: datetime
    next_at: datetime


Accounts = Mapping[tuple[UUID, str], Account]


class RunRefused(Exception):
    """The rule cannot run now; the text says why."""


def create_rule(client: Client, request: RuleRequest, order: Order) -> Rule:
    """The rule, and its first run, which is the baseline.

    Raises InsufficientBalance when a prepaid workspace cannot pay for that run.
    """
    at = now()
    rule = Rule(
        id=uuid7(),
        workspace=client.workspace,
        environment=client.environment,
        check_names=[definition.name for definition in order.definitions],
        cadence=request.cadence.value,
        consent=attestation(order.consent),
        reference=order.reference,
        status=RuleStatus.ACTIVE.value,
        starts_at=at,
        next_run_at=next_time(at, request.cadence, at),
        runs_made=1,
        created_by=client.actor,
        created_at=at,
    )
    describe(rule, order)
    first = order_of(rule, {d.name: d for d in order.definitions})

    def also(created: list[list[Created]]) -> list[Rows]:
        report = created[0][0].report
        return [
            Rows(Rule, RULE_COLUMNS, [values_of(rule, RULE_COLUMNS)]),
            Rows(Run, RUN_COLUMNS, [(uuid7(), rule.pk, report.pk, 1, at, at)]),
        ]

    create_batches([(client, [first])], also)
    return rule


@transaction.atomic
def run_now(rule_id: UUID, actor: str, *, made: int) -> UUID:
    """One more run, and the id of its report; the next time stays as it is.

    `made` is how many runs there were when it was asked for, so that asking twice runs
    once. Raises RunRefused.
    """
    rule = held().select_related("workspace").get(pk=rule_id)
    definitions, at = catalogue(), now()
    if not rule.is_active:
        raise RunRefused("The rule is paused.")
    if rule.runs_made != made:
        raise RunRefused("It has run since you were asked.")
    if rule.runs.filter(report__completed_at=None).exists():
        raise RunRefused("A run of it is under way.")
    if rule.workspace.is_suspended:
        raise RunRefused("Its workspace is suspended.")
    if why := cannot_run(rule, definitions):
        raise RunRefused(why)
    try:
        accounts = accounts_of([rule])
        (report_id,) = run(
            [Due(rule, at, rule.next_run_at)], accounts, definitions, at, actor
        )
    except InsufficientBalance as e:
        raise RunRefused(str(e)) from e
    return report_id


def run(
    due: Sequence[Due],
    accounts: Accounts,
    definitions: Catalogue,
    at: datetime,
    actor: str,
) -> list[UUID]:
    """The ids of the reports, by account."""
    batches: dict[UUID, list[Due]] = defaultdict(list)
    clients = {}
    for one in due:
        account = accounts[one.rule.workspace_id, one.rule.environment]
        batches[account.pk].append(one)
        clients[account.pk] = Client(one.rule.workspace, account, actor)

    def also(created: list[list[Created]]) -> list[Rows]:
        made = zip(
            chain.from_iterable(batches.values()),
            chain.from_iterable(created),
            strict=True,
        )
        return [Rows(Run, RUN_COLUMNS, [_run_row(d, c.report.pk, at) for d, c in made])]

    with connection.cursor() as cursor:
        nexts = [(one.rule.pk, one.next_at) for one in due]
        cursor.execute(MOVE_ON, [*map(list, zip(*nexts, strict=True))])
    orders = [
        (clients[account_id], [order_of(one.rule, definitions) for one in batch])
        for account_id, batch in batches.items()
    ]
    created = create_batches(orders, also)
    return [one.report.pk for one in chain.from_iterable(created)]


def accounts_of(rules: Iterable[Rule]) -> Accounts:
    """(workspace, environment) -> who pays for its runs."""
    workspaces = {rule.workspace_id for rule in rules}
    found = Account.objects.filter(workspace__in=list(workspaces))
    return {(account.workspace_id, account.environment): account for account in found}


def _run_row(due: Due, report_id: UUID, at: datetime) -> tuple[Any, ...]:
    """In the order of RUN_COLUMNS."""
    return (uuid7(), due.rule.pk, report_id, due.rule.runs_made + 1, due.due_at, at)
