"""Policies: their versions, their decisions when a report ends, and the dry run.

A policy decides once about a report and never overrules a person: after a re-run or a
correction it only proposes. `reports.ends` schedules `apply_policy` when a report ends,
if the workspace has an active version. The job sees only reports that ran checks
(`findings.decidable_reports`).
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Max, Q
from django.utils.translation import gettext_noop as _

from verification.backoffice import audit
from verification.checks.models import CheckDefinition, CheckPackage
from verification.consents.models import Consent
from verification.db.base import run_sql
from verification.decisions.decide import (
    Maker,
    NewDecision,
    Obstacle,
    decide,
    obstacle_of,
    present_of,
    proposal_of,
    take_back_outdated,
    waiting_of,
    withdraw_proposal,
)
from verification.decisions.findings import (
    decidable_reports,
    disputed_reports,
    read_facts,
    results_where,
)
from verification.decisions.models import (
    Decision,
    DecisionState,
    DecisionStatus,
    MakerKind,
    PolicyMode,
    PolicyState,
    PolicyVersion,
)
from verification.decisions.reason_codes import codes_of
from verification.decisions.rules import (
    Known,
    Outcome,
    RuleFault,
    Rules,
    evaluate,
    find_faults,
    found_values,
    read_rules,
    write_rules,
)
from verification.jobs.queue import job, schedule_job
from verification.reports.models import Report
from verification.reports.status import locked_reports
from verification.values.clock import now
from workspaces.members import Permission, lock_workspace, require_present
from workspaces.models import Client, Member, Workspace

DRY_RUN_REPORTS = 1000
# The job asks again about a report of a suspended workspace after this time.
SUSPENDED_DELAY = timedelta(hours=1)

DECIDED = """
SELECT DISTINCT ON (d.report_id) d.report_id,
    CASE WHEN d.state = 'FINAL' THEN d.status ELSE 'OPEN' END
FROM decisions_decision d
WHERE d.report_id = ANY(%s) AND d.state IN ('FINAL', 'PENDING', 'WAITING')
ORDER BY d.report_id, d.state = 'FINAL' DESC, d.number DESC
"""


# In place of the status of a decision that does not count yet
OPEN = "OPEN"


class PolicyObstacle(StrEnum):
    """Why a verb about a version is refused."""

    HAS_DRAFT = _("There is a draft already.")
    CHANGED = _(
        "Nothing was done: somebody changed the draft meanwhile. Read it again."
    )
    NO_DRAFT = _("Nothing was done: somebody switched the version on meanwhile.")
    NOT_ACTIVE = _("Nothing was done: the version is not active any more.")
    NO_RULES = _("Add a rule first.")
    BROKEN = _("Nothing was done: a rule names something that no longer exists.")


class PolicyRefused(Exception):
    """The verb changed nothing."""

    def __init__(self, obstacle: PolicyObstacle) -> None:
        super().__init__(str(obstacle))
        self.obstacle = obstacle


def versions_of(client: Client) -> Any:
    """Return the versions of the client's policy, newest first."""
    own = PolicyVersion.objects.filter(**client.lookups)
    return own.order_by("-number")


