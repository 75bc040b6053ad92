"""Django's PostgreSQL backend, with a check of kept connections that asks nobody."""

from typing import Any

import psycopg
from django.db.backends.postgresql import base


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
