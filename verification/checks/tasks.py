"""Jobs of the checks. They carry nothing: what is due is in the table."""

from datetime import datetime

from verification.checks.running import drain
from verification.jobs.queue import later

RUN_DUE = "verification.checks.tasks.run_due"


def run_due() -> None:
    """Run the checks that are due. Any number of these may run at once."""
    if not drain(call_for_help=wake_up):
        wake_up()


def wake_up(at: datetime | None = None) -> None:
    """Say, with the caller's transaction, that checks are or will be due."""
    later(RUN_DUE, at=at)
