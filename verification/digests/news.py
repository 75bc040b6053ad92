"""Find the news of workspaces, for messages to members.

News are read from the rows of reports, alerts and proposals, so the end of a report
writes no row for these messages. Each kind takes a query or two for all workspaces.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce, Least

from monitoring.models import Alert, Rule, RuleStatus
from monitoring.pauses import NOTIFIED_REASONS
from verification.decisions.cases import pending_proposals
from verification.decisions.models import Case, Decision, DecisionState
from verification.decisions.notices import notices_to_hand_over
from verification.links import console_url
from verification.reports.models import Report, ReportStatus
from webhooks.health import NOTIFIES_AT
from webhooks.models import Configuration
from workspaces.models import Account, Environment, Member, MemberMessage

# A message names no more reports, alerts or proposals than these.
MAX_NAMED = 10


@dataclass(frozen=True, slots=True)
class Period:
    """The time from `since`, which is not included, to `until`.

    In a subquery, `since` may be an expression.
    """

    since: Any
    until: datetime

    def of(self, column: str) -> dict[str, Any]:
        """Return the lookups for rows whose column lies in the period."""
        return {f"{column}__gt": self.since, f"{column}__lte": self.until}


def _ended(period: Period, *statuses: ReportStatus) -> QuerySet[Report]:
    """Return reports that ended; alerts tell of the runs of monitoring rules."""
    ended = Report.objects.filter(erased_at=None, **period.of("completed_at"))
    return ended.filter(status__in=statuses, monitoring_id=None)


def _ready(period: Period) -> QuerySet[Any]:
    return _ended(period, ReportStatus.READY)


def _failed(period: Period) -> QuerySet[Any]:
    return _ended(period, ReportStatus.FAILED, ReportStatus.PARTIAL)


def _cases(period: Period) -> QuerySet[Any]:
    """Return cases that nobody has taken; `_proposals` has those with a proposal."""
    waiting = Case.objects.filter(closed_at=None, assignee=None)
    return waiting.filter(~Exists(pending_proposals()), **period.of("opened_at"))


def _proposals(period: Period) -> QuerySet[Any]:
    waiting = Decision.objects.filter(state=DecisionState.PENDING)
    # A key counts as its maker, who cannot confirm its proposals.
    by = Coalesce("made_by_user", "key_made_by_user")
    return waiting.filter(**period.of("created_at")).annotate(maker=by)


def _undelivered(period: Period) -> QuerySet[Any]:
    return notices_to_hand_over().filter(**period.of("undelivered_at"))


def _alerts(period: Period) -> QuerySet[Any]:
    return Alert.objects.filter(**period.of("created_at"))


def _paused_rules(period: Period) -> QuerySet[Any]:
    paused = Rule.objects.filter(status=RuleStatus.PAUSED, **period.of("paused_at"))
    return paused.filter(pause_reason__in=NOTIFIED_REASONS)


def _low_accounts(period: Period) -> QuerySet[Any]:
    return Account.objects.filter(**period.of("low_balance_notified_at"))


def _failing_receivers(period: Period) -> QuerySet[Any]:
    """Return receivers that were disabled, or that still fail."""
    failing = Q(enabled=True, failures_in_row__gte=NOTIFIES_AT)
    return Configuration.objects.filter(Q(**period.of("disabled_at")) | failing)


@dataclass(frozen=True, slots=True)
class Source:
    """A source of the news of a kind.

    `moment` is the column with the time of a row, and `maker` the column with the user
    who needs no message about it. The console's `page` shows all rows; `row_page` shows
    one, whose ID is in the column `row_id`.
    """

    rows: Callable[[Period], QuerySet[Any]]
    page: str
    moment: str = ""
    maker: str = ""
    row_page: str = "reports-detail"
    row_id: str = "id"


# The page of a kind is that of its first source.
SOURCES: dict[MemberMessage, list[Source]] = {
    MemberMessage.REPORT_READY: [Source(_ready, "reports", "completed_at")],
    MemberMessage.REPORT_FAILED: [Source(_failed, "reports", "completed_at")],
    MemberMessage.DECISION_WAITING: [
        Source(_cases, "queue", "opened_at", row_id="report"),
        Source(
            _proposals,
            "queue",
            "created_at",
            "maker",
            row_id="report",
        ),
    ],
    MemberMessage.HAND_OVER: [
        Source(
            _undelivered,
            "queue-notices",
            "undelivered_at",
            row_id="report",
        )
    ],
    MemberMessage.ALERT: [
        Source(
            _alerts,
            "monitoring-alerts",
            "created_at",
            row_page="monitoring-alert",
        )
    ],
    MemberMessage.RULES_PAUSED: [Source(_paused_rules, "monitoring")],
    MemberMessage.LOW_BALANCE: [Source(_low_accounts, "money")],
    MemberMessage.WEBHOOK: [Source(_failing_receivers, "webhooks")],
}


class Counts:
    """The number of rows of one kind for each member in a period."""

    def __init__(
        self, kind: MemberMessage, workspaces: Collection[UUID], period: Period
    ) -> None:
        self._counts: dict[tuple[UUID, str], Counter[int | None]]
        self._counts = defaultdict(Counter)
        for source in SOURCES[kind]:
            rows = source.rows(period).filter(
                # Both environments, for indexes that begin with these columns
                workspace__in=workspaces,
                environment__in=Environment.values,
            )
            maker = [source.maker] if source.maker else []
            grouped = rows.order_by().values_list("workspace", "environment", *maker)
            for place, env, *user, count in grouped.annotate(Count("pk")):
                self._counts[place, env][user[0] if user else None] += count

    def of(self, member: Member, environment: str) -> int:
        """Return how many there are, without what the member made."""
        found = self._counts[member.workspace_id, environment]
        return found.total() - found[member.user_id]


def first_moment(kind: MemberMessage, period: Period) -> Any:
    """Return the time of a window's first news, for a query of windows.

    It is one probe of an index for each window, and null if nothing has happened.
    """
    firsts = [
        _rows_of(source, OuterRef("workspace"), OuterRef("environment"), period)
        .order_by(source.moment)
        .values(source.moment)[:1]
        for source in SOURCES[kind]
    ]
    # PostgreSQL's LEAST leaves nulls out.
    return Least(*firsts) if len(firsts) > 1 else Subquery(firsts[0])


def row_urls(
    kind: MemberMessage, member: Member, environment: str, period: Period
) -> list[str]:
    """Return the pages of the first rows, without what the member made.

    They have ids in them, and nothing of a subject.
    """
    urls: list[str] = []
    for source in SOURCES[kind]:
        rows = _rows_of(source, member.workspace_id, environment, period)
        if source.maker:
            rows = rows.exclude(**{source.maker: member.user_id})
        ids = rows.order_by(source.moment).values_list(source.row_id, flat=True)
        urls += [
            console_url(source.row_page, member.workspace_id, environment, pk)
            for pk in ids[: MAX_NAMED - len(urls)]
        ]
    return urls


def page_url(kind: MemberMessage, member: Member, environment: str) -> str:
    """Return the page that lists them all."""
    return console_url(SOURCES[kind][0].page, member.workspace_id, environment)


def _rows_of(
    source: Source, workspace: Any, environment: Any, period: Period
) -> QuerySet[Any]:
    rows = source.rows(period)
    return rows.filter(workspace=workspace, environment=environment)
