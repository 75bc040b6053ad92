"""CSV and XLSX files: read one of a member, and write one for a member.

Nothing is trusted: a workbook is opened in a process with limits (`inspector`), text is
decoded by its own marks, and formulas are neither run nor written.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

import orjson

from verification.batches.cells import (
    MAX_COLUMNS,
    MAX_LINES,
    MAX_ROWS,
    MAX_TEXT,
    MORE_LINES,
    Cell,
    Kind,
    Line,
    Sheet,
    Workbook,
)
from verification.batches.encodings import UNREADABLE, decode_single_bytes
from verification.files.inspection import (
    LOCK_OF_NEWCOMERS,
    MAX_BYTES,
    Fault,
    Inspector,
    Unacceptable,
    refuse_infected,
)
from verification.values.formats import escape_formula, unescape_formula

WORKBOOKS = Inspector("verification.batches.workbooks")
WORKBOOKS_OF_NEWCOMERS = Inspector(WORKBOOKS.module, LOCK_OF_NEWCOMERS)
CSV, XLSX = "csv", "xlsx"
MEDIA_TYPES = {
    CSV: "text/csv; charset=utf-8",
    XLSX: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
ACCEPTED = ".csv,.xlsx"
ZIP, OLE2, PDF = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"%PDF-"
MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
SEPARATORS = (",", ";", "\t")
# Excel reads the separator from such a first line.
NAMED_SEPARATOR = re.compile(r"sep=([,;\t])\r?\n", re.IGNORECASE)
# Texts that a spreadsheet takes for a formula, except numbers with a sign
FORMULA = re.compile(r"[=@]|[+-]\D")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
COLUMN_WIDTH = 24
# Letters in which the separator of a CSV file is looked for
MAX_SAMPLE = 20_000
# All texts of a file; MAX_ROWS full rows have half of it.
MAX_LETTERS = 1_000_000
# Letters beyond ASCII in a file that may be of Windows or of a Mac
MAX_ACCENTS = 50_000


class TooManyRows(Exception):
    """The file has more than MAX_ROWS rows to order."""


class NoRows(Exception):
    """The sheet has no row below its headings."""


class UnmatchedQuotes(Exception):
    """A quoted text does not end where it should; `line` is where it was noticed."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line}")
        self.line = line


def read_sheet(name: str, content: bytes, *, is_live: bool = True) -> Sheet:
    """Return the sheet of an uploaded file: of a workbook the first that is not hidden.

    Its header is the first line that is not empty.
    Raises Unacceptable, Busy, TooManyRows, NoRows and UnmatchedQuotes.
    """
    if not content:
        raise Unacceptable(Fault.EMPTY)
    if len(content) > MAX_BYTES:
        raise Unacceptable(Fault.TOO_LARGE)
    extension = PurePosixPath(name).suffix.lower()
    if extension == ".xlsm":
        raise Unacceptable(Fault.ACTIVE)
    if content.startswith(OLE2):
        # An XLSX with a password, or a workbook of before 2007
        raise Unacceptable(Fault.ENCRYPTED)
    is_zip = content.startswith(ZIP)
    if extension not in {".csv", ".txt", ".tsv", ".xlsx"} or content.startswith(PDF):
        raise Unacceptable(Fault.UNKNOWN)
    if is_zip != (extension == ".xlsx"):
        raise Unacceptable(Fault.LIES)
    if is_zip:
        inspector = WORKBOOKS if is_live else WORKBOOKS_OF_NEWCOMERS
        lines, workbook = _read_xlsx(inspector, content)
    else:
        lines, workbook = _read_csv(content), None
    if sum(len(cell.text) for line in lines for cell in line.cells) > MAX_LETTERS:
        raise Unacceptable(Fault.BOMB)
    if len(lines) < 2:
        raise NoRows
    if len(lines) > MAX_ROWS + MORE_LINES:
        raise TooManyRows
    return Sheet(lines[0], lines[1:], workbook)


def _read_xlsx(inspector: Inspector, content: bytes) -> tuple[list[Line], Workbook]:
    answer = orjson.loads(inspector.run(XLSX, content))
    lines = [
        Line(number, [_cell(text, Kind(kind)) for text, kind in cells])
        for number, cells in answer.pop("lines")
    ]
    return lines, Workbook(**answer)


def _read_csv(content: bytes) -> list[Line]:
    refuse_infected(content)
    text = _decode(content)
    if "\0" in text:
        raise Unacceptable(Fault.DAMAGED)
    if named := NAMED_SEPARATOR.match(text):
        # This line counts, as spreadsheets show it.
        return _split(text[named.end() :], named[1], first=2)
    return _split(text, _separator(text), first=1)


