"""Pause and resume rules, and notify members of paused rules."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, Value, When

from monitoring.models import (
    PauseReason,
    Rule,
    RuleStatus,
    Run,
    lock_rule,
    locked_rules,
)
from monitoring.rules import (
    find_run_obstacle,
    leave_out_referees,
    price_of,
    read_new_attestation,
)
from verification.backoffice import audit
from verification.checks.models import CheckResult, ResultStatus
from verification.checks.packages import package_of
from verification.db.ids import number_of_id, uuid7
from verification.jobs.names import JobName
from verification.jobs.queue import job, schedule_job
from verification.links import console_url
from verification.notifications.models import Kind
from verification.reports.ends import end_early
from verification.reports.models import Report, ReportStatus
from verification.reports.request import Catalogue, ConsentInput, catalogue
from verification.reports.status import SUBJECT_ACTOR, locked_reports
from verification.values.clock import now
from workspaces.ledger import InsufficientBalance, account_of
from workspaces.member_messages import notify_members
from workspaces.members import lock_active_workspace
from workspaces.models import Client, MemberMessage, Workspace

# Reasons of the service: the client did not pause these rules.
NOTIFIED_REASONS = {
    PauseReason.CONSENT_WITHDRAWN,
    PauseReason.OBJECTION,
    PauseReason.INSUFFICIENT_BALANCE,
    PauseReason.CHECK_INACTIVE,
}
# A job that pauses thousands of rules takes this long at most.
GATHER_DELAY = timedelta(seconds=30)
# Rules that a message names.
MAX_NAMED_RULES = 10


class NotResumable(Exception):
    """The rule stays paused; the text says why, `reason` is the pause reason."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def stop_rules(rule_ids: Sequence[UUID]) -> datetime:
    """Pause locked rules that are about to be deleted; return the time.

    Only staff could resume them.
    """
    at = now()
    Rule.objects.filter(pk__in=rule_ids).update(
        status=RuleStatus.PAUSED, pause_reason=PauseReason.BY_STAFF, paused_at=at
    )
    return at


def delete_rules(rule_ids: Sequence[UUID]) -> int:
    """Delete stopped rules; return how many there were. Needs a transaction."""
    # A comparison of a run holds the lock of its rule. It has ended after this lock.
    rules = list(locked_rules().filter(pk__in=rule_ids))
    Rule.objects.filter(pk__in=[rule.pk for rule in rules]).delete()
    return len(rules)


def pause(rules: Sequence[Rule], reason: PauseReason) -> int:
    """Pause locked rules; return how many. Paused rules keep their reason."""
    at, ids = now(), [rule.pk for rule in rules if rule.is_active]
    if not ids:
        return 0
    active = Rule.objects.filter(pk__in=ids)
    paused = active.update(
        status=RuleStatus.PAUSED, pause_reason=reason, paused_at=at, notified_at=None
    )
    schedule_message(reason, at)
    return paused


def pause_for_withdrawal(
    rule_ids: Collection[UUID], run_ids: Collection[UUID] = ()
) -> list[Report]:
    """Pause the rules on a subject who withdrew consent, and cancel current runs.

    `run_ids` are reports that deleted rules made. Returns the reports whose checks
    could run now or again, locked.
    """
    _pause_for_subject(rule_ids, PauseReason.CONSENT_WITHDRAWN)
    stoppable = locked_reports().filter(stoppable_runs(rule_ids, run_ids))
    runs, at = list(stoppable.order_by("pk")), now()
    for run in runs:
        if not run.is_ended:
            target, trigger = ReportStatus.CANCELLED, "consent withdrawn"
            end_early(run, target, trigger, SUBJECT_ACTOR, at)
    return runs


def stoppable_runs(rule_ids: Collection[UUID], run_ids: Collection[UUID]) -> Q:
    """Return the condition for reports that `pause_for_withdrawal` locks."""
    # A retry that holds the lock makes an ended run current: it is locked, too.
    open_checks = CheckResult.objects.filter(
        Q(status=ResultStatus.FAILED) | Q(disputed_at__isnull=False),
        report=OuterRef("pk"),
    )
    of_rules = Q(pk__in=Run.objects.filter(rule__in=rule_ids).values("report"))
    return Q(
        of_rules | Q(pk__in=run_ids), Q(completed_at=None) | Q(Exists(open_checks))
    )


def pause_for_objection(rule_ids: Collection[UUID]) -> QuerySet[Report]:
    """Pause the rules on a subject who objected.

    Returns the reports of their runs under way, for the caller to cancel.
    """
    _pause_for_subject(rule_ids, PauseReason.OBJECTION)
    return Report.objects.filter(
        monitoring_run__rule__in=rule_ids, completed_at__isnull=True
    )


