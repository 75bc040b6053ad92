"""Django's PostgreSQL backend, with a cheap check of kept connections.

`force_custom_plan` plans chosen statements each time they run, and `read_page` reads
one page of a list.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import psycopg
from django.db import connection
from django.db.backends.postgresql import base

if TYPE_CHECKING:
    from django.db.models import QuerySet

Row = TypeVar("Row")


@contextmanager
def force_custom_plan() -> Iterator[None]:
    """Plan the statements within for the values they come with.

    PostgreSQL plans repeated statements once, for average values. That plan is wrong if
    one value has a million rows and another has none.
    """
    connection.ensure_connection()
    used, connection.connection.prepare_threshold = (
        connection.connection.prepare_threshold,
        None,
    )
    try:
        yield
    finally:
        if connection.connection:
            connection.connection.prepare_threshold = used


@dataclass(frozen=True, slots=True)
class ResultPage(Generic[Row]):
    rows: list[Row]
    total: int


@force_custom_plan()
def read_page(rows: QuerySet[Any], page: int, size: int) -> ResultPage[Any]:
    """Return one page of ordered rows, and the number of rows on all pages."""
    first = page * size
    found = list(rows[first : first + size])
    # A page that is not full is the last one, so the total is known without a count.
    total = first + len(found)
    if len(found) == size or (first and not found):
        total = rows.count()
    return ResultPage(found, total)


class DatabaseWrapper(base.DatabaseWrapper):
    connection: psycopg.Connection[Any] | None

    def is_usable(self) -> bool:
        """Return whether the server has kept the connection open since its last use.

        Django asks before each request. Its own SELECT 1 is a round trip; the end of
        the connection shows on this side of the socket.
        """
        if self.connection is None:
            return False
        try:
            # The end of the stream comes after the server's last messages.
            for _ in range(2):
                self.connection.pgconn.consume_input()
        except psycopg.Error:
            return False
        in_error = psycopg.pq.TransactionStatus.INERROR
        return self.connection.info.transaction_status != in_error
