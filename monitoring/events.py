"""What the event of an alert says, and an alert as it crosses the wire."""

from __future__ import annotations

from typing import Any

from monitoring.models import Alert, Rule
from verification.wire import utc_text
from webhooks.events import Happening
from webhooks.models import Event


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


def alert_event(alert: Alert, rule: Rule) -> Happening:
    """monitoring.alert.created"""
    data = {
        "workspaceId": str(alert.workspace_id),
        "monitoringId": str(rule.pk),
        "reportId": str(alert.report_id),
        "subject": {"id": str(rule.subject_id), "type": rule.subject_type},
        "alert": alert_body(alert),
    }
    return Happening(
        Event.Name.MONITORING_ALERT_CREATED,
        str(alert.pk),
        alert.workspace_id,
        alert.environment,
        alert.report_id,
        data,
    )