def _pause_for_subject(rule_ids: Collection[UUID], reason: PauseReason) -> None:
    """Pause these rules.

    They need a new consent to be resumed, even if they were paused before.
    """
    ids = [rule.pk for rule in locked_rules().filter(pk__in=rule_ids)]
    at = now()
    if not ids:
        return
    by_staff = Q(pause_reason=PauseReason.BY_STAFF)
    # Retention erases rules that have been paused for long.
    before = Q(status=RuleStatus.PAUSED)
    Rule.objects.filter(pk__in=ids).update(
        status=RuleStatus.PAUSED,
        # Rules that staff paused stay with staff; the withdrawal counts when staff
        # resume them.
        pause_reason=Case(
            When(by_staff, then=F("pause_reason")),
            default=Value(reason.value),
        ),
        paused_at=Case(When(before, then=F("paused_at")), default=Value(at)),
        consent_withdrawn_at=at,
        notified_at=None,
    )
    schedule_message(reason, at)


@transaction.atomic
def pause_for_client(client: Client, rule_id: UUID, actor: audit.Actor) -> Rule:
    rule = lock_rule(client, rule_id)
    if pause([rule], PauseReason.BY_CLIENT):
        audit.record("rule.paused", actor, rule)
        rule.refresh_from_db()
    elif rule.pause_reason == PauseReason.BY_STAFF and not rule.paused_by_client:
        audit.record("rule.paused", actor, rule)
        rule.paused_by_client = True
        rule.save(update_fields=["paused_by_client"])
    return rule


@transaction.atomic
def pause_for_staff(rule_id: UUID) -> bool:
    """Pause a rule so that only staff can resume it.

    Returns False if staff have paused it before.
    """
    rule = locked_rules().get(pk=rule_id)
    if rule.pause_reason == PauseReason.BY_STAFF:
        return False
    rule.paused_by_client = rule.pause_reason == PauseReason.BY_CLIENT
    rule.status, rule.pause_reason = RuleStatus.PAUSED, PauseReason.BY_STAFF
    rule.paused_at = now()
    rule.save(update_fields=["status", "pause_reason", "paused_at", "paused_by_client"])
    return True


def resume_for_client(
    client: Client,
    rule_id: UUID,
    consent: ConsentInput | None,
    definitions: Catalogue,
    actor: audit.Actor,
    *,
    seen: str | None = None,
) -> Rule:
    """Resume a rule: a missed run is made at once, and the next at its time.

    If staff paused it, only the client's own pause ends, which is committed. The caller
    has no transaction of its own.

    `consent` is the attestation that the rule needs if its subject withdrew, `seen` the
    pause reason that a member has seen, if it must still hold. Raises NotResumable,
    InvalidRequest if that consent is not valid, InsufficientBalance if the account
    cannot pay a missed run, or WorkspaceSuspended.
    """
    with transaction.atomic():
        lock_active_workspace(client.workspace.pk)
        rule = lock_rule(client, rule_id)
        is_resumed = not rule.is_active
        if not rule.is_active and seen not in {None, rule.pause_reason}:
            raise NotResumable("CHANGED", "Another reason pauses it now.")
        if rule.pause_reason == PauseReason.BY_STAFF:
            is_resumed, rule.paused_by_client = rule.paused_by_client, False
            rule.save(update_fields=["paused_by_client"])
        else:
            if consent is not None:
                rule.consent = read_new_attestation(rule, consent, definitions)
                rule.consent_withdrawn_at = None
            _resume(rule, definitions)
        if is_resumed:
            audit.record("rule.resumed", actor, rule)
    if not rule.is_active:
        ended = " Your own pause has ended." if is_resumed else ""
        message = f"Staff paused it, and staff resume it.{ended}"
        raise NotResumable(rule.pause_reason, message)
    return rule


@transaction.atomic
def resume_for_staff(rule_id: UUID) -> bool:
    """Resume a rule, or end only the pause by staff; return False if it was not paused.

    Raises InsufficientBalance, WorkspaceSuspended, or NotResumable if a consent is
    needed, which staff cannot give.
    """
    lock_active_workspace(Rule.objects.get(pk=rule_id).workspace_id)
    rule = locked_rules().get(pk=rule_id)
    if rule.is_active:
        return False
    withdrawn_at = rule.consent_withdrawn_at
    is_stopped = bool(withdrawn_at or rule.paused_by_client)
    if rule.pause_reason == PauseReason.BY_STAFF and is_stopped:
        # Now the client can resume it, with a new consent if the subject withdrew.
        rule.pause_reason = PauseReason.BY_CLIENT
        if withdrawn_at:
            objected = rule.runs.filter(report__restricted_at__gte=withdrawn_at)
            rule.pause_reason = PauseReason.CONSENT_WITHDRAWN
            if objected.exists():
                rule.pause_reason = PauseReason.OBJECTION
        rule.save(update_fields=["pause_reason"])
        return True
    _resume(rule, catalogue())
    return True