def _decode(content: bytes) -> str:
    for mark, encoding in MARKS.items():
        if content.startswith(mark):
            return _decode_as(encoding, content[len(mark) :])
    try:
        return content.decode()
    except UnicodeDecodeError:
        pass
    if len(content) - len(content.decode("ascii", errors="ignore")) > MAX_ACCENTS:
        raise Unacceptable(Fault.DAMAGED)
    # Spreadsheets write one byte for each letter unless somebody chooses UTF-8.
    return decode_single_bytes(content)


def _decode_as(encoding: str, content: bytes) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        raise Unacceptable(Fault.DAMAGED) from None


def _separator(text: str) -> str:
    """Return what separates cells in most of the first lines.

    A title above the headings has no separator. One line below them may have it in a
    text.
    """
    outside_quotes = re.sub(r'"[^"]*"', "", text[:MAX_SAMPLE])
    lines = [line for line in outside_quotes.splitlines() if line.strip()]
    lines = lines[:MORE_LINES]

    def weight(separator: str) -> tuple[int, int, bool]:
        counts = [line.count(separator) for line in lines]
        many = sum(map(bool, counts))
        if many < 2 and not any(counts[:1]):
            return 0, 0, False
        # Commas stand in titles and in numbers, too.
        return many, sum(counts), separator != ","

    return max(SEPARATORS, key=weight)


def _split(text: str, separator: str, first: int) -> list[Line]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    lines: list[Line] = []
    try:
        for number, texts in enumerate(reader, first):
            if number > MAX_LINES:
                raise Unacceptable(Fault.BOMB)
            while texts and not texts[-1].strip():
                texts.pop()
            if len(texts) > MAX_COLUMNS:
                raise Unacceptable(Fault.TOO_LONG)
            if texts:
                lines.append(Line(number, [_csv_cell(each) for each in texts]))
            if len(lines) > MAX_ROWS + MORE_LINES:
                break
    except csv.Error:
        raise UnmatchedQuotes(reader.line_num) from None
    return lines


def _csv_cell(text: str) -> Cell:
    text = text.strip()[:MAX_TEXT]
    kind = Kind.FORMULA if FORMULA.match(text) else Kind.TEXT
    return _cell(text, kind)


def _cell(text: str, kind: Kind) -> Cell:
    return Cell(unescape_formula(text), Kind.UNREADABLE if UNREADABLE in text else kind)


def write_sheet(
    format: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str | int | None]] = (),
    *,
    as_text: bool = False,
    choices: dict[int, Sequence[str]] | None = None,
) -> bytes:
    """Return a CSV or XLSX file.

    In a workbook, `as_text` lets all columns hold text, so that typed numbers keep
    their zeros, and `choices` are lists to choose from, by the number of the column.
    """
    safe = [[_safe(value) for value in row] for row in rows]
    if format == CSV:
        return _write_csv([list(header), *safe])
    return _write_xlsx(list(header), safe, as_text, choices or {})


def _safe(value: str | int | None) -> str | int:
    if isinstance(value, int):
        return value
    return escape_formula(CONTROL.sub("", value or ""))


def _write_csv(rows: Iterable[Sequence[str | int]]) -> bytes:
    file = io.StringIO(newline="")
    csv.writer(file).writerows(rows)
    # With the mark, spreadsheets read and write UTF-8.
    return file.getvalue().encode("utf-8-sig")


def _write_xlsx(
    header: list[str],
    rows: list[list[str | int]],
    as_text: bool,
    choices: dict[int, Sequence[str]],
) -> bytes:
    # Imported here: it takes memory, and most processes write no workbook.
    from openpyxl import Workbook as NewWorkbook
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.styles import Font
    from openpyxl.utils import get_column_letter
    from openpyxl.worksheet.datavalidation import DataValidation

    workbook = NewWorkbook(write_only=True)
    sheet = workbook.create_sheet("1")
    sheet.freeze_panes = "A2"
    for number in range(1, len(header) + 1):
        column = sheet.column_dimensions[get_column_letter(number)]
        column.width = COLUMN_WIDTH
        if as_text:
            column.number_format = "@"
    for number, names in choices.items():
        letter = get_column_letter(number + 1)
        rule = DataValidation(type="list", formula1=f'"{",".join(names)}"')
        rule.add(f"{letter}2:{letter}{MAX_ROWS + 1}")
        sheet.data_validations.append(rule)
    titles = [WriteOnlyCell(sheet, title) for title in header]
    for cell in titles:
        cell.font = Font(bold=True)
    sheet.append(titles)
    for row in rows:
        sheet.append(row)
    file = io.BytesIO()
    workbook.save(file)
    return file.getvalue()
