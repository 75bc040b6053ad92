"""Alerts: their event, the changes that clients make to them, and their purge."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction

from monitoring.models import Alert, Rule
from monitoring.queries import alerts_of
from verification.jobs.batches import execute_in_batches
from verification.jobs.queue import job
from verification.values.wire import utc_text
from webhooks.events import NewEvent
from webhooks.models import Event
from workspaces.models import Client


def alert_body(alert: Alert) -> dict[str, Any]:
    return {
        "id": str(alert.pk),
        "kind": alert.kind,
        "title": alert.title,
        "message": alert.message,
        "severity": alert.severity,
        "read": alert.read,
        "actioned": alert.actioned,
        "reportId": str(alert.report_id),
        "changes": alert.changes,
        "createdAt": utc_text(alert.created_at),
    }


def alert_event(alert: Alert, rule: Rule) -> NewEvent:
    """Return the event `monitoring.alert.created`."""
    data = {
        "workspaceId": str(alert.workspace_id),
        "monitoringId": str(rule.pk),
        "reportId": str(alert.report_id),
        "subject": {"id": str(rule.subject_id), "type": rule.subject_type},
        "alert": alert_body(alert),
    }
    return NewEvent(
        Event.Name.MONITORING_ALERT_CREATED,
        str(alert.pk),
        alert.workspace_id,
        alert.environment,
        alert.report_id,
        data,
    )


@transaction.atomic
def edit_alert(
    client: Client, alert_id: UUID, *, read: bool | None, actioned: bool | None
) -> Alert:
    """Change an alert; None leaves a field as it is. Raises Alert.DoesNotExist."""
    alert = alerts_of(client).select_for_update(no_key=True).get(pk=alert_id)
    alert.read = alert.read if read is None else read
    alert.actioned = alert.actioned if actioned is None else actioned
    alert.save(update_fields=["read", "actioned"])
    return alert


def mark_all_read(client: Client) -> int:
    """Mark all unread alerts as read; return how many there were."""
    return alerts_of(client).filter(read=False).update(read=True)


DELETE = """
DELETE FROM monitoring_alert WHERE id IN (
    SELECT a.id FROM monitoring_alert a JOIN workspaces_workspace w
        ON w.id = a.workspace_id
    WHERE a.created_at < statement_timestamp() - w.retention_days * interval '1 day'
        -- None keeps them for less: this much is found by the index.
        AND a.created_at < statement_timestamp() - interval '1 day'
            * (SELECT min(retention_days) FROM workspaces_workspace)
    LIMIT %(limit)s FOR UPDATE OF a SKIP LOCKED
)
"""


@job
def purge_alerts() -> None:
    """Delete alerts that are older than their workspace keeps them."""
    execute_in_batches(DELETE)
