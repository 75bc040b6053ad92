"""Lists of a workspace's rules and alerts: newest first, with an exact total."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db.models import BigIntegerField, Model, Q, QuerySet, Value
from django.db.models.expressions import RawSQL

from monitoring.models import Alert, Baseline, Rule
from verification.db.base import force_custom_plan
from verification.reports.queries import Terms
from verification.reports.subject import fold_text
from workspaces.models import Client

Row = TypeVar("Row", bound=Model)
MAX_RECENT_ALERTS = 10


@dataclass(frozen=True, slots=True)
class ResultPage(Generic[Row]):
    rows: list[Row]
    total: int


@dataclass(frozen=True, slots=True)
class CheckState:
    """The time a check of a rule last completed, and its failed runs since."""

    name: str
    completed_at: datetime | None
    unanswered: int


@force_custom_plan()
def list_rules(
    client: Client, search: str | None, *, page: int, size: int
) -> ResultPage[Rule]:
    """List rules; `search` is a part of the subject's name or a whole identifier."""
    rules = rules_of(client)
    if search:
        rules = rules.filter(_matching(client, search))
    return _page(rules, page, size)


@force_custom_plan()
def list_alerts(
    client: Client, *, read: bool | None, severity: str | None, page: int, size: int
) -> ResultPage[Alert]:
    exact: dict[str, Any] = {"read": read, "severity": severity}
    wanted = {name: value for name, value in exact.items() if value is not None}
    return _page(alerts_of(client).filter(**wanted), page, size)


def rules_of(client: Client) -> QuerySet[Rule]:
    return Rule.objects.filter(
        workspace=client.workspace, environment=client.environment
    )


def alerts_of(client: Client) -> QuerySet[Alert]:
    return Alert.objects.filter(
        workspace=client.workspace, environment=client.environment
    )


def recent_alerts(rule_ids: Sequence[UUID]) -> dict[UUID, list[Alert]]:
    """Return the newest alerts of each rule, in one query that reads only these."""
    newest = RawSQL(
        """
        SELECT a.id FROM unnest(%s::uuid[]) AS r(id) CROSS JOIN LATERAL (
            SELECT id FROM monitoring_alert WHERE rule_id = r.id
            ORDER BY id DESC LIMIT %s
        ) a
        """,
        [list(rule_ids), MAX_RECENT_ALERTS],
    )
    found = defaultdict(list)
    for alert in Alert.objects.filter(pk__in=newest).order_by("-id"):
        found[alert.rule_id].append(alert)
    return found


def check_states(rules: Sequence[Rule]) -> dict[UUID, list[CheckState]]:
    """Return the states of each rule's checks, in the rule's order."""
    rows = Baseline.objects.filter(rule__in=[rule.pk for rule in rules])
    fields = ("rule_id", "check_name", "completed_at", "unanswered")
    known = {(rule, name): more for rule, name, *more in rows.values_list(*fields)}
    return {
        rule.pk: [
            CheckState(name, *known.get((rule.pk, name), (None, 0)))
            for name in rule.check_names
        ]
        for rule in rules
    }


def _matching(client: Client, search: str) -> Q:
    terms = Terms(client.workspace.pk, client.environment)
    name = fold_text(search.strip())
    by_name = Q(search_name__contains=name)
    if grams := terms.of_name(name):
        by_name &= Q(terms__contains=_bigint_values(grams))
    identifiers = [terms.of_number(search), terms.of_text(search.strip())]
    return by_name | Q(terms__overlap=_bigint_values(identifiers))


def _bigint_values(terms: Any) -> list[Value]:
    """Cast the numbers, because Django takes members of an array for 32 bits."""
    return [Value(term, BigIntegerField()) for term in terms]


def _page(rows: QuerySet[Row], page: int, size: int) -> ResultPage[Row]:
    first = page * size
    found = list(rows.order_by("-created_at", "-id")[first : first + size])
    # A page that is not full is the last one, so the total is known without a count.
    total = first + len(found)
    if len(found) == size or (first and not found):
        total = rows.count()
    return ResultPage(found, total)
