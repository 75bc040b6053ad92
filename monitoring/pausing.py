"""Rules that stop running, and go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.timezone import now

from monitoring.models import PauseReason, Rule, RuleStatus
from verification.jobs.queue import wake_up_by
from verification.ordering.client import Client
from verification.reports.models import Report

RUN_DUE = "monitoring.tasks.run_due"


class NotResumable(Exception):
    """The rule stays paused; the text says why, `reason` is its pause reason."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def held(client: Client, rule_id: UUID) -> Rule:
    """The client's rule, locked; Rule.DoesNotExist where it is not theirs."""
    rules = Rule.objects.select_for_update(of=("self",), no_key=True)
    return rules.get(
        pk=rule_id, workspace=client.workspace, environment=client.environment
    )


def pause(rule_id: UUID, reason: PauseReason) -> bool:
    """False for a rule that is paused already, which keeps its reason."""
    return bool(
        Rule.objects.filter(pk=rule_id, status=RuleStatus.ACTIVE).update(
            status=RuleStatus.PAUSED, pause_reason=reason, paused_at=now()
        )
    )


def pause_for_withdrawal(report: Report) -> None:
    """The subject of this report withdrew consent: whatever the rule was paused for, it
    takes a new consent to go on."""
    Rule.objects.filter(
        workspace=report.workspace_id,
        environment=report.environment,
        subject_id=report.subject_id,
    ).update(
        status=RuleStatus.PAUSED,
        pause_reason=PauseReason.CONSENT_WITHDRAWN,
        paused_at=now(),
    )


@transaction.atomic
def pause_for_client(client: Client, rule_id: UUID) -> Rule:
    rule = held(client, rule_id)
    if pause(rule.pk, PauseReason.BY_CLIENT):
        rule.refresh_from_db()
    return rule


@transaction.atomic
def resume_for_client(
    client: Client, rule_id: UUID, consent: Mapping[str, Any] | None
) -> Rule:
    """A run that was missed is made at once, and the next at its time.

    `consent` is the attestation that a rule needs whose subject withdrew. Raises
    NotResumable.
    """
    rule = held(client, rule_id)
    if rule.pause_reason == PauseReason.BY_STAFF:
        raise NotResumable(rule.pause_reason, "Staff paused it, and staff resume it.")
    if rule.pause_reason == PauseReason.CONSENT_WITHDRAWN:
        if consent is None:
            told = "The subject withdrew consent: attest that it was given again."
            raise NotResumable(rule.pause_reason, told)
        rule.consent = dict(consent)
    resume(rule)
    return rule


@transaction.atomic
def delete(client: Client, rule_id: UUID) -> None:
    """Its reports and alerts stay; a run that is under way ends without an alert."""
    held(client, rule_id).delete()


def resume(rule: Rule) -> None:
    """Of a held rule."""
    if rule.is_active:
        return
    rule.status, rule.pause_reason, rule.paused_at = RuleStatus.ACTIVE, "", None
    rule.save(update_fields=["status", "pause_reason", "paused_at", "consent"])
    wake_up_by(RUN_DUE, rule.next_run_at)
