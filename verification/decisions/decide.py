"""Decide about a report: approve it, decline it, or give it to a person to review.

The client's members decide in the console, its programs by API key, and its policies.
If the workspace demands a second member (`SecondMemberRule`), a decision is a proposal
until another member confirms it. An API key can propose as well; its creator cannot
confirm the proposal. A decision never changes; a later one replaces it.

A decline that needs a notice (`decisions.notices`) may wait before it counts. Until
then a member may take it back, and a new decision replaces it.

A decision rests on the results that were complete when it was made
(`Decision.result_ids`). When a correction, re-run or retry changes them,
`take_back_outdated` withdraws a proposal or a waiting decline, and opens a case for a
decision that counts. Until a person has decided again, keys and policies only propose;
keys also while another report disputes a finding.

Each verb locks the report first, and then reads the member: the role may have changed
since the page was shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max, Q

from verification.backoffice import audit
from verification.backoffice.approvals import DecisionRefused, is_second_person
from verification.checks.events import decision_event
from verification.decisions import notices
from verification.decisions.cases import (
    close_case_of,
    close_cases,
    is_closed,
    open_case,
    reports_in_review,
    return_case,
)
from verification.decisions.findings import (
    completed_results,
    find_contradictions,
    is_decidable,
    is_outdated,
    results_where,
)
from verification.decisions.models import (
    MAX_CODES,
    MAX_DECISIONS,
    CaseCause,
    Decision,
    DecisionState,
    DecisionStatus,
    MakerKind,
    PolicyVersion,
    ReasonCode,
    rule_of,
)
from verification.decisions.reason_codes import find_reasons
from verification.jobs.claims import sweep
from verification.jobs.queue import job
from verification.notifications.models import Channel
from verification.reports.models import Report
from verification.reports.request import Fault, InvalidRequest
from verification.reports.status import lock_report, locked_reports, record_note
from verification.values.clock import now
from webhooks.events import record_events
from workspaces.members import Permission, lock_member
from workspaces.models import ApiKey, Client, Member

JOB_ACTOR = "service"
# The trigger of the table lets these change, once.
CHANGEABLE = [
    "state",
    "second_by",
    "second_by_user",
    "second_at",
    "withdrawn_by",
    "withdrawn_by_user",
    "withdrawn_at",
    "final_at",
]


class Obstacle(StrEnum):
    """Why a verb is refused."""

    NOT_ENDED = "The report has not ended, so there is nothing to decide yet."
    NOT_RUN = "None of its checks was run, so there is nothing to decide."
    CANCELLED = "The report was cancelled, so there is nothing to decide."
    RESTRICTED = (
        "The subject objected to further use, so this report can no longer be decided."
    )
    ERASED = "The personal data of the report was erased."
    SUSPENDED = "The workspace is suspended."
    TOO_MANY = (
        f"The report has {MAX_DECISIONS} decisions, and takes no more from keys. "
        "Members decide in the console."
    )
    PROPOSED = "A proposal about this report waits for a second member."
    DECIDED = (
        "Another decision about this report came first. Read it, and name its id in "
        "`replaces` to decide again."
    )
    NONE_COUNTS = (
        "No decision about this report counts or waits now. Leave `replaces` out."
    )
    ANSWERED = "Somebody confirmed, refused or withdrew it meanwhile."
    CHANGED = "The findings have changed since it was proposed. Decide again."
    SAME_PERSON = (
        "Another member has to confirm it: you, a key that you made or somebody with "
        "your e-mail address proposed it."
    )


# Another decision was faster.
CONFLICTS = {
    Obstacle.PROPOSED,
    Obstacle.DECIDED,
    Obstacle.NONE_COUNTS,
    Obstacle.ANSWERED,
}


class ReportDecisionRefused(DecisionRefused):
    """The verb changed nothing; `decision_id` is the decision in its way, if any."""

    def __init__(
        self, obstacle: Obstacle, status: str, decision_id: UUID | None = None
    ) -> None:
        super().__init__(str(obstacle))
        self.obstacle, self.status = obstacle, status
        self.decision_id = decision_id


@dataclass(frozen=True, slots=True)
class NewDecision:
    """The content of a decision that is about to be made.

    `replaces` is the ID of the counting or waiting decision that its maker has seen; a
    first decision has None.
    """

    status: str
    codes: Sequence[str] = ()
    note: str = ""
    replaces: UUID | None = None
    # Why a decline does not rest on a credit bureau's result, if it does not
    not_on_bureau: str = ""


@dataclass(frozen=True, slots=True)
class Maker:
    """The maker: a member or a key with the actor of the audit trail, or a policy."""

    kind: MakerKind
    member: Member | None = None
    actor: audit.Actor | None = None
    key: ApiKey | None = None
    version: PolicyVersion | None = None
    # The policy's reasons; see `Decision.policy`
    basis: dict[str, Any] | None = None

    @classmethod
    def of_member(cls, member: Member, actor: audit.Actor) -> Maker:
        return cls(MakerKind.MEMBER, member=member, actor=actor)

    @classmethod
    def of_key(cls, key: ApiKey, actor: audit.Actor) -> Maker:
        return cls(MakerKind.API_KEY, key=key, actor=actor)

    @classmethod
    def of_policy(cls, version: PolicyVersion, basis: dict[str, Any]) -> Maker:
        return cls(MakerKind.POLICY, version=version, basis=basis)


@transaction.atomic
def decide(
    client: Client,
    report_id: UUID,
    new: NewDecision,
    maker: Maker,
    *,
    as_proposal: bool = False,
) -> Decision:
    """Decide about the client's report, or propose it where a second member is needed.

    `as_proposal` leaves the decision to a second member in any case. Raises
    Report.DoesNotExist, InvalidRequest, NotAllowed and ReportDecisionRefused.
    """
    report = lock_report(client, report_id)
    if maker.member:
        lock_member(maker.member.pk, report.workspace_id, Permission.DECIDE_REPORTS)
    if obstacle := obstacle_of(report):
        raise ReportDecisionRefused(obstacle, report.status)
    _require_present(report, new.replaces)
    reasons = _read_reasons(report, new)
    at = now()
    rule = rule_of(report.workspace)
    needs_second = (
        as_proposal
        or rule.applies_to(new.status, report.risk_score)
        or (maker.member is None and _is_for_a_person(report, new))
    )
    last = report.decisions.aggregate(last=Max("number"))["last"] or 0
    # A loop of a client leaves the report to its members.
    if maker.key is not None and last >= MAX_DECISIONS:
        raise ReportDecisionRefused(Obstacle.TOO_MANY, report.status)
    content = {
        "note": new.note or None,
        "reasons": reasons,
        "notOnBureau": new.not_on_bureau or None,
    }
    decision = Decision(
        workspace_id=report.workspace_id,
        environment=report.environment,
        report=report,
        number=last + 1,
        status=new.status,
        state=DecisionState.PENDING,
        codes=[reason["code"] for reason in reasons],
        content=content | {"policy": maker.basis} if maker.basis else content,
        made_by_kind=maker.kind,
        made_by=client.actor,
        made_by_user=maker.member.user_id if maker.member else None,
        made_by_key=maker.key.pk if maker.key else None,
        key_made_by_user=maker.key.made_by_user if maker.key else None,
        policy_version=maker.version,
        result_ids=completed_results(report),
        needs_second=needs_second,
        created_at=at,
    )
    if needs_second:
        decision.save()
        record_change(report, "decision proposed", client.actor, at)
        open_case(report, CaseCause.PROPOSED)
        if maker.member:
            return_case(report, maker.member)
    else:
        _count(report, decision, client, at)
    if maker.actor:
        verb = "proposed" if needs_second else "made"
        audit.record(f"decision.{verb}", maker.actor, decision)
        if decision.not_on_bureau:
            audit.record("decision.not-on-bureau", maker.actor, decision)
    return decision


def _is_for_a_person(report: Report, new: NewDecision) -> bool:
    """Return whether a person has to decide, so that keys and policies only propose.

    That is so if findings changed after a decision, or another report has corrected
    one, and no person has decided since; if another report disputes one; or if the
    subject has requested a review by a person.
    """
    if new.status == DecisionStatus.REVIEW:
        return False
    # A program reads only the corrections of the report itself.
    elsewhere = Q(disputed_at__isnull=False) & ~Q(report=report.pk)
    if reports_in_review([report.pk]) or results_where(report, elsewhere).exists():
        return True
    counted = {DecisionState.FINAL, DecisionState.WAITING}
    made = list(report.decisions.exclude(status=DecisionStatus.REVIEW))
    outdated = [one for one in made if is_outdated(one)]
    by_people = (
        one.state in counted and (one.made_by_user or one.second_by_user)
        for one in made
        if one not in outdated
    )
    if any(by_people):
        return False
    return bool(outdated) or results_where(report, ~Q(revision=0)).exists()


@dataclass(frozen=True, slots=True)
class Consequences:
    """The consequences of a member's decision for the client and for the person.

    `waiting_days` counts working days from the service of the notice; a decision that
    counts at once has None. `channels` are the ways to send the notice; if there is
    none, the client hands it over.
    """

    needs_second: bool
    has_notice: bool
    waiting_days: int | None
    channels: list[Channel]


def consequences_of(report: Report, new: NewDecision) -> Consequences:
    """Return what follows if a member decides so. It writes nothing."""
    decision = Decision(
        status=new.status,
        codes=list(new.codes),
        content={"notOnBureau": new.not_on_bureau or None},
        made_by_kind=MakerKind.MEMBER,
    )
    grounds = notices.grounds_of(report, decision)
    rule = rule_of(report.workspace)
    return Consequences(
        needs_second=rule.applies_to(new.status, report.risk_score),
        has_notice=grounds is not None,
        waiting_days=notices.waiting_days_of(report, grounds),
        channels=notices.channels_to(report) if grounds else [],
    )


def consequences_of_confirming(report: Report, proposal: Decision) -> Consequences:
    """Return what follows if a second member confirms it. It writes nothing."""
    other_grounds = proposal.not_on_bureau or ""
    new = NewDecision(
        proposal.status, proposal.codes or (), not_on_bureau=other_grounds
    )
    return replace(consequences_of(report, new), needs_second=False)


@transaction.atomic
def confirm(
    client: Client, decision_id: UUID, member: Member, actor: audit.Actor
) -> Decision:
    """Make a proposal count, as the second member.

    Raises Decision.DoesNotExist, NotAllowed and ReportDecisionRefused.
    """
    report, decision = _lock_decision(
        client, decision_id, member, DecisionState.PENDING
    )
    if obstacle := obstacle_to_confirm(report, decision, member):
        raise ReportDecisionRefused(obstacle, report.status, decision.pk)
    at = now()
    decision.second_by, decision.second_by_user = client.actor, member.user_id
    decision.second_at = at
    _count(report, decision, client, at)
    audit.record("decision.confirmed", actor, decision)
    return decision


def obstacle_to_confirm(
    report: Report, proposal: Decision, member: Member
) -> Obstacle | None:
    """Return the reason why the member cannot confirm the proposal, or None."""
    if proposal.state != DecisionState.PENDING:
        return Obstacle.ANSWERED
    if obstacle := obstacle_of(report):
        return obstacle
    if not is_second_person(member.user_id, proposal.makers):
        return Obstacle.SAME_PERSON
    return Obstacle.CHANGED if is_outdated(proposal) else None


@transaction.atomic
def refuse(
    client: Client, decision_id: UUID, member: Member, actor: audit.Actor
) -> Decision:
    """Refuse a proposal; its proposer may do so, too, to take it back.

    Raises Decision.DoesNotExist, NotAllowed and ReportDecisionRefused.
    """
    report, decision = _lock_decision(
        client, decision_id, member, DecisionState.PENDING
    )
    at = now()
    decision.state = DecisionState.REFUSED
    decision.second_by, decision.second_by_user = client.actor, member.user_id
    decision.second_at = at
    _save(decision)
    record_change(report, "proposal refused", client.actor, at)
    _close_case_of(report, CaseCause.PROPOSED, at)
    audit.record("decision.refused", actor, decision)
    return decision


@transaction.atomic
def withdraw(
    client: Client, decision_id: UUID, member: Member, actor: audit.Actor
) -> Decision:
    """Take back a decline that waits; the decision before it counts on.

    Raises Decision.DoesNotExist, NotAllowed and ReportDecisionRefused.
    """
    report, decision = _lock_decision(
        client, decision_id, member, DecisionState.WAITING
    )
    at = now()
    notices.end_reviews(report, at)
    _withdraw(decision, client.actor, member.user_id, at)
    notices.tell_of_withdrawal(report, at)
    record_change(report, "decline taken back", client.actor, at)
    open_case(report, CaseCause.REVIEW)
    audit.record("decision.withdrawn", actor, decision)
    return decision


@job
def finish_waiting_declines() -> None:
    """Let the declines count whose time is up, and keep the clocks of the others."""
    notices.move_clocks()
    due = notices.waiting_notices().filter(
        waits_until__lte=now(), stopped_at=None, workspace__suspended_at=None
    )
    sweep(due, finish_waiting_decline)


@transaction.atomic
def finish_waiting_decline(notice_id: UUID) -> None:
    """Let a decline count at the end of its wait, unless its results have changed."""
    report = locked_reports().get(notices=notice_id)
    take_back_outdated(report)
    waiting = notices.waiting_notices().select_related("decision")
    notice, at = waiting.filter(pk=notice_id).first(), now()
    if notice is None or notice.waits_until is None or notice.waits_until > at:
        return
    if notices.is_stopped(notice) or obstacle_of(report):
        return
    decision = notice.decision
    decision.state, decision.final_at = DecisionState.FINAL, at
    _save(decision)
    _record_decision(report, decision, decision.made_by, at)


@job
def review_decisions(*report_ids: str) -> None:
    """Withdraw outdated proposals and waiting declines of these reports.

    A report whose subject asked for a review during a retry gets its case.
    `reports.ends` schedules it in the transaction that ends the reports again, and
    `corrections.correct` for reports that reuse the corrected finding.
    """
    for report_id in report_ids:
        with transaction.atomic():
            report = locked_reports().get(pk=report_id)
            take_back_outdated(report)
            if reports_in_review([report.pk]):
                open_case(report, CaseCause.REQUESTED)


def take_back_outdated(report: Report) -> None:
    """Withdraw an outdated proposal or waiting decline, and open a case.

    An outdated decision that counts gets a case and stays until a person decides again.
    A proposal or waiting decline also ends when the report cannot be decided any more,
    such as after an objection. The caller has locked the report. A report that runs
    again is left alone until it ends.
    """
    if not report.is_ended:
        return
    at, made = now(), list(report.decisions.all())
    proposal, waiting, present = proposal_of(made), waiting_of(made), present_of(made)
    is_over = is_closed(report) or not is_decidable(report)
    pending = [one for one in (proposal, waiting) if one]
    ended = [one for one in pending if is_over or is_outdated(one)]
    if proposal in ended:
        withdraw_proposal(report, proposal, JOB_ACTOR)
    if waiting in ended:
        _withdraw(waiting, JOB_ACTOR, None, at)
        notices.tell_of_withdrawal(report, at)
        record_change(report, "decline ended before it counted", JOB_ACTOR, at)
    # A proposal or waiting decline takes the place of the decision that counts.
    counting = present if pending == ended else None
    if ended or (counting and is_outdated(counting)):
        open_case(report, CaseCause.CHANGED)


def withdraw_proposal(report: Report, proposal: Decision, actor: str) -> None:
    """Withdraw a proposal whose findings or rules changed. The caller locks the report.

    No member has refused it, so a policy may propose the same again.
    """
    at = now()
    proposal.state = DecisionState.REFUSED
    proposal.second_by, proposal.second_at = actor, at
    proposal.save(update_fields=["state", "second_by", "second_at"])
    record_change(report, "proposal withdrawn", actor, at)
    _close_case_of(report, CaseCause.PROPOSED, at)


def close_after_review(report: Report) -> None:
    """Take a report out of the queue whose review staff have ended.

    If its subject objected, too, or it was cancelled, nobody can decide any more.
    """
    take_back_outdated(report)
    if is_closed(report):
        close_cases([report.pk], now())
    else:
        _close_case_of(report, CaseCause.REQUESTED, now())


def _close_case_of(report: Report, ended: CaseCause, at: datetime) -> None:
    """Close the case if it waited for this alone, or record its new cause."""
    made = list(report.decisions.all())
    decision = waiting_of(made) or present_of(made)
    if proposal_of(made):
        open_case(report, CaseCause.PROPOSED)
    elif reports_in_review([report.pk]):
        open_case(report, CaseCause.REQUESTED)
    elif decision and decision.status == DecisionStatus.REVIEW:
        open_case(report, CaseCause.REVIEW)
    elif decision and not is_outdated(decision):
        close_case_of(report, ended, at)


def present_of(decisions: Iterable[Decision]) -> Decision | None:
    """Return the decision that counts, of all decisions of a report."""
    final = [one for one in decisions if one.state == DecisionState.FINAL]
    return max(final, key=lambda one: one.number, default=None)


def successor_of(decision: Decision) -> Decision | None:
    """Return the decision that counts in place of this earlier one, or None."""
    present = present_of(decision.report.decisions.all())
    return present if present and present.number > decision.number else None


def waiting_of(decisions: Iterable[Decision]) -> Decision | None:
    """Return the decline that waits until it counts, of all decisions of a report."""
    waiting = (one for one in decisions if one.state == DecisionState.WAITING)
    return next(waiting, None)


def proposal_of(decisions: Iterable[Decision]) -> Decision | None:
    """Return the proposal that waits, of all decisions of a report."""
    waiting = (one for one in decisions if one.state == DecisionState.PENDING)
    return next(waiting, None)


def names_of(decisions: Iterable[Decision]) -> dict[int, str]:
    """Return the names of the members who made, confirmed or refused these."""
    rows = list(decisions)
    users = {one.made_by_user for one in rows} | {one.second_by_user for one in rows}
    found = User.objects.filter(pk__in=[user for user in users if user is not None])
    return {user.pk: user.get_full_name() for user in found}


def obstacle_of(report: Report) -> Obstacle | None:
    """Return the reason why the report cannot be decided, or None."""
    if report.erased_at:
        return Obstacle.ERASED
    if report.workspace.is_suspended:
        return Obstacle.SUSPENDED
    if is_closed(report):
        is_restricted = report.restricted_at is not None
        return Obstacle.RESTRICTED if is_restricted else Obstacle.CANCELLED
    if not report.is_ended:
        return Obstacle.NOT_ENDED
    return None if is_decidable(report) else Obstacle.NOT_RUN


def _require_present(report: Report, replaces: UUID | None) -> None:
    """Refuse a decision that was made without knowledge of a newer one."""
    made = list(report.decisions.all())
    if waiting := proposal_of(made):
        raise ReportDecisionRefused(Obstacle.PROPOSED, report.status, waiting.pk)
    present = waiting_of(made) or present_of(made)
    present_id = present.pk if present else None
    if present_id != replaces:
        obstacle = Obstacle.DECIDED if present else Obstacle.NONE_COUNTS
        raise ReportDecisionRefused(obstacle, report.status, present_id)


def _read_reasons(report: Report, new: NewDecision) -> list[dict[str, str]]:
    if len(new.codes) > MAX_CODES:
        detail = f"At most {MAX_CODES} reason codes are allowed."
        raise InvalidRequest([Fault(("reasonCodes",), "too-many", detail)])
    if new.status == DecisionStatus.DECLINED and not new.codes:
        detail = "A decline needs at least one reason code."
        raise InvalidRequest([Fault(("reasonCodes",), "too-few", detail)])
    found = find_reasons(report.workspace, new.codes)
    if false := find_contradictions(report, new.codes):
        raise InvalidRequest(
            Fault(
                ("reasonCodes", n),
                "not-allowed-here",
                f"{code} contradicts the result of {', '.join(false[code])}. The "
                "person would read a false reason: name one that holds.",
            )
            for n, code in enumerate(new.codes)
            if code in false
        )
    if new.not_on_bureau:
        _require_other_grounds(new, found)
    return [reason.words for reason in found]


def _require_other_grounds(new: NewDecision, found: Iterable[ReasonCode]) -> None:
    """Refuse to say that a decline rests on no bureau's result if its reasons do."""
    place = ("notOnBureau",)
    if new.status != DecisionStatus.DECLINED:
        detail = "Only a decline says that it does not rest on a credit bureau."
        raise InvalidRequest([Fault(place, "not-allowed-here", detail)])
    if codes := [reason.code for reason in found if reason.from_bureau]:
        detail = f"The reason {codes[0]} comes from a credit bureau."
        raise InvalidRequest([Fault(place, "not-allowed-here", detail)])


