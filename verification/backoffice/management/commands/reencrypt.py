from collections.abc import Callable, Iterator
from typing import Any

from cryptography.exceptions import InvalidTag
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection, transaction

from verification.db.encryption import (
    EncryptedJSONField,
    UnknownKey,
    is_compressed,
    seal,
    sealed_fields,
    unseal,
)
from verification.db.startup import require_own_schema

# The command names so many changed values of a column.
MAX_SHOWN = 10


class Command(BaseCommand):
    help = (
        "Encrypts every value again that the first key of FIELD_KEYS did not encrypt. "
        "You may stop and start it again. Once none are left, you may remove the other "
        "keys."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--batch", type=int, default=500, metavar="ROWS")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["batch"] < 1:
            raise CommandError("A batch has at least one row.")
        require_own_schema()
        resealed = left = 0
        closed: list[str] = []
        for field in sealed_fields():
            column = _Column(field)
            resealed += sum(column.reseal(options["batch"]))
            left += column.count_stale()
            closed += column.closed
        self.stdout.write(
            f"{resealed + left} values were stale; {resealed} are encrypted again, "
            f"{left} are left."
        )
        if closed:
            raise CommandError(
                f"FIELD_KEYS does not open some of those left: {', '.join(closed)}."
            )


class _Column:
    """One encrypted column. Every name in its statements comes from a model."""

    def __init__(self, field: EncryptedJSONField) -> None:
        quote: Callable[[Any], str] = connection.ops.quote_name
        self.bound_to = field.column_name
        self.table = quote(field.model._meta.db_table)
        self.column = quote(field.column)
        pk = field.model._meta.pk
        self.pk, self.pk_type = quote(pk.column), pk.db_type(connection)
        key_id = settings.FIELD_KEYS[0][0].encode()
        # After the byte of the version
        self.fresh = bytes((len(key_id),)) + key_id
        self.stale = f"substring({self.column} FROM 2 FOR %s) <> %s"
        self.append_only = _append_only_trigger(field.model._meta.db_table)
        # The first values that were changed, or whose key is gone
        self.closed: list[str] = []

    def count_stale(self) -> int:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 0")
            cursor.execute(
                f"SELECT count(*) FROM {self.table} WHERE {self.stale}",  # noqa: S608
                [len(self.fresh), self.fresh],
            )
            return cursor.fetchone()[0]

    def reseal(self, batch: int) -> Iterator[int]:
        """Encrypt the stale values again; yield how many of each batch.

        Values that do not open stay: they must not keep the others under an old key.
        """
        after = None
        while step := self._reseal_after(after, batch):
            after, count = step
            yield count

    @transaction.atomic
    def _reseal_after(self, after: Any, batch: int) -> tuple[Any, int] | None:
        """Return the last row of the batch and how many have new values."""
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 0")
            if self.append_only:
                # The values stay the same. ALTER TABLE locks out all other writers.
                self._alter(cursor, "DISABLE")
            rows = self._hold(cursor, after, batch)
            count = self._write(cursor, rows)
            if self.append_only:
                self._alter(cursor, "ENABLE")
        return (rows[-1][0], count) if rows else None

    def _hold(self, cursor: Any, after: Any, batch: int) -> list[tuple[Any, bytes]]:
        further = f"{self.pk} > %s AND" if after is not None else ""
        cursor.execute(
            f"""
            SELECT {self.pk}, {self.column} FROM {self.table}
            WHERE {further} {self.stale} ORDER BY {self.pk} LIMIT %s
            FOR NO KEY UPDATE SKIP LOCKED
            """,  # noqa: S608
            [
                *([] if after is None else [after]),
                *(len(self.fresh), self.fresh, batch),
            ],
        )
        return cursor.fetchall()

    def _write(self, cursor: Any, rows: list[tuple[Any, bytes]]) -> int:
        resealed = {}
        for pk, value in rows:
            try:
                resealed[pk] = self._resealed(pk, bytes(value))
            except (InvalidTag, UnknownKey, ValueError):
                if len(self.closed) < MAX_SHOWN:
                    self.closed.append(f"{self.bound_to} {pk}")
        cursor.execute(
            f"""
            UPDATE {self.table} SET {self.column} = u.sealed
            FROM unnest(%s::{self.pk_type}[], %s::bytea[]) AS u(pk, sealed)
            WHERE {self.pk} = u.pk
            """,  # noqa: S608
            [list(resealed), list(resealed.values())],
        )
        return len(resealed)

    def _resealed(self, pk: Any, value: bytes) -> bytes:
        plaintext = unseal(value, column=self.bound_to, row=pk)
        return seal(
            plaintext, column=self.bound_to, row=pk, compressed=is_compressed(value)
        )

    def _alter(self, cursor: Any, what: str) -> None:
        trigger = connection.ops.quote_name(self.append_only or "")
        cursor.execute(f"ALTER TABLE {self.table} {what} TRIGGER {trigger}")


def _append_only_trigger(table: str) -> str | None:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT tgname FROM pg_trigger
            WHERE tgrelid = %s::regclass AND tgname = %s
            """,
            [table, f"{table}_append_only"],
        )
        row = cursor.fetchone()
    return row[0] if row else None