def digest_of(version: PolicyVersion) -> str:
    """Return what a form names so that it changes only rules that its member saw."""
    text = json.dumps(version.rules, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def known_to(workspace: Workspace) -> Known:
    """Return what the rules of a workspace can name at this moment."""
    packages = CheckPackage.objects.known_to(workspace.pk).filter(active=True)
    return Known(
        {one.name: one for one in CheckDefinition.objects.filter(active=True)},
        list(packages.values_list("name", flat=True)),
        [one.code for one in codes_of(workspace) if one.active],
    )


def faults_of(version: PolicyVersion) -> list[RuleFault]:
    return find_faults(read_rules(version.rules), known_to(version.workspace))


def is_broken(client: Client) -> bool:
    """Return whether the active version has met a report and is broken still."""
    found = versions_of(client).filter(
        state=PolicyState.ACTIVE, broken_at__isnull=False
    )
    return any(faults_of(one) for one in found.select_related("workspace"))


@transaction.atomic
def open_draft(
    client: Client, member: Member, actor: audit.Actor, base: PolicyVersion | None
) -> PolicyVersion:
    """Open a draft with the rules of another version. Raises PolicyRefused."""
    _lock(client, member)
    own = versions_of(client)
    if own.filter(state=PolicyState.DRAFT).exists():
        raise PolicyRefused(PolicyObstacle.HAS_DRAFT)
    draft = PolicyVersion.objects.create(
        **client.lookups,
        number=(own.aggregate(last=Max("number"))["last"] or 0) + 1,
        rules=base.rules if base else [],
        mode=base.mode if base else PolicyMode.PROPOSE,
        made_by_user=member.user_id,
    )
    audit.record("policy.drafted", actor, draft)
    return draft


@dataclass(frozen=True, slots=True)
class SeenDraft:
    """A draft as a member has seen it, who acts on it; `digest` is that of the form."""

    id: UUID
    digest: str


@transaction.atomic
def save_draft(
    client: Client, seen: SeenDraft, rules: Rules, member: Member, actor: audit.Actor
) -> PolicyVersion:
    """Give a draft these rules. Raises PolicyRefused and PolicyVersion.DoesNotExist."""
    draft = _lock_draft(client, seen, member)
    draft.rules = write_rules(rules)
    draft.save(update_fields=["rules"])
    audit.record("policy.edited", actor, draft, fields=["rules"])
    return draft


@transaction.atomic
def discard_draft(
    client: Client, seen: SeenDraft, member: Member, actor: audit.Actor
) -> None:
    """Delete a draft. Raises PolicyRefused and PolicyVersion.DoesNotExist."""
    draft = _lock_draft(client, seen, member)
    audit.record("policy.discarded", actor, draft)
    draft.delete()


@transaction.atomic
def activate(
    client: Client, seen: SeenDraft, mode: str, member: Member, actor: audit.Actor
) -> PolicyVersion:
    """Switch a draft on, in this mode, in the place of the active version.

    Raises PolicyRefused and PolicyVersion.DoesNotExist.
    """
    draft = _lock_draft(client, seen, member)
    if not draft.rules:
        raise PolicyRefused(PolicyObstacle.NO_RULES)
    if faults_of(draft):
        raise PolicyRefused(PolicyObstacle.BROKEN)
    at = now()
    _retire(versions_of(client).filter(state=PolicyState.ACTIVE))
    draft.state, draft.mode = PolicyState.ACTIVE, mode
    draft.activated_at, draft.activated_by_user = at, member.user_id
    draft.save(update_fields=["state", "mode", "activated_at", "activated_by_user"])
    audit.record("policy.activated", actor, draft)
    return draft


@transaction.atomic
def switch_off(
    client: Client, version_id: UUID, member: Member, actor: audit.Actor
) -> None:
    """Switch the active version off, so that only people and keys decide.

    Raises PolicyRefused and PolicyVersion.DoesNotExist.
    """
    _lock(client, member)
    version = versions_of(client).get(pk=version_id)
    if version.state != PolicyState.ACTIVE:
        raise PolicyRefused(PolicyObstacle.NOT_ACTIVE)
    _retire(versions_of(client).filter(pk=version_id))
    audit.record("policy.switched-off", actor, version)


def _retire(versions: Any) -> None:
    versions.update(state=PolicyState.RETIRED, retired_at=now())


def _lock(client: Client, member: Member) -> None:
    """Let members change policies one after another, with the roles of this moment."""
    lock_workspace(client.workspace.pk)
    require_present(member, Permission.MANAGE_SETTINGS)


def _lock_draft(client: Client, seen: SeenDraft, member: Member) -> PolicyVersion:
    _lock(client, member)
    draft = versions_of(client).select_related("workspace").get(pk=seen.id)
    if draft.state != PolicyState.DRAFT:
        raise PolicyRefused(PolicyObstacle.NO_DRAFT)
    if digest_of(draft) != seen.digest:
        raise PolicyRefused(PolicyObstacle.CHANGED)
    return draft


def schedule_policy(report: Report) -> None:
    """Ask the active policy about a report whose findings have changed."""
    if report.monitoring_id is None and PolicyVersion.active_for(report):
        schedule_job(apply_policy, report.pk)


@job
@transaction.atomic
def apply_policy(report_id: str) -> None:
    """Decide, or propose, what the active policy says about a report that has ended.

    It does nothing if the policy's last outcome was the same, or if a person has
    decided, or if no version was on when the report ended. A report with a finding that
    it or another report disputes waits until the correction is closed, and a report of
    a suspended workspace until it is resumed.
    """
    report = locked_reports().filter(pk=UUID(report_id)).first()
    if report is None:
        return
    if obstacle := obstacle_of(report):
        if obstacle == Obstacle.SUSPENDED:
            schedule_job(apply_policy, report.pk, at=now() + SUSPENDED_DELAY)
        return
    version = PolicyVersion.active_for(report)
    disputed = results_where(report, Q(disputed_at__isnull=False))
    if version is None or not _was_on(report) or disputed.exists():
        return
    take_back_outdated(report)
    made = list(report.decisions.all())
    present, proposal = waiting_of(made) or present_of(made), proposal_of(made)
    kinds = {one.made_by_kind for one in (present, proposal) if one}
    if kinds - {MakerKind.POLICY}:
        return
    outcome, basis = _ask(version, report)
    if proposal and not _is_same(proposal, outcome):
        withdraw_proposal(report, proposal, str(version))
    if any(_is_same(one, outcome) for one in (present, _last_said(made)) if one):
        return
    is_review = outcome.status == DecisionStatus.REVIEW
    decide(
        Client.of(report.workspace, report.environment, str(version)),
        report.pk,
        NewDecision(
            outcome.status, outcome.codes, replaces=present.pk if present else None
        ),
        Maker.of_policy(version, basis),
        # A policy that has spoken before, or that a person has refused, only proposes.
        as_proposal=bool(made) or not (is_review or _decides_alone(version, report)),
    )


def _was_on(report: Report) -> bool:
    """Return whether a version of the client's policy was on when the report ended."""
    own = PolicyVersion.objects.filter(
        workspace=report.workspace_id, environment=report.environment
    )
    on = own.filter(activated_at__lte=report.completed_at)
    return on.exclude(retired_at__lte=report.completed_at).exists()


def _decides_alone(version: PolicyVersion, report: Report) -> bool:
    """Return whether the version decides, and no notice of ours promised otherwise.

    Under an attested consent the client's own notice says that rules can decide alone.
    """
    unaware = Consent.objects.filter(
        report=report, mode=Consent.Mode.SERVICE_HOSTED, shown_automation=False
    )
    return version.mode == PolicyMode.DECIDE and not unaware.exists()


def _ask(version: PolicyVersion, report: Report) -> tuple[Outcome, dict[str, Any]]:
    """Return the outcome, and what the decision keeps of its reasons."""
    rules = read_rules(version.rules)
    if find_faults(rules, known_to(version.workspace)):
        if version.broken_at is None:
            version.broken_at = now()
            version.save(update_fields=["broken_at"])
        return Outcome(DecisionStatus.REVIEW), {"rule": None, "isBroken": True}
    facts = read_facts([report])[report.pk]
    outcome = evaluate(rules, facts)
    rule = rules[outcome.rule - 1] if outcome.rule else None
    return outcome, {
        "rule": outcome.rule,
        "found": found_values(rule, facts) if rule else [],
        "unanswered": outcome.unanswered,
        "isBroken": False,
        "contradicted": outcome.contradicted,
    }


def _last_said(made: Iterable[Decision]) -> Decision | None:
    """Return the policy's last decision or proposal that it has not withdrawn."""
    said = [
        one
        for one in made
        if one.made_by_kind == MakerKind.POLICY
        and (one.state != DecisionState.REFUSED or one.second_by_user)
    ]
    return max(said, key=lambda one: one.number, default=None)


def _is_same(decision: Decision, outcome: Outcome) -> bool:
    same = decision.status == outcome.status
    return same and tuple(decision.codes or ()) == outcome.codes


@dataclass(frozen=True, slots=True)
class Difference:
    """A report that was decided otherwise; `decided` is None if nobody decided."""

    report_id: UUID
    decided: str | None
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class DryRun:
    """The outcomes of rules for the undisputed reports that ended last.

    `counts` is by the status of the real decision and of the rules: None without one,
    OPEN for a proposal or decline that does not count yet. `hits` is by the number of
    the rule that matched (None if no rule did).
    """

    total: int
    counts: Mapping[tuple[str | None, str], int]
    hits: Mapping[int | None, int]
    differences: list[Difference]


def dry_run(client: Client, rules: Rules) -> DryRun:
    """Compare rules with the decisions about the last reports. It writes nothing."""
    recent = (
        decidable_reports()
        .filter(
            **client.lookups,
            erased_at=None,
            restricted_at=None,
            monitoring_id=None,
        )
        # A policy waits until the correction is closed.
        .exclude(pk__in=disputed_reports())
        .order_by("-completed_at")
    )
    facts = read_facts(recent[:DRY_RUN_REPORTS])
    decided = dict(run_sql(DECIDED, [list(facts)]))
    compared = [
        Difference(pk, decided.get(pk), evaluate(rules, facts[pk])) for pk in facts
    ]
    counts = Counter((one.decided, one.outcome.status) for one in compared)
    differences = [
        one for one in compared if one.decided not in {None, OPEN, one.outcome.status}
    ]
    hits = Counter(one.outcome.rule for one in compared)
    return DryRun(len(facts), counts, hits, differences)
