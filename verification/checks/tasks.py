"""Jobs of the checks. They carry nothing: what is due is in the table."""

from verification.checks.running import drain
from verification.checks.waking import wake_up, wake_up_for_the_next


def run_due() -> None:
    """Run the checks that are due. Any number of these may run at once."""
    if drain(call_for_help=wake_up):
        wake_up_for_the_next()
    else:
        wake_up()