def _lock_decision(
    client: Client, decision_id: UUID, member: Member, state: DecisionState
) -> tuple[Report, Decision]:
    """Return the decision with its report, which is locked, if it has this state."""
    own = Decision.objects.filter(**client.lookups)
    report_id = own.values_list("report_id", flat=True).get(pk=decision_id)
    report = lock_report(client, report_id)
    lock_member(member.pk, report.workspace_id, Permission.DECIDE_REPORTS)
    decision = own.get(pk=decision_id)
    if decision.state != state:
        raise ReportDecisionRefused(Obstacle.ANSWERED, report.status, decision.pk)
    return report, decision


def _count(report: Report, decision: Decision, client: Client, at: datetime) -> None:
    """Let the decision count, now or once the person has had time to answer.

    It takes the place of a decline that waits.
    """
    former = waiting_of(report.decisions.all())
    if former:
        _withdraw(former, client.actor, None, at)
    is_verdict = decision.status != DecisionStatus.REVIEW
    # A REVIEW answers the subject who asked for a person only by what it takes back.
    if (decision.made_by_user or decision.second_by_user) and (is_verdict or former):
        notices.end_reviews(report, at)
    if former and not is_verdict:
        notices.tell_of_withdrawal(report, at)
    grounds = notices.grounds_of(report, decision)
    days = notices.waiting_days_of(report, grounds)
    decision.state = DecisionState.WAITING if days else DecisionState.FINAL
    decision.final_at = None if days else at
    _save(decision)
    if grounds:
        notices.serve(report, decision, grounds, days, at)
    if days:
        record_change(report, "decline waits until it counts", client.actor, at)
        close_cases([report.pk], at)
    else:
        _record_decision(report, decision, client.actor, at)


