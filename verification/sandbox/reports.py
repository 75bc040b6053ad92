"""The reports on which a client acts in its sandbox."""

from __future__ import annotations

from uuid import UUID

from verification.reports.models import Report
from verification.reports.status import locked_reports
from workspaces.models import Client, Environment


def lock_sandbox_report(client: Client, report_id: UUID) -> Report:
    """Return the client's report, locked. Raises Report.DoesNotExist.

    It finds no report of production, whatever the environment of the client.
    """
    return locked_reports().get(
        pk=report_id, workspace=client.workspace, environment=Environment.SANDBOX
    )
