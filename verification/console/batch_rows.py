"""Rows of a file: cells become the texts that a form would have.

Cells that a spreadsheet has changed are put right where there is no doubt. A line that
is no row, such as a total, is left out; a row without a plausible name is a fault.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import lru_cache

from django.utils.translation import gettext_lazy as _
from django.utils.translation import override

from verification.batches.cells import Cell, Kind, Line
from verification.batches.headings import fold, is_footer, is_name
from verification.console.base import Text
from verification.console.orders import (
    CONTACTS,
    METHODS,
    MOMENT_FORMAT,
    ON,
    Choice,
    Input,
    Values,
    repair,
)
from verification.reports.models import IDENTIFIERS

LANGUAGES = ("en", "sw")
FULL_NAME = "subject-fullName"
# The inputs that identify a subject. A line with one of them is no line of totals.
IDENTIFYING = {f"subject-{member}" for member in (*IDENTIFIERS, *CONTACTS)}
# Days as people write them, after those of ISO 8601; the day stands first.
DAY = re.compile(r"(\d{1,2})[./-](\d{1,2})[./-](\d{4})(?:[ T]+(\d{1,2}:\d{2}))?")
NAMED_DAY = re.compile(
    r"(\d{1,2})[\s./-]*([a-z]{3})[a-z]*[\s.,/-]*(\d{4})", re.IGNORECASE
)
# The first three letters of each month, in English and Kiswahili
MONTHS = {
    name: number
    for names in (
        "jan feb mar apr may jun jul aug sep oct nov dec",
        "jan feb mac apr mei jun jul ago sep okt nov des",
    )
    for number, name in enumerate(names.split(), 1)
}
# A day as the number that a spreadsheet keeps of it: 1927 to 2064
SERIAL_DAY = re.compile(r"([1-5]\d{4})(?:\.0+)?")
SERIAL_ZERO = date(1899, 12, 30)
# A day that only a calendar can refuse
WHOLE_DAY = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")
# A long number that a spreadsheet has shortened, such as 2.54712E+11
SHORTENED = re.compile(r"\d([.,]\d+)?E\+?\d+", re.IGNORECASE)
YES, NO = {"yes", "y", "true", "1", "ndiyo", "on"}, {"no", "n", "false", "0", "hapana"}

FORMULA = _("This is a formula. Put its value here")
UNREADABLE = _(
    "We cannot read this text for sure. Save the file as XLSX, or as CSV in UTF-8"
)
BROKEN = _("The spreadsheet has no value here. Type it as text")
MADE_DAY = _("The spreadsheet has made a day of it. Type it as text")
ROUNDED = _("The spreadsheet has rounded this number. Type it as text")
NO_DAY = _("Write the day as 1990-12-31 or 31/12/1990")
NO_SUCH_DAY = _("The month has no such day")
NO_MOMENT = _("Write the time as 2026-01-31 14:30 or 31/01/2026 14:30")
NO_FLAG = _("Write yes or no")
NO_NAME = _("This is not a name. Write the name, or leave the row out")


@dataclass(slots=True)
class Row:
    """A row of the file with the texts that a form would have."""

    line: Line
    values: dict[str, str]
    # The name of an input -> the fault of its cell
    faults: dict[str, Text] = field(default_factory=dict)
    # The number of a column -> the repaired text of its cell
    repairs: dict[int, str] = field(default_factory=dict)

    @property
    def texts(self) -> list[str]:
        """The texts of the cells, with repairs."""
        return [
            self.repairs.get(number, cell.text)
            for number, cell in enumerate(self.line.cells)
        ]


@dataclass(slots=True)
class Rows:
    """The rows to order; `columns` are names of inputs, by the number of the column."""

    rows: list[Row]
    columns: dict[int, str]
    inputs: dict[str, Input]
    # Lines that hold no subject: totals, headings again, and what the member ignores
    ignored: list[Line]
    # Rows that the member leaves for later
    skipped: list[Line]

    @property
    def column_numbers(self) -> dict[str, int]:
        """The first column of each input."""
        return {name: n for n, name in reversed(self.columns.items())}

    @property
    def skipped_numbers(self) -> list[int]:
        return [line.number for line in self.skipped]


def is_remark(line: Line, columns: Mapping[int, str]) -> bool:
    """Return whether the line holds nothing for an order, or is a total or remark."""
    filled = [(name, text) for n, name in columns.items() if (text := line.at(n).text)]
    # The word for a total may stand in the column of ID numbers.
    telling = {name for name, text in filled if not is_footer(text)}
    first = next((cell.text for cell in line.cells if cell.text), "")
    return not filled or (is_footer(first) and telling.isdisjoint(IDENTIFYING))


def read_row(
    line: Line,
    columns: Mapping[int, str],
    inputs: Mapping[str, Input],
    common: Values,
    choice: Choice,
) -> Row:
    row = Row(line, {n: text for n, text in common.items() if n in inputs})
    names: list[str] = []
    for number, name in columns.items():
        cell = line.at(number)
        if not cell.text:
            continue
        text, fault = read_cell(cell, inputs[name])
        if fault:
            row.values[name], row.faults[name] = "", fault
            continue
        right = repair(text, inputs[name], choice)
        if right != text or _is_serial(cell, inputs[name]):
            row.repairs[number] = right
        if name == FULL_NAME:
            # Parts of a name in several columns
            names.append(right)
            right = " ".join(names)
        row.values[name] = right
    name = " ".join(names)
    # `Page 1 of 3`: a number in a name needs something else that tells the subject.
    is_doubtful = not choice.is_company and any(c.isdigit() for c in name)
    is_alone = not any(row.values.get(one) for one in IDENTIFYING)
    if names and (
        (is_doubtful and is_alone) or not is_name(name, of_company=choice.is_company)
    ):
        row.faults.setdefault(FULL_NAME, NO_NAME)
    return row


def read_cell(cell: Cell, one: Input) -> tuple[str, Text]:
    """Return the text of a cell for this input, and its fault or an empty text."""
    text, kind = cell.text, cell.kind
    if kind == Kind.FORMULA:
        return "", FORMULA
    if kind == Kind.ERROR:
        return "", BROKEN
    if kind == Kind.UNREADABLE:
        return "", UNREADABLE
    if one.kind in {"DATE", "MOMENT"}:
        return _read_time(text, one.kind)
    if kind in {Kind.DAY, Kind.MOMENT}:
        return "", MADE_DAY
    if kind == Kind.ROUNDED or (one.kind != "NUMBER" and SHORTENED.fullmatch(text)):
        return "", ROUNDED
    if one.kind == "FLAG":
        word = text.casefold()
        return (ON if word in YES else ""), ("" if word in YES | NO else NO_FLAG)
    if one.kind == "METHOD":
        return _methods().get(fold(text), text), ""
    if one.kind == "COUNTRY":
        return text.upper(), ""
    return text, ""


def _is_serial(cell: Cell, one: Input) -> bool:
    return one.kind == "DATE" and SERIAL_DAY.fullmatch(cell.text) is not None


def _read_time(text: str, kind: str) -> tuple[str, Text]:
    if typed := DAY.fullmatch(text):
        day, month, year, hour = typed.groups()
        text = f"{year}-{month:0>2}-{day:0>2}" + (f"T{hour:0>5}" if hour else "")
    elif named := NAMED_DAY.fullmatch(text):
        day, name, year = named.groups()
        text = f"{year}-{MONTHS.get(name.lower(), 0):02}-{day:0>2}"
    elif kind == "DATE" and (serial := SERIAL_DAY.fullmatch(text)):
        return (SERIAL_ZERO + timedelta(days=int(serial[1]))).isoformat(), ""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        if kind == "MOMENT":
            return "", NO_MOMENT
        return "", NO_SUCH_DAY if WHOLE_DAY.fullmatch(text) else NO_DAY
    if kind == "MOMENT":
        return moment.isoformat() if moment.tzinfo else f"{moment:{MOMENT_FORMAT}}", ""
    return moment.date().isoformat(), ""


@lru_cache
def _methods() -> dict[str, str]:
    """Return the ways of consent by their folded names in both languages."""
    found = {fold(name): name for name, _label in METHODS}
    for language in LANGUAGES:
        with override(language):
            found |= {fold(str(label)): name for name, label in METHODS}
    return found
