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
    # A text with letters that nobody can be sure of
    UNREADABLE = "u"


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
class Workbook:
    """What a workbook holds besides the lines of the sheet that is read."""

    # The name of that sheet
    name: str
    # The names of other sheets that hold something
    others: list[str]
    # The numbers of lines that the spreadsheet does not show
    hidden: list[int]


@dataclass(frozen=True, slots=True)
class Sheet:
    """The first line that is not empty, and those below it."""

    header: Line
    rows: list[Line] = field(default_factory=list)
    # None for a CSV file
    workbook: Workbook | None = None

    @property
    def hidden_rows(self) -> list[int]:
        """The numbers of the rows that a spreadsheet does not show."""
        hidden = set(self.workbook.hidden) if self.workbook else set()
        return [row.number for row in self.rows if row.number in hidden]
