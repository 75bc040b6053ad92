"""Notify the owners of a workspace whose receiver fails."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings

from verification.jobs.queue import job
from verification.notifications.models import Channel, Kind
from verification.notifications.outbox import OutgoingMessage, notify
from verification.values.wire import utc_text
from webhooks.models import Configuration
from workspaces.models import Environment


@job
def notify_failing(configuration_id: str) -> None:
    """Notify the owners of failures, unless the receiver has recovered since."""
    configuration = _find_configuration(configuration_id)
    if configuration and configuration.failing_since:
        _notify_owners(configuration, Kind.WEBHOOK_FAILING, configuration.failing_since)


@job
def notify_disabled(configuration_id: str) -> None:
    """Notify the owners that the service disabled it, unless it is enabled again."""
    configuration = _find_configuration(configuration_id)
    if configuration and configuration.disabled_at:
        _notify_owners(configuration, Kind.WEBHOOK_DISABLED, configuration.disabled_at)


def _find_configuration(configuration_id: str) -> Configuration | None:
    found = Configuration.objects.select_related("workspace")
    return found.filter(pk=configuration_id).first()


def _notify_owners(configuration: Configuration, kind: Kind, since: datetime) -> None:
    failing_since = configuration.failing_since
    notify(
        OutgoingMessage(
            kind,
            Channel.EMAIL,
            cause=f"{_word(kind)}:{configuration.pk}:{utc_text(since)}",
            recipient=configuration.workspace.contact_email,
            context={
                "workspace": configuration.workspace.name,
                "environment": configuration.environment,
                "url": configuration.url,
                "failures": configuration.failures_in_row,
                "failingSince": utc_text(failing_since) if failing_since else None,
                "reason": configuration.disabled_reason,
                "docs": f"{settings.BASE_URL}/docs",
            },
            workspace_id=configuration.workspace_id,
            sandbox=configuration.environment == Environment.SANDBOX,
        )
    )


def _word(kind: Kind) -> str:
    return kind.lower().replace("_", "-")
