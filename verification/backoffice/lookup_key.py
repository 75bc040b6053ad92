"""The LOOKUP_KEY that the tables were written with, and the refusal of any other.

A process with another key finds no row by its hash, and writes rows that nobody else
finds. So it gets no connection to the database; `manage.py rehash` alone does.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import ProgrammingError
from django.db.backends.signals import connection_created

from verification.encryption import keyed_hashes
from verification.postgresql.unreachable import NotForUs

OTHER_KEY = (
    "LOOKUP_KEY is not the key that the database was written with. Set that one again, "
    "or write LOOKUP_KEY=new,former, stop the service and run: python manage.py rehash"
)


def refuse_others() -> None:
    connection_created.connect(_refuse_other, dispatch_uid="lookup key")


@contextmanager
def others_allowed() -> Iterator[None]:
    connection_created.disconnect(dispatch_uid="lookup key")
    try:
        yield
    finally:
        refuse_others()


def fingerprints() -> list[bytes]:
    """What `LookupKey` holds after each key of LOOKUP_KEY, the oldest first."""
    return keyed_hashes("lookup key")


def _refuse_other(connection: Any, **more: object) -> None:
    """Raises NotForUs."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT fingerprint FROM backoffice_lookupkey")
            row = cursor.fetchone()
    except ProgrammingError:
        # Tables are not made yet.
        return
    if row and bytes(row[0]) != fingerprints()[-1]:
        connection.close()
        raise NotForUs(OTHER_KEY)
