"""Clear cases: reports without a finding to look at, which a member approves together.

A case is clear if its report is ready, its risk is low, all its checks were completed
with a score and without a flag, and it has no disputed finding, proposal or decision.
`decide` approves each report with its own record; cases that are no longer clear are
left out.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef

from verification.backoffice import audit
from verification.decisions.decide import (
    Maker,
    NewDecision,
    ReportDecisionRefused,
    decide,
)
from verification.decisions.findings import read_facts
from verification.decisions.models import (
    Case,
    CaseCause,
    Decision,
    DecisionState,
    DecisionStatus,
    rule_of,
)
from verification.decisions.rules import Facts
from verification.reports.models import Report, ReportStatus, RiskLevel
from verification.reports.status import lock_report
from workspaces.models import Client, Member

# One request examines at most MAX_EXAMINED cases of a list, approves at most
# MAX_APPROVED of them, and begins no further approval after MAX_SECONDS.
MAX_EXAMINED = 1_000
MAX_APPROVED = 100
MAX_SECONDS = 10


class Unclear(StrEnum):
    """Why a case is not approved with others."""

    CLOSED = "CLOSED"
    RUNNING = "RUNNING"
    TAKEN = "TAKEN"
    DECIDED = "DECIDED"
    SECOND = "SECOND"
    FINDINGS = "FINDINGS"


@dataclass(frozen=True, slots=True)
class SortedCases:
    clear: list[Case]
    left_out: Mapping[Unclear, list[Case]]


def sort_cases(client: Client, member: Member, ids: Collection[UUID]) -> SortedCases:
    """Sort the client's cases of these reports into clear and left out, by due time."""
    own = Case.objects.filter(**client.lookups, report__in=ids)
    decided = Decision.objects.filter(report=OuterRef("report_id"))
    cases = own.select_related("report").annotate(is_decided=Exists(decided))
    found: list[Any] = list(cases.order_by("due_at", "report_id"))
    needs_second = rule_of(client.workspace).applies_to
    why = {one.pk: _obstacle(one, member) for one in found}
    reports = [one.report for one in found if why[one.pk] is None]
    for report in reports:
        if needs_second(DecisionStatus.APPROVED, report.risk_score):
            why[report.pk] = Unclear.SECOND
    for report_id, facts in read_facts(reports).items() if reports else ():
        if why[report_id] is None and not _is_clean(facts):
            why[report_id] = Unclear.FINDINGS
    return SortedCases(
        clear=[one for one in found if why[one.pk] is None],
        left_out={
            reason: unclear
            for reason in Unclear
            if (unclear := [one for one in found if why[one.pk] == reason])
        },
    )


def approve_clear(
    client: Client, member: Member, actor: audit.Actor, report_ids: Sequence[UUID]
) -> tuple[int, int]:
    """Approve the reports that are still clear, each in its own transaction.

    Returns the numbers of approved and of unreached reports. Raises NotAllowed.
    """
    maker = Maker.of_member(member, actor)
    done, end = 0, monotonic() + MAX_SECONDS
    for place, report_id in enumerate(report_ids):
        if place == MAX_APPROVED or monotonic() >= end:
            return done, len(report_ids) - place
        try:
            with transaction.atomic():
                lock_report(client, report_id)
                if sort_cases(client, member, [report_id]).clear:
                    new = NewDecision(DecisionStatus.APPROVED)
                    decide(client, report_id, new, maker)
                    done += 1
        except (Report.DoesNotExist, ReportDecisionRefused):
            continue
    return done, 0


def count_decided(client: Client, report_ids: Collection[UUID]) -> int:
    """Return how many of the client's reports have a decision, not just a proposal."""
    made = Decision.objects.filter(
        **client.lookups,
        report__in=report_ids,
        state__in=[DecisionState.FINAL, DecisionState.WAITING],
    )
    return made.values("report").distinct().count()


def _obstacle(case: Any, member: Member) -> Unclear | None:
    """Return why a case is not clear, before its findings are read."""
    report = case.report
    if case.closed_at or report.restricted_at or report.erased_at:
        return Unclear.CLOSED
    if not report.is_ended:
        return Unclear.RUNNING
    if case.assignee_id not in {None, member.pk}:
        return Unclear.TAKEN
    if case.cause != CaseCause.ENDED or case.is_decided:
        return Unclear.DECIDED
    is_low = report.status == ReportStatus.READY and report.risk_level == RiskLevel.LOW
    return None if is_low else Unclear.FINDINGS


def _is_clean(facts: Facts) -> bool:
    """Return whether no finding needs a look; a disputed one is not whole here."""
    flags = (one.flags for one in facts.checks.values())
    return facts.is_complete and not any(flags)
