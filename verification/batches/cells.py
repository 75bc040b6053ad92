"""Cells of spreadsheets: a text, and what the spreadsheet takes it for.

Nothing here needs Django: the process that inspects workbooks imports it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

MAX_ROWS = 500
MAX_COLUMNS = 100
# Lines of a sheet that are read, empty ones included
MAX_LINES = 5000
# Longer than any text that an order takes. The rest of a cell is not kept.
MAX_TEXT = 1000
MOMENT_FORMAT = "%Y-%m-%dT%H:%M"


class Kind(StrEnum):
    TEXT = ""
    NUMBER = "n"
    # A number with more digits than spreadsheets keep
    ROUNDED = "r"
    # 1990-12-31, which the spreadsheet may show in another way
    DAY = "d"
    # 1990-12-31T10:00
    MOMENT = "m"
    FORMULA = "f"
    ERROR = "e"


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    kind: Kind = Kind.TEXT


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is not empty; `number` is that of the sheet, which begins with 1."""

    number: int
    cells: list[Cell]

    def at(self, column: int) -> Cell:
        return self.cells[column] if column < len(self.cells) else Cell("")


@dataclass(frozen=True, slots=True)
class Sheet:
    """The first line that is not empty, and those below it."""

    header: Line
    rows: list[Line] = field(default_factory=list)
