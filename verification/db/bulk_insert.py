"""Insert many rows of several tables at once.

Fewer than `COPY_THRESHOLD` rows go in one statement for all tables, as JSON; more go by
COPY, one statement for each table. `bulk_create` needs a model instance for each row
and a parameter for each value, which takes several times as long for a batch of
reports.

    insert(
        Rows(Report, [Report(id=report_id, status="DRAFT", ...), ...]),
        Rows(StatusChange, [{"id": uuid7(), "report_id": report_id, ...}, ...]),
    )
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any

import orjson
from django.db import connection, models, transaction

from verification.db.base import run_sql
from verification.db.encryption import EncryptedJSONField

# One COPY for each table is faster than one JSON statement for this many rows or more.
COPY_THRESHOLD = 100

# A row's values by the model's attribute names (`report_id`, not `report`)
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one table: dicts with the same keys, or unsaved instances of the model.

    Making an instance takes longer than all other work on its row, so tables with many
    rows for each request use dicts. Columns that the dicts leave out get the database's
    default. So do the columns of instances that have a `db_default`, whatever value the
    instance has.
    """

    model: type[models.Model]
    records: Sequence[Any]

    def read(self) -> tuple[tuple[str, ...], list[list[Any]]]:
        """Return the names of the attributes to insert, and each record's values.

        Values of encrypted fields are sealed to their record.
        """
        first = self.records[0]
        if isinstance(first, dict):
            names = tuple(first)
            values = list(map(list, map(itemgetter(*names), self.records)))
        else:
            names = _written_names(self.model)
            values = list(map(list, map(attrgetter(*names), self.records)))
        for n, field in _encrypted_fields(self.model, names):
            key = names.index(self.model._meta.pk.attname)
            for row in values:
                row[n] = field.seal(row[n], row[key])
        return names, values


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that runs with the inserts, and its parameters."""

    sql: str
    parameters: Sequence[Any]


def insert(
    *tables: Rows, first: Statement | None = None, last: Sequence[Statement] = ()
) -> None:
    """Insert all rows in one transaction, in one statement if they are few.

    A table comes after the tables that its foreign keys name. `last` comes after all of
    them, so that its locks are held only briefly.
    """
    filled = [rows for rows in tables if rows.records]
    few = sum(len(rows.records) for rows in filled) < COPY_THRESHOLD
    if few and len(last) <= 1:
        _execute_together([*last, *map(_insert_statement, filled)], first)
    else:
        with transaction.atomic(savepoint=False):
            _execute_together([], first)
            for rows in filled:
                _copy(rows)
            for statement in last:
                _execute_together([statement])


def _execute_together(
    statements: Sequence[Statement], first: Statement | None = None
) -> None:
    # PostgreSQL promises no order. All versions so far run the main statement first,
    # then the parts of WITH, last one first, which holds the locks of `last` briefly.
    ordered = [*statements, first] if first else list(statements)
    if not ordered:
        return
    *with_, main = ordered
    parts = ", ".join(f"t{number} AS ({s.sql})" for number, s in enumerate(with_))
    sql = f"WITH {parts} {main.sql}" if parts else main.sql
    run_sql(sql, [value for s in ordered for value in s.parameters])


def _insert_statement(rows: Rows) -> Statement:
    names, values = rows.read()
    columns = _columns(rows.model, names)
    objects = [dict(zip(columns, row, strict=True)) for row in values]
    json = orjson.dumps(objects, default=_as_text).decode()
    return Statement(_insert_sql(rows.model, names), [json])


@cache
def _insert_sql(model: type[models.Model], names: tuple[str, ...]) -> str:
    table, columns = _table(model), _quote_columns(_fields(model, names))
    # The table itself names the types, because psycopg keeps the parsed form of short
    # statements alone (4,096 characters). Names are of models, values are parameters.
    return (
        f"INSERT INTO {table} ({columns}) SELECT {columns} "  # noqa: S608
        f"FROM json_populate_recordset(NULL::{table}, %s)"
    )


def _as_text(value: Any) -> str:
    return f"\\x{value.hex()}" if isinstance(value, bytes) else str(value)


def _copy(rows: Rows) -> None:
    names, values = rows.read()
    fields = _fields(rows.model, names)
    columns = zip(*values, strict=True)
    adapted = [_adapt(*pair) for pair in zip(fields, columns, strict=True)]
    sql = f"COPY {_table(rows.model)} ({_quote_columns(fields)}) FROM STDIN"
    # Django translates the errors of its own cursor's methods only.
    with (
        connection.wrap_database_errors,
        connection.cursor() as cursor,
        cursor.copy(sql) as copy,
    ):
        for row in zip(*adapted, strict=True):
            copy.write_row(row)


def _adapt(field: models.Field, column: Sequence[Any]) -> Sequence[Any]:
    """Return the column's values as COPY takes them."""
    if isinstance(field, models.JSONField):
        return [None if v is None else orjson.dumps(v).decode() for v in column]
    if (field.db_type(connection) or "").endswith("[]"):
        # They have numbers, or words that need no quotes.
        return [
            None if v is None else "{" + ",".join(map(str, v)) + "}" for v in column
        ]
    return column


def _table(model: type[models.Model]) -> str:
    return connection.ops.quote_name(model._meta.db_table)


def _quote_columns(fields: Iterable[models.Field]) -> str:
    return ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)


@cache
def _written_names(model: type[models.Model]) -> tuple[str, ...]:
    """Return the attributes of an instance that an INSERT writes."""
    return tuple(
        field.attname
        for field in model._meta.concrete_fields
        if not (field.generated or field.has_db_default())
    )


@cache
def _fields(model: type[models.Model], names: tuple[str, ...]) -> list[models.Field]:
    known = {field.attname: field for field in model._meta.concrete_fields}
    return [known[name] for name in names]


@cache
def _columns(model: type[models.Model], names: tuple[str, ...]) -> list[str]:
    return [str(field.column) for field in _fields(model, names)]


@cache
def _encrypted_fields(
    model: type[models.Model], names: tuple[str, ...]
) -> list[tuple[int, EncryptedJSONField]]:
    """Return the encrypted fields among these, with their positions."""
    fields = enumerate(_fields(model, names))
    return [(n, field) for n, field in fields if isinstance(field, EncryptedJSONField)]
