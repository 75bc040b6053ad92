"""Django's PostgreSQL backend, with a cheap check of kept connections.

`force_custom_plan` plans chosen statements each time they run.
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