def _resume(rule: Rule, definitions: Catalogue) -> None:
    if rule.is_active:
        return
    if rule.consent_withdrawn_at:
        did = "objected" if rule.pause_reason == PauseReason.OBJECTION else "withdrew"
        message = f"The subject {did}: attest a consent that was given after that."
        raise NotResumable(rule.pause_reason, message)
    if why := find_run_obstacle(rule, definitions):
        raise NotResumable(PauseReason.CHECK_INACTIVE, why)
    if rule.next_run_at <= now():
        _require_balance(rule, definitions)
    rule.status, rule.pause_reason, rule.paused_at = RuleStatus.ACTIVE, "", None
    rule.put_off_until, rule.launch_failures, rule.last_error = None, 0, ""
    rule.save(
        update_fields=[
            "status",
            "pause_reason",
            "paused_at",
            "consent",
            "consent_withdrawn_at",
            "put_off_until",
            "launch_failures",
            "last_error",
        ]
    )
    # `ensure_job_by` would rely on a waiting job, which may run before the commit.
    schedule_job(JobName.LAUNCH_DUE_RUNS, at=rule.next_run_at)


def _require_balance(rule: Rule, definitions: Catalogue) -> None:
    leave_out_referees([rule])
    price = price_of(rule, definitions, package_of(rule))
    account = account_of(rule.workspace, rule.environment)
    balance = account.spendable
    if balance is not None and price and balance < price:
        raise InsufficientBalance(price, account)


@transaction.atomic
def delete_rule(client: Client, rule_id: UUID, actor: audit.Actor) -> None:
    """Delete a rule. Its reports and alerts stay; a current run raises no alert."""
    rule = lock_rule(client, rule_id)
    audit.record("rule.deleted", actor, rule)
    rule.delete()


def schedule_message(reason: PauseReason, at: datetime) -> None:
    """Schedule the message in the caller's transaction, which has paused rules."""
    if reason in NOTIFIED_REASONS:
        schedule_job(notify_paused, at=at + GATHER_DELAY)


@job
def notify_paused() -> None:
    """Notify members of paused rules: one message for all rules of one reason.

    Several of these jobs may run at the same time.
    """
    groups = _unnotified().values_list("workspace", "environment", "pause_reason")
    for workspace_id, environment, reason in list(groups.order_by().distinct()):
        _notify_members(workspace_id, environment, PauseReason(reason))


def _unnotified() -> QuerySet[Rule]:
    return Rule.objects.filter(
        notified_at=None, pause_reason__in=list(NOTIFIED_REASONS)
    )


@transaction.atomic
def _notify_members(workspace_id: UUID, environment: str, reason: PauseReason) -> None:
    paused = _unnotified().filter(
        workspace=workspace_id, environment=environment, pause_reason=reason
    )
    locked = paused.select_for_update(no_key=True).order_by("pk")
    rules = list(locked.values_list("pk", flat=True))
    if not rules:
        return
    Rule.objects.filter(pk__in=rules).update(notified_at=now())
    notify_members(
        Workspace.objects.get(pk=workspace_id),
        environment,
        MemberMessage.RULES_PAUSED,
        Kind.MONITORING_PAUSED,
        f"monitoring-paused:{uuid7()}",
        {
            "environment": environment,
            "reason": reason.value,
            "count": len(rules),
            "rules": _lines(rules[:MAX_NAMED_RULES], workspace_id, environment),
            "more": max(0, len(rules) - MAX_NAMED_RULES),
        },
    )


def _lines(rule_ids: Sequence[UUID], workspace_id: UUID, environment: str) -> list[str]:
    """Return the number of each rule's last report, with the rule's page.

    Names and references would outlive the erasure of the subject.
    """
    runs = Run.objects.filter(rule__in=rule_ids).order_by("rule", "-number")
    last = dict(runs.distinct("rule").values_list("rule", "report"))
    lines = []
    for pk in rule_ids:
        page = console_url("monitoring-rule", workspace_id, environment, pk)
        number = f"{number_of_id('R', last[pk])}: " if pk in last else ""
        lines.append(f"{number}{page}")
    return lines
