"""Writing many rows of several tables at once.

`bulk_create` makes a model object and an adapted parameter for each value; a batch of
reports needs thousands of rows. Few rows go in one statement for all tables, as
JSON; many go by COPY, one a table. Either way the number of statements
does not grow with the number of rows.

    insert(
        Rows(Report, ["id", "status"], [(id, "DRAFT"), ...]),
        Rows(StatusChange, ["id", "report_id"], [...]),
    )
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson
from django.db import connection, models

from verification.db.encryption import EncryptedJSONField

# From here on a COPY a table costs less than one statement with JSON.
COPY_THRESHOLD = 100


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one table; `columns` are attribute names.

    Where a field is encrypted, the primary key comes first.
    """

    model: type[models.Model]
    columns: Sequence[str]
    values: Sequence[tuple[Any, ...]]
    # Called when they are inserted, once however many tables ask for it.
    then: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """A statement that changes other rows, with its parameters."""

    sql: str
    parameters: Sequence[Any]


def insert(*tables: Rows) -> None:
    """Insert all rows; a table comes after those that its foreign keys point to."""
    filled = [rows for rows in tables if rows.values]
    if sum(len(rows.values) for rows in filled) < COPY_THRESHOLD:
        _insert_together(filled)
    else:
        for rows in filled:
            _copy(rows)
    _run_callbacks(filled)


def insert_and_update(*tables: Rows, last: Update | None) -> None:
    """Insert few rows and change others in one statement, so all of it or nothing.

    `last` is carried out after the rows: what it locks is locked as shortly as can be.
    """
    filled = [rows for rows in tables if rows.values]
    _insert_together(filled, last)
    _run_callbacks(filled)


def _run_callbacks(tables: Sequence[Rows]) -> None:
    for call in dict.fromkeys(rows.then for rows in tables if rows.then):
        call()


def _insert_together(tables: Sequence[Rows], last: Update | None = None) -> None:
    # PostgreSQL carries the main statement out first, and then what WITH names from its
    # end to its beginning.
    statements = [
        (_insert_sql(r.model, tuple(r.columns)), [_as_json(r)]) for r in tables
    ]
    if last:
        statements.insert(0, (last.sql, list(last.parameters)))
    if not statements:
        return
    *with_, (sql, _) = statements
    if with_:
        named = (f"t{number} AS ({part})" for number, (part, _) in enumerate(with_))
        sql = f"WITH {', '.join(named)} {sql}"
    with connection.cursor() as cursor:
        cursor.execute(sql, [value for _, values in statements for value in values])


@cache
def _insert_sql(model: type[models.Model], columns: tuple[str, ...]) -> str:
    fields = _fields(model, columns)
    names = _quote_columns(fields)
    types = ", ".join(f"{_quote_columns([f])} {f.db_type(connection)}" for f in fields)
    # Every name comes from a model; every value is a parameter.
    return (
        f"INSERT INTO {_table(model)} ({names}) SELECT {names} "  # noqa: S608
        f"FROM json_to_recordset(%s) AS r({types})"
    )


def _as_json(rows: Rows) -> str:
    names, sealed = _column_names(rows.model, tuple(rows.columns))
    objects = [dict(zip(names, values, strict=True)) for values in rows.values]
    for field in sealed:
        for one, values in zip(objects, rows.values, strict=True):
            name = str(field.column)
            one[name] = field.seal(one[name], values[0])
    return orjson.dumps(objects, default=_as_text).decode()


@cache
def _column_names(
    model: type[models.Model], columns: tuple[str, ...]
) -> tuple[list[str], list[EncryptedJSONField]]:
    """The names of the columns, and the fields that are encrypted."""
    fields = _fields(model, columns)
    sealed = [field for field in fields if isinstance(field, EncryptedJSONField)]
    return [str(field.column) for field in fields], sealed


def _as_text(value: Any) -> str:
    return f"\\x{value.hex()}" if isinstance(value, bytes) else str(value)


def _copy(rows: Rows) -> None:
    fields = _fields(rows.model, tuple(rows.columns))
    columns = zip(*rows.values, strict=True)
    keys = [values[0] for values in rows.values]
    adapted = [_adapt(f, c, keys) for f, c in zip(fields, columns, strict=True)]
    sql = f"COPY {_table(rows.model)} ({_quote_columns(fields)}) FROM STDIN"
    with connection.cursor() as cursor, cursor.copy(sql) as copy:
        for row in zip(*adapted, strict=True):
            copy.write_row(row)


def _adapt(
    field: models.Field, column: Sequence[Any], keys: list[Any]
) -> Sequence[Any]:
    """A column as COPY takes it."""
    if isinstance(field, EncryptedJSONField):
        return [field.seal(v, key) for v, key in zip(column, keys, strict=True)]
    if isinstance(field, models.JSONField):
        return [None if v is None else orjson.dumps(v).decode() for v in column]
    if (field.db_type(connection) or "").endswith("[]"):
        return [None if v is None else _array_literal(v) for v in column]
    return column


def _array_literal(values: Sequence[Any]) -> str:
    """Of numbers, or of words without anything to be quoted."""
    return "{" + ",".join(str(value) for value in values) + "}"


def _table(model: type[models.Model]) -> str:
    return connection.ops.quote_name(model._meta.db_table)


def _quote_columns(fields: Iterable[models.Field]) -> str:
    return ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)


@cache
def _fields(model: type[models.Model], columns: tuple[str, ...]) -> list[models.Field]:
    known = {field.attname: field for field in model._meta.concrete_fields}
    return [known[column] for column in columns]
