"""Refuse database connections of a process with the wrong LOOKUP_KEY.

Such a process would find no row by its keyed hash, and write rows that other processes
cannot find. Only `manage.py rehash` may connect, to write the hashes with a new key.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.db import ProgrammingError
from django.db.backends.signals import connection_created
from psycopg.errors import UndefinedTable

from verification.backoffice.models import LookupKey
from verification.db.encryption import keyed_hashes
from verification.db.startup import DatabaseRefused

OTHER_KEY = (
    "LOOKUP_KEY is not the key that the database was written with. Set that one again, "
    "or write LOOKUP_KEY=new,former, stop the service and run: python manage.py rehash"
)


def refuse_wrong_keys() -> None:
    connection_created.connect(_refuse_wrong_key, dispatch_uid="lookup key")


@contextmanager
def allow_wrong_key() -> Iterator[None]:
    connection_created.disconnect(dispatch_uid="lookup key")
    try:
        yield
    finally:
        refuse_wrong_keys()


def fingerprints() -> list[bytes]:
    """Return the fingerprint of each key of LOOKUP_KEY, the oldest first."""
    return keyed_hashes("lookup key")


def was_in_use(keys: int, at: datetime) -> bool:
    """Return whether links of that time use the first `keys` keys and still work.

    A later `rehash` may have ended them.
    """
    later = LookupKey.objects.filter(pk__gt=keys)
    return bool(later) and at < later[0].since and not any(k.ends_links for k in later)


def _refuse_wrong_key(connection: Any, **more: object) -> None:
    """Raise DatabaseRefused if the database was written with another key."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT fingerprint FROM backoffice_lookupkey ORDER BY id DESC LIMIT 1"
            )
            row = cursor.fetchone()
        if row and bytes(row[0]) != fingerprints()[-1]:
            raise DatabaseRefused(OTHER_KEY)
    except ProgrammingError as e:
        if not isinstance(e.__cause__, UndefinedTable):
            connection.close()
            raise
    except BaseException:
        # An open connection would be used again without this check.
        connection.close()
        raise
