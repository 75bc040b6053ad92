"""Cells of spreadsheets: a text, and what the spreadsheet takes it for.

Nothing here needs Django: the process that inspects workbooks imports it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

MAX_ROWS = 500
# Lines besides the rows: titles above the headings, totals and remarks below
MORE_LINES = 20
MAX_COLUMNS = 100
# Lines of a sheet that are read, empty ones included
MAX_LINES = 5000
# Longer than any text that an order takes. The rest of a cell is not kept.
MAX_TEXT = 1000
# Used instead of the index of a line of headings
NO_HEADINGS = -1
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
    """Facts of a workbook besides the lines of the sheet that is read."""

    # The name of that sheet
    name: str
    # The names of other sheets with content
    others: list[str]
    # The numbers of hidden lines
    hidden: list[int]


@dataclass(frozen=True, slots=True)
class Sheet:
    """The lines that are not empty: those above the headings, these, and the rows."""

    header: Line
    rows: list[Line] = field(default_factory=list)
    # Missing for a CSV file
    workbook: Workbook | None = None
    above: list[Line] = field(default_factory=list)

    @property
    def lines(self) -> list[Line]:
        """All lines in order, without a header that stands in for missing headings."""
        headings = [self.header] if self.header.cells else []
        return [*self.above, *headings, *self.rows]

    def with_heading(self, place: int) -> Sheet:
        """Return the sheet with the headings in the line of this index.

        NO_HEADINGS makes rows of all lines.
        """
        lines = self.lines
        if place == NO_HEADINGS:
            return Sheet(Line(0, []), lines, self.workbook)
        return Sheet(lines[place], lines[place + 1 :], self.workbook, lines[:place])

    @property
    def place_of_heading(self) -> int:
        """The index of the headings among all lines, or NO_HEADINGS."""
        return len(self.above) if self.header.cells else NO_HEADINGS

    @property
    def hidden(self) -> set[int]:
        """The numbers of lines that a spreadsheet does not show."""
        return set(self.workbook.hidden) if self.workbook else set()

    @property
    def width(self) -> int:
        return max(len(line.cells) for line in [self.header, *self.rows])
