"""Making rules and their runs: a run is an ordinary report, and its row.

Rule, run, report, charge and the rule's next time are one transaction, so that a time
runs once, whatever dies and however many clusters look.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from uuid import UUID

from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils.timezone import now

from monitoring.cadences import next_time
from monitoring.models import PauseReason, Rule, RuleStatus, Run
from monitoring.orders import RuleRequest, attestation, describe, order_of
from monitoring.pausing import pause
from verification.ids import uuid7
from verification.jobs.heartbeat import beat
from verification.jobs.queue import wake_up_by
from verification.ordering.client import Client
from verification.ordering.creating import Created, create_batches, values_of
from verification.ordering.intake import Catalogue, Order, catalogue
from verification.tables import Rows
from workspaces.ledger import InsufficientBalance
from workspaces.models import Account

RUN_DUE = "monitoring.tasks.run_due"
ACTOR = "monitoring"
# Rules whose runs are launched in one transaction.
AT_ONCE = 200
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
UPDATE monitoring_rule r SET next_run_at = u.next_run_at, runs_made = r.runs_made + 1
FROM unnest(%s::uuid[], %s::timestamptz[]) AS u(id, next_run_at) WHERE r.id = u.id
"""


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


def run_due() -> None:
    """Launch the runs of all rules that are due."""
    while beat() and (ids := list(_due().values_list("pk", flat=True)[:AT_ONCE])):
        if not _launch(ids):
            # Others hold them at this moment.
            break
    active = _running().order_by("next_run_at").values_list("next_run_at", flat=True)
    wake_up_by(RUN_DUE, active.first())


@transaction.atomic
def run_now(rule_id: UUID, actor: str) -> None:
    """One more run; the next time stays as it is. Raises RunRefused."""
    rules = Rule.objects.select_for_update(of=("self",), no_key=True)
    rule = rules.select_related("workspace").get(pk=rule_id)
    definitions, at = catalogue(), now()
    if not rule.is_active or rule.workspace.is_suspended:
        raise RunRefused("The rule is paused, or its workspace is suspended.")
    if _is_inactive(rule, definitions):
        raise RunRefused("A check of the rule is not offered at present.")
    try:
        _run([(rule, at, rule.next_run_at)], definitions, at, actor)
    except InsufficientBalance as e:
        raise RunRefused(str(e)) from e


def _running() -> QuerySet[Rule]:
    active = Rule.objects.filter(status=RuleStatus.ACTIVE)
    return active.filter(workspace__suspended_at=None)


def _due() -> QuerySet[Rule]:
    return _running().filter(next_run_at__lte=now()).order_by("next_run_at")


def _launch(ids: Sequence[UUID]) -> int:
    """How many of these were dealt with.

    They are launched together; where somebody cannot pay, by halves, down to the one
    that is paused for it.
    """
    try:
        return _launch_together(ids)
    except InsufficientBalance:
        if len(ids) > 1:
            middle = len(ids) // 2
            return _launch(ids[:middle]) + _launch(ids[middle:])
    pause(ids[0], PauseReason.INSUFFICIENT_BALANCE)
    return 1


@transaction.atomic
def _launch_together(ids: Sequence[UUID]) -> int:
    due = _due().filter(pk__in=ids).select_related("workspace")
    rules = list(due.select_for_update(of=("self",), skip_locked=True, no_key=True))
    definitions, at = catalogue(), now()
    stopped = [rule for rule in rules if _is_inactive(rule, definitions)]
    for rule in stopped:
        pause(rule.pk, PauseReason.CHECK_INACTIVE)
    running = [
        (rule, rule.next_run_at, _time_after(rule, at))
        for rule in rules
        if rule not in stopped
    ]
    if running:
        _run(running, definitions, at, ACTOR)
    return len(rules)


def _time_after(rule: Rule, at: datetime) -> datetime:
    # A clock that was set back does not bring a time twice.
    return next_time(rule.starts_at, rule.cadence, max(at, rule.next_run_at))


def _run(
    runs: Sequence[tuple[Rule, datetime, datetime]],
    definitions: Catalogue,
    at: datetime,
    actor: str,
) -> None:
    """Runs of held rules, each with the time it is due and the rule's next."""
    clients = _clients({rule for rule, _, _ in runs}, actor)
    batches: dict[UUID, list[tuple[Rule, datetime]]] = defaultdict(list)
    for rule, due_at, _ in runs:
        batches[clients[rule.workspace_id, rule.environment].account.pk].append(
            (rule, due_at)
        )

    def also(created: list[list[Created]]) -> list[Rows]:
        made = zip(
            chain.from_iterable(batches.values()),
            chain.from_iterable(created),
            strict=True,
        )
        rows = [
            (uuid7(), rule.pk, one.report.pk, rule.runs_made + 1, due_at, at)
            for (rule, due_at), one in made
        ]
        return [Rows(Run, RUN_COLUMNS, rows)]

    with connection.cursor() as cursor:
        nexts = [(rule.pk, next_at) for rule, _, next_at in runs]
        cursor.execute(MOVE_ON, [*map(list, zip(*nexts, strict=True))])
    ordering = {client.account.pk: client for client in clients.values()}
    create_batches(
        [
            (ordering[account_id], [order_of(rule, definitions) for rule, _ in asked])
            for account_id, asked in batches.items()
        ],
        also,
    )


def _clients(rules: set[Rule], actor: str) -> dict[tuple[UUID, str], Client]:
    """(workspace, environment) -> who orders."""
    workspaces = {rule.workspace_id: rule.workspace for rule in rules}
    accounts = Account.objects.filter(workspace__in=list(workspaces))
    return {
        (account.workspace_id, account.environment): Client(
            workspaces[account.workspace_id], account, actor
        )
        for account in accounts
    }


def _is_inactive(rule: Rule, definitions: Catalogue) -> bool:
    asked = (definitions.get(name) for name in rule.check_names)
    return any(definition is None or not definition.active for definition in asked)
