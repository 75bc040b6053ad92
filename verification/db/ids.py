"""Row identifiers: UUIDv7, so that rows made together lie together in an index."""

import re
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Index, Model, QuerySet, TextField
from django.db.models.functions import Cast, Right
from uuid_utils.compat import uuid7

__all__ = [
    "RANDOM_BITS",
    "filter_by_number",
    "first_id_at",
    "number_index",
    "number_of_id",
    "time_of_id",
    "uuid7",
]

# The bits of an id below the milliseconds of its time.
RANDOM_BITS = 80

# The last digits of an id make the number that people read out: P-1234-ABCD-5678.
NUMBER_DIGITS = 12
# A number as people type it.
FOUR_DIGITS = "([0-9A-F]{4})"
NUMBER = re.compile(
    rf"([A-Z])[- ]?{FOUR_DIGITS}[- ]?{FOUR_DIGITS}[- ]?{FOUR_DIGITS}", re.IGNORECASE
)
LAST_DIGITS = Right(Cast("id", TextField()), NUMBER_DIGITS)
Row = TypeVar("Row", bound=Model)


def time_of_id(row_id: UUID) -> datetime:
    """Return the time that is in an id."""
    return datetime.fromtimestamp((row_id.int >> RANDOM_BITS) / 1000, UTC)


def first_id_at(moment: datetime) -> UUID:
    """Return a bound: ids that are made at this time or later are not less."""
    # No id is older than 1970, whose milliseconds are the first that it can hold.
    milliseconds = max(0, int(moment.timestamp() * 1000))
    return UUID(int=milliseconds << RANDOM_BITS)


def number_of_id(letter: str, row_id: UUID) -> str:
    """Return the number of a row for people to read out: `P-1234-ABCD-5678`."""
    text = row_id.hex[-NUMBER_DIGITS:].upper()
    return f"{letter}-{text[:4]}-{text[4:8]}-{text[8:]}"


def number_index(name: str) -> Index:
    """Return the index by which `filter_by_number` finds rows."""
    return Index(LAST_DIGITS, name=name)


def filter_by_number(
    rows: QuerySet[Row], letter: str, typed: str
) -> QuerySet[Row] | None:
    """Return the rows with this number, or None if it has another letter.

    Their table has a `number_index`.
    """
    found = NUMBER.fullmatch(typed.strip())
    if found is None or found[1].upper() != letter:
        return None
    numbered: Any = rows.alias(last=LAST_DIGITS)
    matching: QuerySet[Row] = numbered.filter(last="".join(found.groups()[1:]).lower())
    return matching
