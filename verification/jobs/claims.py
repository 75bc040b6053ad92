"""Claim due rows of a table, each for one worker at a time.

A row is due when the time in its due column has passed. A claim moves that time to the
end of a lease and counts the row's fence. If the worker dies, the row is due again when
the lease ends. A worker that writes later names the fence of its claim, so that a late
write changes nothing. Workers skip rows that another worker is claiming.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeVar

from django.db.models import Model, QuerySet

from verification.jobs.queue import JobOrPath, ensure_job_by

M = TypeVar("M", bound=Model)


def claim_sql(
    table: str,
    due: str,
    assignments: str,
    *,
    key: str = "id",
    returning: str = "claimed.*",
) -> str:
    """Return the statement that claims the rows which the query `due` locks.

    `due` names the rows by their `key`. `assignments` and `returning` name the row
    `claimed`, and the start and the end of the lease `lease.begins` and `lease.ends`.
    After the parameters of `due` come the time of the claim, null for the database's
    own, and the seconds of the lease.
    """
    # Materialized: a join that runs `due` again would claim more than its limit.
    return f"""
WITH due AS MATERIALIZED ({due}),
moment AS (SELECT COALESCE(%s::timestamptz, statement_timestamp()) AS begins),
lease AS (SELECT begins, begins + %s * interval '1 second' AS ends FROM moment)
UPDATE {table} AS claimed SET {assignments}
FROM due, lease WHERE claimed.{key} = due.{key}
RETURNING {returning}
"""  # noqa: S608


def claim_due(
    due: QuerySet[M], assignments: str, lease: timedelta, at: datetime | None = None
) -> list[M]:
    """Claim the rows of a sorted and limited queryset, in one statement.

    Returns them as the claim left them. See `claim_sql` for `assignments` and `at`.
    """
    model = due.model
    table, key = model._meta.db_table, model._meta.pk.attname
    query, values = due.values(key).query.sql_with_params()
    locked = f"{query} FOR NO KEY UPDATE OF {table} SKIP LOCKED"
    statement = claim_sql(table, locked, assignments, key=key)
    lease_values = [at, lease.total_seconds()]
    return list(model._default_manager.raw(statement, [*values, *lease_values]))


def schedule_next_run(job: JobOrPath, waiting: QuerySet[M], column: str) -> None:
    """Run the job again when the next of the waiting rows is due.

    Every run of the job ends with this. A row that is left waits for its time, or for
    the end of the lease of a worker that may have died.
    """
    times = waiting.order_by(column).values_list(column, flat=True)
    ensure_job_by(job, times.first())
