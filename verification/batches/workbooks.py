"""The process that reads one XLSX workbook, within limits of memory and time.

    python -m verification.batches.workbooks xlsx <applicants.xlsx

Its answer is the JSON of the lines of the first sheet that is not hidden: the number of
each, and its cells as pairs of a text and a kind of `cells`; and of what else a
`cells.Workbook` has.
"""

import io
import re
import zipfile
from collections.abc import Iterator
from datetime import date, datetime, time
from typing import Any

import orjson
from openpyxl import load_workbook
from openpyxl.xml.constants import SHEET_MAIN_NS
from openpyxl.xml.functions import iterparse

from verification.batches.cells import (
    MAX_COLUMNS,
    MAX_LINES,
    MAX_ROWS,
    MAX_TEXT,
    MOMENT_FORMAT,
    MORE_LINES,
    Kind,
)
from verification.files.inspection import Fault, Unacceptable, answer_within_limits

MAX_UNPACKED_BYTES = 64 * 1024 * 1024
MAX_PARTS = 1000
# 500 rows of 100 texts need 0.9 seconds, and 1.5 on a slow machine. A busy one
# needs more.
CPU_SECONDS = 4
# Tags of one part, and of those whose elements cost most: a sheet with 500 rows of 100
# texts has 300,000, and its styles a few thousand.
MAX_TAGS = 2_000_000
MAX_TAGS_OF = {"xl/styles.xml": 100_000, "xl/workbook.xml": 100_000}
# The first lines of other sheets, which tell whether a sheet is empty
FIRST_LINES = 100
# Spreadsheets keep 15 digits of a number, and write zeros for the rest.
EXACT_DIGITS = 15
# Parts of workbooks that run something
ACTIVE = re.compile(r"vbaProject|macrosheets/|activeX/", re.IGNORECASE)
MACRO_TYPES = b"macroEnabled"
# Workbooks have no document type, which could define entities that grow.
DOCUMENT_TYPES = tuple("<!DOCTYPE".encode(name) for name in ("utf-8", "utf-16-le"))
LINE_TAG = f"{{{SHEET_MAIN_NS}}}row"
ZEROS = re.compile(r"0+")


def read_workbook(_kind: str, content: bytes) -> bytes:
    """Return the lines of the first sheet in sight. Raises Unacceptable."""
    try:
        _refuse_harmful(content)
        workbook = load_workbook(io.BytesIO(content), read_only=True, keep_links=False)
        sheets = workbook.worksheets
        shown = [sheet for sheet in sheets if sheet.sheet_state == "visible"]
        read = (shown or sheets)[0]
        answer = {
            "lines": list(_lines(read)),
            "name": read.title,
            "others": [s.title for s in sheets if s is not read and _has_cells(s)],
            "hidden": _hidden_lines(read),
        }
        return orjson.dumps(answer)
    except (Unacceptable, MemoryError):
        raise
    # openpyxl raises many kinds of errors for malicious bytes.
    except Exception:
        raise Unacceptable(Fault.DAMAGED) from None


def _refuse_harmful(content: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as parts:
        entries = parts.infolist()
        # A part unpacks to no more than it declares here.
        unpacked = sum(entry.file_size for entry in entries)
        if len(entries) > MAX_PARTS or unpacked > MAX_UNPACKED_BYTES:
            raise Unacceptable(Fault.BOMB)
        if any(ACTIVE.search(entry.filename) for entry in entries):
            raise Unacceptable(Fault.ACTIVE)
        for entry in entries:
            part = parts.read(entry)
            if part.count(b"<") > MAX_TAGS_OF.get(entry.filename, MAX_TAGS):
                raise Unacceptable(Fault.BOMB)
            is_list = entry.filename == "[Content_Types].xml"
            if is_list and MACRO_TYPES in part:
                raise Unacceptable(Fault.ACTIVE)
            if any(text in part for text in DOCUMENT_TYPES):
                raise Unacceptable(Fault.DAMAGED)


def _lines(sheet: Any) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Yield the lines that are not empty, the header included."""
    # The file may be wrong about its own size.
    sheet.reset_dimensions()
    found = 0
    for number, row in enumerate(sheet.iter_rows(max_col=MAX_COLUMNS + 1), 1):
        if number > MAX_LINES:
            raise Unacceptable(Fault.BOMB)
        cells = [_cell(cell) for cell in row]
        while cells and not cells[-1][0]:
            cells.pop()
        if not cells:
            continue
        if len(cells) > MAX_COLUMNS:
            raise Unacceptable(Fault.TOO_LONG)
        found += 1
        yield number, cells
        if found > MAX_ROWS + MORE_LINES:
            # The reader of the answer sees that there is a row too many.
            return


def _has_cells(sheet: Any) -> bool:
    """Return whether one of the first lines of the sheet holds something."""
    sheet.reset_dimensions()
    rows = sheet.iter_rows(max_row=FIRST_LINES, max_col=MAX_COLUMNS, values_only=True)
    return any(value is not None for row in rows for value in row)


def _hidden_lines(sheet: Any) -> list[int]:
    """Return the numbers of lines that are hidden, by hand or by a filter."""
    found, number = [], 0
    # openpyxl keeps how a line looks only when it reads a workbook whole.
    with sheet._get_source() as source:
        for _event, element in iterparse(source):
            if element.tag != LINE_TAG:
                continue
            number = int(element.get("r", number + 1))
            if number > MAX_LINES:
                break
            if element.get("hidden") in {"1", "true"}:
                found.append(number)
            element.clear()
    return found


def _cell(cell: Any) -> tuple[str, str]:
    value = cell.value
    if value is None:
        return "", Kind.TEXT
    if cell.data_type == "f":
        return str(value)[:MAX_TEXT], Kind.FORMULA
    if cell.data_type == "e":
        return str(value)[:MAX_TEXT], Kind.ERROR
    if isinstance(value, bool):
        return str(value), Kind.TEXT
    if isinstance(value, datetime):
        if value.time() == time():
            return value.date().isoformat(), Kind.DAY
        return value.strftime(MOMENT_FORMAT), Kind.MOMENT
    if isinstance(value, date):
        return value.isoformat(), Kind.DAY
    if isinstance(value, int | float):
        return _number(value, cell.number_format)
    if isinstance(value, str):
        return value.strip()[:MAX_TEXT], Kind.TEXT
    # A time of the day, or a duration
    return str(value)[:MAX_TEXT], Kind.ERROR


def _number(value: float, number_format: str) -> tuple[str, str]:
    is_whole = float(value).is_integer()
    text = str(int(value)) if is_whole else repr(value)
    if is_whole and len(text.lstrip("-")) > EXACT_DIGITS:
        return text[:MAX_TEXT], Kind.ROUNDED
    if is_whole and ZEROS.fullmatch(number_format):
        # The sheet shows zeros in front, which the number does not have.
        text = text.zfill(len(number_format))
    return text, Kind.NUMBER


if __name__ == "__main__":
    answer_within_limits(read_workbook, CPU_SECONDS)
