"""Find the reports on which a client acts in its sandbox, and refuse actions."""

from collections.abc import Iterable
from uuid import UUID

from verification.reports.models import Report
from verification.reports.status import locked_reports
from workspaces.models import Client, Environment


class NotPossible(Exception):
    """The object's state does not allow the action. Nothing has changed.

    `possible` names the actions that the state allows.
    """

    def __init__(self, message: str, possible: Iterable[str] = ()) -> None:
        self.possible = [str(action) for action in possible]
        names = ", ".join(self.possible)
        way_out = f"Possible now: {names}." if names else "No action is possible now."
        super().__init__(f"{message} {way_out}")


def lock_sandbox_report(client: Client, report_id: UUID) -> Report:
    """Return the client's report, locked. Raises Report.DoesNotExist.

    Reports of production are not found, also for a client of production.
    """
    return locked_reports().get(
        pk=report_id, workspace=client.workspace, environment=Environment.SANDBOX
    )
