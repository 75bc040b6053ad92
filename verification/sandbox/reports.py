"""The reports on which a client acts in its sandbox, and the refusal of an action."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from verification.reports.models import Report
from verification.reports.status import locked_reports
from workspaces.models import Client, Environment


class NotPossible(Exception):
    """The object is in a state that does not take the action, and has not changed.

    `possible` names the actions that it takes now.
    """

    def __init__(self, message: str, possible: Iterable[str] = ()) -> None:
        self.possible = [str(action) for action in possible]
        names = ", ".join(self.possible)
        way_out = f"Possible now: {names}." if names else "No action is possible now."
        super().__init__(f"{message} {way_out}")


def lock_sandbox_report(client: Client, report_id: UUID) -> Report:
    """Return the client's report, locked. Raises Report.DoesNotExist.

    It finds no report of production, whatever the environment of the client.
    """
    return locked_reports().get(
        pk=report_id, workspace=client.workspace, environment=Environment.SANDBOX
    )
