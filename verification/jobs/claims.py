"""Due rows of a table: claim some under a lease, or process all of them in batches.

A row is due when the time in its due column has passed. A claim moves that time to the
end of a lease and counts the row's fence. If the worker dies, the row is due again when
the lease ends. A worker that writes later names the fence of its claim, so that a late
write changes nothing. Workers skip rows that another worker is claiming.

`sweep`, `update_in_batches` and `delete_in_batches` are for jobs that run by the clock.
They end when the cluster is about to stop; the next run goes on with the rest.

    sweep(Consent.objects.filter(status="PENDING", expires_at__lte=now()), expire)
    update_in_batches(Event.objects.filter(created_at__lt=at), payload=None)
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.core.exceptions import ObjectDoesNotExist
from django.db import connection, transaction
from django.db.models import Model, QuerySet

from verification.jobs.queue import JobOrName, beat, ensure_job_by
from verification.web.log import error_name

logger = logging.getLogger(__name__)
M = TypeVar("M", bound=Model)
T = TypeVar("T")
# The ids that one statement reads, and the rows that one step changes.
PAGE_SIZE = 200
BATCH_SIZE = 2_000


def claim_sql(
    table: str,
    due: str,
    assignments: str,
    *,
    key: str = "id",
    returning: str,
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
    # Named, because a prepared `*` fails for ever after a migration has added a column.
    returning = column_list(model, "claimed")
    statement = claim_sql(table, locked, assignments, key=key, returning=returning)
    lease_values = [at, lease.total_seconds()]
    return list(model._default_manager.raw(statement, [*values, *lease_values]))


def column_list(model: type[Model], alias: str) -> str:
    """Return the model's columns for a SELECT or RETURNING, in place of `alias.*`."""
    quote = connection.ops.quote_name
    fields = model._meta.concrete_fields
    return ", ".join(f"{alias}.{quote(str(field.column))}" for field in fields)


def schedule_next_run(job: JobOrName, waiting: QuerySet[M], column: str) -> None:
    """Run the job again when the next of the waiting rows is due.

    Every run of the job ends with this. A row that is left waits for its time, or for
    the end of the lease of a worker that may have died.
    """
    times = waiting.order_by(column).values_list(column, flat=True)
    ensure_job_by(job, times.first())


def sweep(due: QuerySet[Any], verb: Callable[[Any], object]) -> None:
    """Call the verb once with the id of each due row, in the order of ids.

    The verb opens its own transaction and checks that the row is still due, because
    another worker may have been faster. If it fails, the row is logged, the others go
    on, and the next run tries the row again. Call this outside any transaction.
    """
    for pk in _ids(due):
        if not beat():
            return
        try:
            verb(pk)
        except ObjectDoesNotExist:
            # The row was deleted after its id was read.
            continue
        except Exception as e:
            # The message is left out, because it may hold personal data.
            name, why = due.model._meta.label, error_name(e)
            logger.error("%s %s is left for the next run: %s", name, pk, why)
            _leave_lost_connection()


def together_or_alone(
    what: str,
    verb: Callable[[Sequence[T]], object],
    rows: Sequence[T],
    *,
    key: Callable[[T], object] = str,
    alone: Callable[[T], object] | None = None,
) -> list[tuple[T, Exception]]:
    """Call the verb with all rows; if that fails, with each, so that others go on.

    The verb opens its own transaction. `what` and the key of a row are logged, `alone`
    replaces the verb for one row. Returns the rows that failed alone.
    """
    if not rows:
        return []
    try:
        verb(rows)
        return []
    except Exception as e:
        # No message of an error is logged, because it may hold personal data.
        count, why = len(rows), type(e).__name__
        logger.warning("%s: batch of %s failed (%s); one by one now", what, count, why)
    failed = []
    for row in rows:
        try:
            alone(row) if alone else verb([row])
        except Exception as e:
            failed.append((row, e))
            logger.error("%s: %s failed: %s", what, key(row), type(e).__name__)
            _leave_lost_connection()
    return failed


def _leave_lost_connection() -> None:
    """Let the next row open another connection if this one is lost."""
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()


def _ids(due: QuerySet[Any]) -> Iterator[Any]:
    """Yield each id once, in pages that begin after the last id."""
    rows = due.order_by("pk").values_list("pk", flat=True)
    ids = list(rows[:PAGE_SIZE])
    while ids:
        yield from ids
        ids = list(rows.filter(pk__gt=ids[-1])[:PAGE_SIZE])


def update_in_batches(
    due: QuerySet[Any], *, skip_locked: bool = True, **changes: Any
) -> None:
    """Update these rows, so many at a time that each step locks them for a short time.

    The queryset must not match rows that have changed.
    """
    due = due.select_for_update(skip_locked=skip_locked, no_key=True)
    _change_in_batches(due, lambda rows: rows.update(**changes))


def delete_in_batches(due: QuerySet[Any]) -> None:
    """Delete these rows, of which no others depend, as `update_in_batches` does."""
    due = due.select_for_update(skip_locked=True)
    # `delete` would read the rows first, and look for what depends on them.
    _change_in_batches(due, lambda rows: rows._raw_delete(rows.db))


def _change_in_batches(
    due: QuerySet[Any], change: Callable[[QuerySet[Any]], int]
) -> None:
    while beat():
        batch = due.model._default_manager.filter(pk__in=due.values("pk")[:BATCH_SIZE])
        with transaction.atomic():
            count = change(batch)
        if count < BATCH_SIZE:
            return
