"""Writing many rows of several tables at once.

`bulk_create` makes a model object and an adapted parameter for each value; a batch of
reports needs thousands of rows. Few rows go in one statement for all tables, each
column as one array; many go by COPY, one a table. Either way the number of statements
does not grow with the number of rows.

    insert(
        Rows(Report, ["id", "status"], [(id, "DRAFT"), ...]),
        Rows(StatusChange, ["id", "report_id"], [...]),
    )
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson
from django.db import connection, models

from verification.encryption import EncryptedJSONField

# From here on a COPY a table costs less than one statement with arrays.
MANY = 100


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one table; `columns` are attribute names, with the primary key first."""

    model: type[models.Model]
    columns: Sequence[str]
    values: Sequence[tuple[Any, ...]]


def insert(*tables: Rows) -> None:
    """Insert all rows; a table comes after those that its foreign keys point to."""
    filled = [rows for rows in tables if rows.values]
    if sum(len(rows.values) for rows in filled) < MANY:
        _insert_together(filled)
    else:
        for rows in filled:
            _copy(rows)


def _insert_together(tables: Sequence[Rows]) -> None:
    if not tables:
        return
    *first, last = (_insert(rows.model, tuple(rows.columns)) for rows in tables)
    with_ = ", ".join(f"t{number} AS ({sql})" for number, sql in enumerate(first))
    parameters = [column for rows in tables for column in _columns(rows)]
    with connection.cursor() as cursor:
        cursor.execute(f"WITH {with_} {last}" if with_ else last, parameters)


def _quoted(fields: Iterable[models.Field]) -> str:
    return ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)


def _copy(rows: Rows) -> None:
    fields = [_field(rows.model, column) for column in rows.columns]
    names = _quoted(fields)
    table = connection.ops.quote_name(rows.model._meta.db_table)
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy,
    ):
        for row in zip(*_columns(rows), strict=True):
            copy.write_row(row)


def array_type(field: models.Field) -> str:
    """The array in which values of this field are sent."""
    return f"{_sent_as(field)}[]"


@cache
def _insert(model: type[models.Model], columns: tuple[str, ...]) -> str:
    fields = [_field(model, column) for column in columns]
    names = _quoted(fields)
    arrays = ", ".join(f"%s::{array_type(field)}" for field in fields)
    values = ", ".join(
        f"v{number}::{field.db_type(connection)}"
        if _sent_as_text(field)
        else f"v{number}"
        for number, field in enumerate(fields)
    )
    aliases = ", ".join(f"v{number}" for number in range(len(fields)))
    table = connection.ops.quote_name(model._meta.db_table)
    # Every name comes from a model; every value is a parameter.
    return (
        f"INSERT INTO {table} ({names}) SELECT {values} "  # noqa: S608
        f"FROM unnest({arrays}) AS u({aliases})"
    )


def _columns(rows: Rows) -> list[list[Any]]:
    fields = [_field(rows.model, column) for column in rows.columns]
    columns = [list(column) for column in zip(*rows.values, strict=True)]
    keys = columns[0]
    return [_adapted(field, c, keys) for field, c in zip(fields, columns, strict=True)]


def _adapted(field: models.Field, column: list[Any], keys: list[Any]) -> list[Any]:
    if isinstance(field, EncryptedJSONField):
        return [field.seal(v, key) for v, key in zip(column, keys, strict=True)]
    if isinstance(field, models.JSONField):
        return [None if v is None else orjson.dumps(v).decode() for v in column]
    if _sent_as_text(field):
        return [None if v is None else _array_literal(v) for v in column]
    return column


def _array_literal(values: Sequence[Any]) -> str:
    return "{" + ",".join(str(value) for value in values) + "}"


def _sent_as_text(field: models.Field) -> bool:
    """Arrays in an array would be unnested with it, and JSON has no array form."""
    return isinstance(field, models.JSONField) or (
        (field.db_type(connection) or "").endswith("[]")
    )


def _sent_as(field: models.Field) -> str:
    if _sent_as_text(field):
        return "text"
    # Lengths and precisions are checked where the value is written.
    return (field.db_type(connection) or "").partition("(")[0]


@cache
def _field(model: type[models.Model], column: str) -> models.Field:
    return next(f for f in model._meta.concrete_fields if f.attname == column)
