"""Process all rows that are due, in jobs that run by the clock.

Both functions end when the cluster is about to stop; the next run goes on with the
rest.

    sweep(Consent.objects.filter(status="PENDING", expires_at__lte=now()), expire)
    in_steps("DELETE FROM t WHERE id IN (... LIMIT %(limit)s)", before=now() - KEPT)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.db import connection
from django.db.models import QuerySet

from verification.jobs.heartbeat import beat

logger = logging.getLogger(__name__)

# The ids that one statement reads, and the rows that one step changes.
PAGE_SIZE = 200
BATCH_SIZE = 2_000


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
            name, why = due.model._meta.label, type(e).__name__
            logger.error("%s %s is left for the next run: %s", name, pk, why)
            if not connection.in_atomic_block:
                # The next row opens another connection if this one is lost.
                connection.close_if_unusable_or_obsolete()


def _ids(due: QuerySet[Any]) -> Iterator[Any]:
    """Yield each id once, in pages that begin after the last id."""
    rows = due.order_by("pk").values_list("pk", flat=True)
    ids = list(rows[:PAGE_SIZE])
    while ids:
        yield from ids
        ids = list(rows.filter(pk__gt=ids[-1])[:PAGE_SIZE])


def execute_in_batches(statement: str, **values: Any) -> None:
    """Execute a statement until it changes fewer rows than its %(limit)s.

    Each step locks its rows for a short time. The statement must not match rows that it
    has changed.
    """
    with connection.cursor() as cursor:
        while beat():
            cursor.execute(statement, {**values, "limit": BATCH_SIZE})
            if cursor.rowcount < BATCH_SIZE:
                return
