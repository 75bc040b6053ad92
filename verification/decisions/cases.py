"""The queue: cases of reports that wait for a decision, who takes them, and notes.

A report enters the queue when a person has to act: a proposal waits for a second
member, a decision is left to a person or taken back, or the subject asks for one
(`open_case`). In a workspace with a service level it enters at its end, too. A decision
that counts closes the case in its own transaction; a proposal or a REVIEW leaves it
open.

Lock order: the report (if the function locks it), the members, the case.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from verification.backoffice import audit
from verification.backoffice.approvals import DecisionRefused
from verification.db.base import run_sql
from verification.decisions.findings import is_decidable, is_outdated
from verification.decisions.models import (
    MAX_NOTES,
    AdverseNotice,
    Case,
    CaseCause,
    CaseNote,
    Decision,
    DecisionState,
    DecisionStatus,
)
from verification.jobs.queue import job
from verification.reports.models import Report, ReportStatus
from verification.reports.status import lock_report, locked_reports
from verification.values.clock import now
from workspaces.members import Permission, has_permission, lock_member
from workspaces.models import Client, Member

# A member's repeated note within this time is stored once.
DOUBLE_CLICK = timedelta(seconds=10)
# An open case keeps its time and assignee. It keeps its cause too, unless the new one
# says more than that the report has ended.
OPEN_CASE = """
INSERT INTO decisions_case AS c (report_id, workspace_id, environment, package,
    risk_level, cause, due_at, opened_at)
VALUES (%(report)s, %(workspace)s, %(environment)s, %(package)s, %(risk_level)s,
    %(cause)s, %(due)s, %(at)s)
ON CONFLICT (report_id) DO UPDATE SET
    risk_level = excluded.risk_level,
    cause = CASE WHEN c.closed_at IS NULL AND excluded.cause = 'ENDED'
        THEN c.cause ELSE excluded.cause END,
    due_at = CASE WHEN c.closed_at IS NOT NULL THEN excluded.due_at
        WHEN %(is_promised)s THEN LEAST(c.due_at, excluded.due_at)
        ELSE COALESCE(c.due_at, excluded.due_at) END,
    opened_at = CASE WHEN c.closed_at IS NULL
        THEN c.opened_at ELSE excluded.opened_at END,
    closed_at = NULL
