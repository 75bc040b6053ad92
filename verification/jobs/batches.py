"""Dealing with all rows that are due, in jobs that run by the clock.

Both functions end when the cluster is about to stop; the next run finds what is left.

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

# Ids that are read by one statement, and rows that one step changes.
PAGE_SIZE = 200
BATCH_SIZE = 2_000


def sweep(due: QuerySet[Any], verb: Callable[[Any], object]) -> None:
    """Call the verb with the id of each row that is due, once, in the order of ids.

    The verb opens its own transaction and looks whether the row is still due: others
    may have been faster. A row that it fails for is logged and holds up no other; the
    next run comes to it again. Call this outside any transaction.
    """
    for pk in _ids(due):
        if not beat():
            return
        try:
            verb(pk)
        except ObjectDoesNotExist:
            # It went while it waited for its turn.
            continue
        except Exception as e:
            # Not the message, which may hold personal data.
            name, why = due.model._meta.label, type(e).__name__
            logger.error("%s %s is left for the next run: %s", name, pk, why)
            if not connection.in_atomic_block:
                # One that was lost is opened anew for the others.
                connection.close_if_unusable_or_obsolete()


def _ids(due: QuerySet[Any]) -> Iterator[Any]:
    """Onward from the last one, so that none that stays due is met twice."""
    rows = due.order_by("pk").values_list("pk", flat=True)
    ids = list(rows[:PAGE_SIZE])
    while ids:
        yield from ids
        ids = list(rows.filter(pk__gt=ids[-1])[:PAGE_SIZE])


def execute_in_batches(statement: str, **values: Any) -> None:
    """Execute a statement until it changes fewer rows than its %(limit)s, our step.

    Small steps, so that nobody waits long for a row. What it has changed it must not
    find again.
    """
    with connection.cursor() as cursor:
        while beat():
            cursor.execute(statement, {**values, "limit": BATCH_SIZE})
            if cursor.rowcount < BATCH_SIZE:
                return
