"""Taking hold of one report for a verb, until the transaction ends."""

from __future__ import annotations

from uuid import UUID

from verification.ordering.client import Client
from verification.reports.models import Report


def hold(client: Client, report_id: UUID) -> Report:
    """The client's report, locked; Report.DoesNotExist where it is not theirs.

    Consent and payment are read when they are first asked for, which is after the
    lock: what is joined to a row that had to be waited for is as old as the question.
    """
    return (
        Report.objects.select_for_update(of=("self",), no_key=True)
        .select_related("workspace")
        .get(pk=report_id, workspace=client.workspace, environment=client.environment)
    )
