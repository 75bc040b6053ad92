"""Mend the times of waiting work after the database's clock was set back.

The first heartbeat after that is earlier than the one before (`queue.write_heartbeat`).
Rows that are due within the step were due by the clock before it, so they are due now.
Leases, rests and limits end no later than they can by the clock after the step. Retries
that were to come later than the step wait longer by the step.

A process that has not yet read the clock again goes on writing times of before the
step, so the job runs several times.
"""

from datetime import timedelta

from django.conf import settings

from verification.db.base import run_sql
from verification.jobs.names import JobName
from verification.jobs.queue import MENDING_RUNS, job, schedule_job

PAUSE = timedelta(seconds=5)
# A process writes a time of before the step, or one that is later by a lease.
MARGIN_SECONDS = 120

# Table -> the column that says when a row is due, and the condition of rows that do not
# wait
DUE_TIMES = {
    "jobs_job": (
        "due_at",
        f"claimed_by <> '' OR function = '{JobName.MEND_DUE_TIMES}'",
    ),
    "checks_checkresult": ("next_attempt_at", "claims > 0"),
    "webhooks_delivery": ("next_attempt_at", "leased_until IS NOT NULL"),
    "notifications_notification": ("next_attempt_at", "leased_until IS NOT NULL"),
    "payments_checkout": ("next_poll_at", "false"),
    "payments_refund": ("next_try_at", "false"),
    "monitoring_rule": ("put_off_until", "false"),
}
# Table, column of the rows that do not wait, and how many seconds it can be ahead
BOUNDS = [
    ("jobs_job", "due_at", settings.Q_CLUSTER["retry"]),
    ("checks_checkresult", "next_attempt_at", settings.CHECK_LEASE_SECONDS),
    ("webhooks_delivery", "next_attempt_at", 20),
    ("webhooks_delivery", "leased_until", 20),
    ("webhooks_configuration", "resting_until", 300),
    ("notifications_notification", "next_attempt_at", 150),
    ("notifications_notification", "leased_until", 150),
    ("sources_source", "resting_until", 300),
    ("sources_source", "free_at", 60),
    ("sources_source", "probed_at", 0),
    ("figures_progress", "read_to", 0),
    ("payments_auditwalk", "read_to", 0),
    ("workspaces_messagewindow", "told_until", 0),
    ("workspaces_messagewindow", "rests_until", 600),
]
# A long job keeps its lease, which `worker` takes back from a dead worker.
LONG_LEASES = {"jobs_job": f" AND function <> '{JobName.RECONCILE_YESTERDAY}'"}
# Checks run in the order of their turns.
MORE = {"checks_checkresult": ", turn_at = least(turn_at, {time})"}
# A later run finds the rows that are locked, if their workers leave them as they are.
UPDATE = """
UPDATE {table} SET {column} = {time}{more} WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM {table} WHERE {condition} FOR NO KEY UPDATE SKIP LOCKED
))
"""


@job
def mend_due_times(step_seconds: int, runs_left: int) -> None:
    """Mend the times that are too late since the clock went back by this much."""
    # Later runs look for times close to the clock before the step. Retries of after the
    # step keep their times.
    is_first = runs_left == MENDING_RUNS
    window = {
        "from": 0 if is_first else max(0, step_seconds - MARGIN_SECONDS),
        "to": step_seconds + MARGIN_SECONDS,
    }
    for statement in STATEMENTS:
        run_sql(statement, window)
    [(at,)] = run_sql("SELECT clock_timestamp()")
    if runs_left > 1:
        schedule_job(mend_due_times, step_seconds, runs_left - 1, at=at + PAUSE)


def _update(table: str, column: str, time: str, condition: str) -> str:
    more = MORE.get(table, "").format(time=time)
    return UPDATE.format(
        table=table, column=column, time=time, more=more, condition=condition
    )


STATEMENTS = [
    _update(
        table,
        column,
        "now()",
        f"NOT ({is_taken}) AND {column} > now() + %(from)s * interval '1 second' "
        f"AND {column} <= now() + %(to)s * interval '1 second'",
    )
    for table, (column, is_taken) in DUE_TIMES.items()
] + [
    _update(
        table,
        column,
        bound := f"now() + interval '{seconds} seconds'",
        f"({DUE_TIMES.get(table, ('', 'true'))[1]}) AND {column} > {bound}"
        + LONG_LEASES.get(table, ""),
    )
    for table, column, seconds in BOUNDS
]