def _withdraw(decision: Decision, by: str, user_id: int | None, at: datetime) -> None:
    decision.state = DecisionState.WITHDRAWN
    decision.withdrawn_by, decision.withdrawn_by_user = by, user_id
    decision.withdrawn_at = at
    _save(decision)
    notices.end_notice(decision)


def _save(decision: Decision) -> None:
    """Insert a new decision, or write what may change of it."""
    is_new = decision._state.adding
    decision.save(update_fields=None if is_new else CHANGEABLE)


def record_change(report: Report, trigger: str, actor: str, at: datetime) -> None:
    """Write the timeline, and mark the report as changed."""
    record_note(report, trigger, actor, at)
    Report.objects.filter(pk=report.pk).update(updated_at=at)


def _record_decision(
    report: Report, decision: Decision, actor: str, at: datetime
) -> None:
    """Write timeline and event of a final decision; end unserved earlier notices."""
    notices.end_former_notices(report, decision)
    notices.tell_of_successor(report, decision, at)
    record_change(report, "decided", actor, at)
    stack = list(report.results.values_list("name", "status", "id"))
    event = decision_event(report, stack, decision)
    record_events([event], at)
    if decision.status == DecisionStatus.REVIEW:
        open_case(report, CaseCause.REVIEW)
    elif not proposal_of(report.decisions.all()):
        # At the end of a decline's wait, a proposal still waits for a second member.
        close_cases([report.pk], at)
