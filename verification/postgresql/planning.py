"""Which statements are planned anew each time."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection


@contextmanager
def planned_for_their_values() -> Iterator[None]:
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