"""


class CaseObstacle(StrEnum):
    """Why a verb is refused."""

    TAKEN = "Somebody took the case, or gave it back, meanwhile."
    HOLDS_MORE = "The member has taken a case meanwhile."
    CLOSED = "The report does not wait for a decision any more."
    TOO_MANY = f"The report has {MAX_NOTES} notes, and takes no more."


class CaseRefused(DecisionRefused):
    """The verb changed nothing; `assignee` is who has the case now."""

    def __init__(self, obstacle: CaseObstacle, assignee: Member | None = None) -> None:
        super().__init__(str(obstacle))
        self.obstacle, self.assignee = obstacle, assignee


@transaction.atomic
def open_case(
    report: Report, cause: CaseCause, *, due_at: datetime | None = None
) -> bool:
    """Put an ended report into the queue, or back into it. The caller has locked it.

    It is due at `due_at`, or after the workspace's service level, if it has one.
    Calling it again changes nothing. Returns False if the report cannot wait: it runs,
    none of its checks was run, or it was cancelled, restricted or erased.
    """
    at, hours = now(), report.workspace.decision_hours
    due = due_at
    if due is None and hours is not None:
        due = at + timedelta(hours=hours)
    if is_closed(report):
        # The end of a review may have left the report to nobody.
        close_cases([report.pk], at)
        return False
    if report.erased_at or not is_decidable(report):
        return False
    values: dict[str, Any] = {
        "report": report.pk,
        "workspace": report.workspace_id,
        "environment": report.environment,
        "package": report.package,
        "risk_level": report.risk_level,
        "cause": cause,
        "due": due,
        "at": at,
        "is_promised": due_at is not None,
    }
    run_sql(OPEN_CASE, values)
    return True


def is_closed(report: Report) -> bool:
    """Return whether nobody can decide after an objection or a cancellation.

    They do not end a review by a person that the subject asked for, too.
    """
    is_cancelled = report.status == ReportStatus.CANCELLED
    is_over = is_cancelled or report.restricted_at is not None
    return is_over and not reports_in_review([report.pk])


def reports_in_review(report_ids: Collection[UUID]) -> set[UUID]:
    """Return those of these reports whose subject waits for a review by a person."""
    asked = AdverseNotice.objects.filter(
        report__in=report_ids, review_asked_at__isnull=False, reviewed_at=None
    )
    return set(asked.values_list("report_id", flat=True))


@job
def open_cases(*report_ids: str) -> None:
    """Put reports that have just ended into the queue, unless they are decided.

    `reports.ends` schedules it if the workspace has a service level.
    """
    for report_id in report_ids:
        with transaction.atomic():
            report = locked_reports().get(pk=report_id)
            has_hours = report.workspace.decision_hours is not None
            if has_hours and report.completed_at and not _is_decided(report):
                open_case(report, CaseCause.ENDED)


def close_cases(report_ids: Collection[UUID], at: datetime) -> None:
    """Take reports out of the queue. The caller has locked them."""
    waiting = Case.objects.filter(report__in=report_ids, closed_at=None)
    waiting.update(closed_at=at, assignee=None)


def close_case_of(report: Report, cause: CaseCause, at: datetime) -> None:
    """Close the case of a decided report that waited for this cause alone."""
    waiting = Case.objects.filter(report=report, cause=cause)
    waiting.filter(closed_at=None).update(closed_at=at, assignee=None)


def return_case(report: Report, member: Member) -> None:
    """Give the case of a member who proposes back, so that a second one finds it."""
    Case.objects.filter(report=report, assignee=member).update(assignee=None)


def refresh_case(report: Report) -> None:
    """Let the case know the new level of its report."""
    Case.objects.filter(report=report).update(risk_level=report.risk_level)


@job
def release_cases(member_id: str) -> None:
    """Unassign the cases of a member who may decide no longer."""
    with transaction.atomic():
        members = Member.objects.select_for_update(no_key=True)
        member = members.filter(pk=member_id).first()
        if member and not has_permission(member, Permission.DECIDE_REPORTS):
            Case.objects.filter(assignee=member).update(assignee=None)


@transaction.atomic
def assign(
    client: Client,
    report_id: UUID,
    member: Member,
    actor: audit.Actor,
    *,
    to: UUID | None,
    seen: UUID | None,
) -> Case:
    """Give a case to a member, or to nobody; `seen` is who has it as `member` knows.

    Raises Case.DoesNotExist, NotAllowed and CaseRefused.
    """
    # The fixed order prevents a deadlock of two members who give each other cases.
    for member_id in sorted({member.pk, to or member.pk}):
        lock_member(member_id, client.workspace.pk, Permission.DECIDE_REPORTS)
    case = _locked_cases(client).get(pk=report_id)
    if case.closed_at:
        raise CaseRefused(CaseObstacle.CLOSED)
    if case.assignee_id == to:
        return case
    if case.assignee_id != seen:
        raise CaseRefused(CaseObstacle.TAKEN, case.assignee)
    return _assign(case, to, actor)


def count_held(member: Member, environment: str) -> int:
    """Return how many open cases the member has."""
    return Case.objects.filter(assignee=member, environment=environment).count()


@transaction.atomic
def take_next(
    client: Client,
    member: Member,
    actor: audit.Actor,
    *,
    held: int | None = None,
    but: UUID | None = None,
) -> Case | None:
    """Assign the unassigned case that is due first to the member, and return it.

    It skips cases whose checks run again, and cases in which another member has to
    answer this member's proposal. `held` is the number of the member's cases when the
    form was shown: a double click takes one case. `but` is a report to skip. Raises
    NotAllowed and CaseRefused.
    """
    lock_member(member.pk, client.workspace.pk, Permission.DECIDE_REPORTS)
    if held is not None and count_held(member, client.environment) > held:
        raise CaseRefused(CaseObstacle.HOLDS_MORE)
    free = _free_cases(_locked_cases(client, skip_locked=True), member, but)
    case = free.first()
    return _assign(case, member.pk, actor) if case else None


def next_case(
    client: Client, member: Member, actor: audit.Actor, after: Case
) -> Case | None:
    """Return the member's case that is due after this one, or the first unassigned one.

    An assignee of this case is assigned the unassigned one, too, so that two members
    who work through the queue do not decide the same case. For other members it stays
    unassigned. Raises NotAllowed.
    """
    own = Case.objects.filter(
        assignee=member,
        environment=client.environment,
        closed_at=None,
        report__completed_at__isnull=False,
    )
    dated = Q(due_at__gt=after.due_at) | Q(due_at=after.due_at, report__gt=after.pk)
    later = Q(due_at=None, report__gt=after.pk)
    if after.due_at:
        later = dated | Q(due_at=None)
    case = own.filter(later).order_by("due_at", "report_id").first()
    if case or after.assignee_id == member.pk:
        return case or take_next(client, member, actor, but=after.pk)
    return _free_cases(_cases(client), member, after.pk).first()


@transaction.atomic
def add_note(
    client: Client, report_id: UUID, member: Member, actor: audit.Actor, text: str
) -> CaseNote:
    """Add a note to a report; a double click adds one.

    Raises Report.DoesNotExist, NotAllowed and CaseRefused.
    """
    report = lock_report(client, report_id)
    lock_member(member.pk, client.workspace.pk, Permission.DECIDE_REPORTS)
    if report.erased_at:
        raise CaseRefused(CaseObstacle.CLOSED)
    recent = CaseNote.objects.filter(
        report=report,
        author_user=member.user_id,
        created_at__gt=now() - DOUBLE_CLICK,
    )
    for earlier in recent:
        if earlier.text == text:
            return earlier
    if report.case_notes.count() >= MAX_NOTES:
        raise CaseRefused(CaseObstacle.TOO_MANY)
    note = CaseNote.objects.create(
        report=report,
        text=text,
        author=client.actor,
        author_user=member.user_id,
        created_at=now(),
    )
    audit.record("case.noted", actor, note, workspace_id=client.workspace.pk)
    return note


def pending_proposals() -> QuerySet[Decision]:
    """Return the proposals that wait, for the case of an outer query."""
    return Decision.objects.filter(
        report=OuterRef("report_id"), state=DecisionState.PENDING
    )


def _is_decided(report: Report) -> bool:
    # A decline that waits for the person's answer is decided, too.
    counted = report.decisions.filter(
        state__in=[DecisionState.FINAL, DecisionState.WAITING]
    )
    last = counted.order_by("-number").first()
    if last is None or last.status == DecisionStatus.REVIEW:
        return False
    return not is_outdated(last)


def _cases(client: Client) -> QuerySet[Case]:
    return Case.objects.filter(**client.lookups)


def _locked_cases(client: Client, *, skip_locked: bool = False) -> QuerySet[Case]:
    return _cases(client).select_for_update(
        of=("self",), no_key=True, skip_locked=skip_locked
    )


def _free_cases(
    cases: QuerySet[Case], member: Member, but: UUID | None
) -> QuerySet[Case]:
    """Return the cases that the member may take, by due time; skip the report `but`."""
    own = Q(made_by_user=member.user_id) | Q(key_made_by_user=member.user_id)
    free = cases.filter(
        ~Exists(pending_proposals().filter(own)),
        closed_at=None,
        assignee=None,
        report__completed_at__isnull=False,
    )
    return free.exclude(pk=but).order_by("due_at", "report_id")


def _assign(case: Case, to: UUID | None, actor: audit.Actor) -> Case:
    case.assignee_id = to
    case.save(update_fields=["assignee"])
    audit.record("case.assigned", actor, case, workspace_id=case.workspace_id)
    return case
