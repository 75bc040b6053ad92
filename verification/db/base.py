"""Which statements are planned anew each time.

Django's PostgreSQL backend, with a check of kept connections that asks nobody.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection
from django.db.backends.postgresql import base


@contextmanager
def force_custom_plan() -> Iterator[None]:
    """Plan the statements within for the values they come with.

    Statements that come again and again are planned once, for values like most. Where
    one value has a million rows and another none, that plan is wrong for many.
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


class DatabaseWrapper(base.DatabaseWrapper):
    connection: psycopg.Connection[Any] | None

    def is_usable(self) -> bool:
        """Whether the server has not closed the connection since it was last used.

        Django asks before each request. Its own SELECT 1 is a journey to the server
        and back; that the server has gone is on this side of the socket already.
        """
        if self.connection is None:
            return False
        try:
            # The end is found behind the server's last words, if there are any.
            for _ in range(2):
                self.connection.pgconn.consume_input()
        except psycopg.Error:
            return False
        in_error = psycopg.pq.TransactionStatus.INERROR
        return self.connection.info.transaction_status != in_error
