"""Jobs of the checks. They carry nothing: what is due is in the table."""

from django.conf import settings

from verification.checks import callbacks
from verification.checks.engine import run_due_checks
from verification.checks.schedule import schedule_next_run, wake_up
from verification.jobs.queue import slot


def run_due() -> None:
    """Run the checks that are due. Any number of these may be called at once.

    Two workers are left to others: sources that are slow hold up no webhook.
    """
    with slot("checks", max(1, settings.JOB_WORKERS - 2)) as free:
        finished = run_due_checks(call_for_help=wake_up) if free else None
    if finished is None:
        return
    if finished:
        schedule_next_run()
    else:
        wake_up()


def erase_callbacks() -> None:
    """Erase what sources told of people and no check has read."""
    callbacks.erase_unread_answers()
