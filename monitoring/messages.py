"""Notify owners of paused rules, once for all rules of one reason and time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils.timezone import now

from monitoring.models import PauseReason, Rule
from verification.db.ids import uuid7
from verification.jobs.queue import job, schedule_job
from verification.notifications.models import Channel, Kind
from verification.notifications.outbox import OutgoingMessage, notify
from verification.values.wire import one_line
from workspaces.models import Environment, Workspace

# Reasons of the service: the client did not pause these rules.
NOTIFIED_REASONS = {
    PauseReason.CONSENT_WITHDRAWN,
    PauseReason.INSUFFICIENT_BALANCE,
    PauseReason.CHECK_INACTIVE,
}
# A job that pauses thousands of rules takes this long at most.
GATHER_DELAY = timedelta(seconds=30)
# Rules that a message names.
MAX_NAMED_RULES = 10


def schedule_message(reason: PauseReason, at: datetime) -> None:
    """Schedule the message in the caller's transaction, which has paused rules."""
    if reason in NOTIFIED_REASONS:
        schedule_job(notify_paused, at=at + GATHER_DELAY)


@job
def notify_paused() -> None:
    """Notify owners of paused rules, once for each pause. Jobs may run at once."""
    groups = _unnotified().values_list("workspace", "environment", "pause_reason")
    for workspace_id, environment, reason in list(groups.order_by().distinct()):
        _notify_owner(workspace_id, environment, PauseReason(reason))


def _unnotified() -> QuerySet[Rule]:
    return Rule.objects.filter(
        notified_at=None, pause_reason__in=list(NOTIFIED_REASONS)
    )


@transaction.atomic
def _notify_owner(workspace_id: UUID, environment: str, reason: PauseReason) -> None:
    untold = _unnotified().filter(
        workspace=workspace_id, environment=environment, pause_reason=reason
    )
    locked = untold.select_for_update(no_key=True).order_by("pk")
    rules = list(locked.values_list("pk", "reference"))
    if not rules:
        return
    Rule.objects.filter(pk__in=[pk for pk, _ in rules]).update(notified_at=now())
    workspace = Workspace.objects.get(pk=workspace_id)
    notify(
        OutgoingMessage(
            Kind.MONITORING_PAUSED,
            Channel.EMAIL,
            cause=f"monitoring-paused:{uuid7()}",
            recipient=workspace.contact_email,
            context={
                "workspace": workspace.name,
                "environment": environment,
                "reason": reason.value,
                "count": len(rules),
                "rules": _rule_labels(rules[:MAX_NAMED_RULES]),
                "more": max(0, len(rules) - MAX_NAMED_RULES),
            },
            workspace_id=workspace_id,
            sandbox=environment == Environment.SANDBOX,
        )
    )


def _rule_labels(rules: Iterable[tuple[UUID, str | None]]) -> list[str]:
    """Return labels without the subjects' names, which an e-mail must not hold."""
    return [f"{pk} ({one_line(own)})" if own else str(pk) for pk, own in rules]
