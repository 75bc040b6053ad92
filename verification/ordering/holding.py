"""Taking hold of one report for what a client asks."""

from __future__ import annotations

from uuid import UUID

from verification.ordering.client import Client
from verification.reports.holding import held
from verification.reports.models import Report


def hold(client: Client, report_id: UUID) -> Report:
    """The client's report, locked; Report.DoesNotExist where it is not theirs."""
    return held().get(
        pk=report_id, workspace=client.workspace, environment=client.environment
    )
