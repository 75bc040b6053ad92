"""The list of open cases: filters, search, pages by key, and counts."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from django.db.models import Exists, Q, QuerySet

from verification.db.base import force_custom_plan
from verification.decisions.cases import pending_proposals
from verification.decisions.models import (
    Case,
    Decision,
    DecisionState,
    DecisionStatus,
)
from verification.reports.models import Report, fold_name
from verification.reports.queries import GRAM_LENGTH, search_condition
from verification.values.clock import now
from workspaces.models import Member

# Counts stop here, so that a long queue costs no more than a short one.
MAX_COUNT = 1_000
# No index finds one or two letters of a name: a search reads up to this many cases.
MAX_READ = 20_000


class Holder(StrEnum):
    """Whose cases a list shows."""

    MINE = "mine"
    NOBODY = "nobody"


class Wait(StrEnum):
    """For what a case waits."""

    DECISION = "decision"
    SECOND = "second"


@dataclass(frozen=True, slots=True)
class QueueFilters:
    search: str | None = None
    holder: Holder | None = None
    overdue: bool = False
    wait: Wait | None = None
    level: str | None = None
    package: str | None = None


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """Numbers of open, overdue and the member's cases, each at most MAX_COUNT + 1."""

    open: int
    overdue: int
    mine: int


class Standing(StrEnum):
    """The state of the decision about a report."""

    # The decision that counts, as in DecisionStatus
    APPROVED = "APPROVED"
    DECLINED = "DECLINED"
    REVIEW = "REVIEW"
    # A decline that does not count yet
    WAITING = "WAITING"
    PROPOSED = "PROPOSED"
    NEEDED = "NEEDED"


def standings_of(report_ids: Collection[UUID]) -> dict[UUID, Standing]:
    """Return the states of the decisions about these reports, by report ID.

    It leaves out reports that have neither a decision nor an open case.
    """
    open_cases = Case.objects.filter(pk__in=report_ids, closed_at=None)
    waiting = set(open_cases.values_list("report_id", flat=True))
    made = Decision.objects.filter(report__in=report_ids).order_by("number")
    decisions: dict[UUID, list[tuple[str, str]]] = {one: [] for one in report_ids}
    for report_id, status, state in made.values_list("report_id", "status", "state"):
        decisions[report_id].append((status, state))
    standings = {
        report_id: standing_of(of, is_open=report_id in waiting)
        for report_id, of in decisions.items()
    }
    return {one: standing for one, standing in standings.items() if standing}


def standing_of(
    decisions: Iterable[tuple[str, str]], *, is_open: bool
) -> Standing | None:
    """Return the state of a report's decision.

    A report that has neither a case nor a decision has none.

    Takes the status and state of each decision in their order. `is_open` says that the
    report has an open case.
    """
    standing = Standing.NEEDED if is_open else None
    # A later decision takes the place of an earlier one.
    for status, state in decisions:
        if state == DecisionState.PENDING:
            standing = Standing.PROPOSED
        elif state == DecisionState.WAITING:
            standing = Standing.WAITING
        elif state == DecisionState.FINAL and (
            status == DecisionStatus.REVIEW or not is_open
        ):
            standing = Standing(status)
    return standing


@force_custom_plan()
def list_cases(
    member: Member,
    environment: str,
    filters: QueueFilters,
    *,
    after: UUID | None = None,
    size: int,
) -> tuple[list[Case], UUID | None]:
    """Return open cases of the member's workspace with reports and assignees.

    They are by due time, cases without one last. The next page begins after the id that
    is returned beside them. A further page costs what the first costs. `has_proposal`
    says whether a case waits for a second member.
    """
    cases = open_cases_of(member.workspace_id, environment)
    cases = _filter(cases, member, environment, filters)
    last = _find(member.workspace_id, environment, after) if after else None
    found = _ids_after(last, cases, size + 1)
    rows = _read(found[:size])
    return rows, found[size - 1] if len(found) > size else None


@force_custom_plan()
def list_case_ids(
    member: Member, environment: str, filters: QueueFilters, size: int
) -> list[UUID]:
    """Return the ids of the first open cases of a list."""
    cases = open_cases_of(member.workspace_id, environment)
    return _ids_after(None, _filter(cases, member, environment, filters), size)


def can_search(workspace_id: UUID, environment: str, text: str) -> bool:
    """Return False if the text is too short to find a name among the open cases."""
    if len(fold_name(text)) >= GRAM_LENGTH:
        return True
    cases = open_cases_of(workspace_id, environment)
    return cases[: MAX_READ + 1].count() <= MAX_READ


def count_open(workspace_id: UUID, environment: str) -> int:
    """Return how many cases are open; at most MAX_COUNT + 1."""
    return _count(open_cases_of(workspace_id, environment))


def count_cases(member: Member, environment: str) -> QueueCounts:
    cases = open_cases_of(member.workspace_id, environment)
    return QueueCounts(
        open=_count(cases),
        overdue=_count(cases.filter(due_at__lt=now())),
        mine=_count(cases.filter(assignee=member)),
    )


def open_cases_of(workspace_id: UUID, environment: str) -> QuerySet[Case]:
    return Case.objects.filter(
        workspace=workspace_id, environment=environment, closed_at=None
    )


def _ids_after(last: Case | None, cases: QuerySet[Case], count: int) -> list[UUID]:
    """Return the ids of the cases that follow the last one of a page.

    The index alone gives them, so the tables are read for the rows of a page only. One
    condition on both parts of the list would read the index from its beginning.
    """
    ids = cases.order_by("due_at", "report_id").values_list("report_id", flat=True)
    dated, undated = ids.filter(due_at__isnull=False), ids.filter(due_at=None)
    if last and last.due_at:
        later = Q(due_at__gt=last.due_at) | Q(report__gt=last.pk)
        dated = dated.filter(later, due_at__gte=last.due_at)
    elif last:
        dated, undated = dated.none(), undated.filter(report__gt=last.pk)
    found = list(dated[:count])
    return found + list(undated[: count - len(found)])


def _filter(
    cases: QuerySet[Case], member: Member, environment: str, filters: QueueFilters
) -> QuerySet[Case]:
    if filters.holder:
        is_mine = filters.holder == Holder.MINE
        cases = cases.filter(assignee=member if is_mine else None)
    if filters.overdue:
        cases = cases.filter(due_at__lt=now())
    if filters.level:
        cases = cases.filter(risk_level=filters.level)
    if filters.package:
        cases = cases.filter(package=filters.package)
    if filters.wait == Wait.SECOND:
        proposals = Decision.objects.filter(
            workspace=member.workspace_id,
            environment=environment,
            state=DecisionState.PENDING,
        )
        cases = cases.filter(report__in=proposals.values("report"))
    if filters.wait == Wait.DECISION:
        cases = cases.filter(~Exists(pending_proposals()))
    if filters.search:
        condition, _candidates = search_condition(
            member.workspace_id, environment, filters.search
        )
        cases = cases.filter(report__in=Report.objects.filter(condition).values("pk"))
    return cases


def _find(workspace_id: UUID, environment: str, report_id: UUID) -> Case | None:
    cases = Case.objects.filter(workspace=workspace_id, environment=environment)
    return cases.filter(pk=report_id).first()


def _read(report_ids: Collection[UUID]) -> list[Case]:
    cases = Case.objects.select_related("report", "assignee__user")
    found = cases.annotate(has_proposal=Exists(pending_proposals())).in_bulk(report_ids)
    return [found[report_id] for report_id in report_ids]


def _count(cases: QuerySet[Case]) -> int:
    return cases[: MAX_COUNT + 1].count()
