"""Files of members are read as people mean them, and hostile ones are refused."""

import io
import resource
from datetime import date, datetime, time

import pytest
from openpyxl import load_workbook

from tests.batches.files import SHEET, TYPES, csv_file, part_of, repack, xlsx_file
from verification.batches.cells import MAX_LINES, MAX_TEXT, Cell, Kind
from verification.batches.spreadsheet import (
    NoRows,
    TooManyRows,
    UnmatchedQuotes,
    read_sheet,
    write_sheet,
)
from verification.files.inspection import MAX_BYTES, Fault, Unacceptable

ROWS = (["Full name", "ID number"], ["Wanjikũ Kamau", "01234567"])
NAMES = [["Full name"], ["Zoë Kamau"]]


def texts(name: str, content: bytes) -> list[list[str]]:
    sheet = read_sheet(name, content)
    lines = [sheet.header, *sheet.rows]
    return [[cell.text for cell in line.cells] for line in lines]


def fault_of(name: str, content: bytes) -> Fault:
    with pytest.raises(Unacceptable) as refused:
        read_sheet(name, content)
    return refused.value.fault


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_csv_is_read_in_each_encoding_and_with_each_separator(separator, encoding):
    content = csv_file(*ROWS, separator=separator, encoding=encoding)

    assert texts("people.CSV", content) == [list(row) for row in ROWS]


def test_csv_of_windows_is_read():
    assert texts("a.csv", csv_file(*NAMES, encoding="cp1252")) == NAMES


@pytest.mark.parametrize("encoding", ["cp1252", "mac_roman"])
@pytest.mark.parametrize(
    "name",
    [
        *[
            "Jos\u00e9",
            "Mu\u00f1oz",
            "M\u00fcller",
            "C\u00f4te d\u2019Ivoire",
            "JOS\u00c9",
        ],
        *[
            "Ng\u2019ang\u2019a",
            "Mart\u00ednez",
            "\u201cloan\u201d",
            "Ndung\u2019u \u2013 2",
        ],
    ],
)
def test_csv_of_windows_or_a_mac_is_recognised(name, encoding):
    content = csv_file(["Full name"], [name], encoding=encoding)

    assert texts("a.csv", content) == [["Full name"], [name]]


@pytest.mark.parametrize(
    "content",
    ["Bj\u00f6rk".encode("mac_roman"), "Jos\u00e9".encode("cp850"), b"A\x81b"],
)
def test_text_in_another_encoding_is_unreadable(content):
    cell = read_sheet("a.csv", b"Full name\n" + content).rows[0].cells[0]

    assert cell.kind == Kind.UNREADABLE
    assert "\ufffd" in cell.text


def test_csv_that_names_its_separator_is_read():
    content = b"sep=;\r\nFull name;ID number\r\nKamau, W.;1\r\n"

    sheet = read_sheet("a.csv", content)

    assert sheet.rows[0].number == 3
    assert sheet.rows[0].cells[0].text == "Kamau, W."


def test_quoted_csv_may_have_separators_quotes_and_line_breaks():
    content = b'Full name,Purpose\r\n"Kamau, ""W""","Loan\nof 2026"\r\n'

    assert texts("a.csv", content)[1] == ['Kamau, "W"', "Loan\nof 2026"]


def test_quote_that_does_not_end_is_refused_with_its_line():
    with pytest.raises(UnmatchedQuotes) as refused:
        read_sheet("a.csv", b'Full name\nA\n"B\nC\n')

    assert refused.value.line == 4


def test_empty_lines_are_left_out_and_counted():
    sheet = read_sheet("a.csv", b"\n,\nFull name,\n,,\nWanjiku,\n")

    assert sheet.header.number == 3
    assert [row.number for row in sheet.rows] == [5]


@pytest.mark.parametrize("text", ['="0123"', "=1+1", "@SUM(A1)", "+cmd|x", "-A1"])
def test_formula_of_a_csv_is_known_as_one(text):
    cell = read_sheet("a.csv", csv_file(["ID number"], [text])).rows[0].cells[0]

    assert cell == Cell(text, Kind.FORMULA)


@pytest.mark.parametrize("text", ["+254712345678", "-5", "a=b", "W. @ Home"])
def test_text_that_only_looks_like_a_formula_stays_a_text(text):
    assert texts("a.csv", csv_file(["Phone"], [text]))[1] == [text]


@pytest.mark.parametrize("file", [csv_file, xlsx_file])
def test_lines_beyond_500_rows_and_some_titles_are_refused(file):
    name = "a.csv" if file is csv_file else "a.xlsx"
    lines = [[f"Person {n}"] for n in range(521)]

    assert len(read_sheet(name, file(*lines[:520])).lines) == 520
    with pytest.raises(TooManyRows):
        read_sheet(name, file(*lines))


def test_title_above_the_headings_does_not_hide_the_separator():
    content = b"Loans, November\n\nName;Amount\nW. Kamau;1,5\nTotal;1,5\n"

    assert texts("a.csv", content)[1:3] == [["Name", "Amount"], ["W. Kamau", "1,5"]]


@pytest.mark.parametrize("content", [b"Full name\n", b"\n\n", b"Full name\n,,\n"])
def test_file_without_a_row_is_refused(content):
    with pytest.raises(NoRows):
        read_sheet("a.csv", content)


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("a.csv", b"", Fault.EMPTY),
        ("a.csv", b"a" * (MAX_BYTES + 1), Fault.TOO_LARGE),
        ("a.pdf", b"%PDF-1.7", Fault.UNKNOWN),
        ("a.csv", b"%PDF-1.7", Fault.UNKNOWN),
        ("a.xlsm", b"PK\x03\x04", Fault.ACTIVE),
        ("a.xlsx", b"Full name\nA\n", Fault.LIES),
        ("a.csv", b"PK\x03\x04", Fault.LIES),
        ("a.xlsx", b"PK\x03\x04broken", Fault.DAMAGED),
        ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Fault.ENCRYPTED),
        ("a.csv", b"F\0u\0l\0l\0", Fault.DAMAGED),
        ("a.csv", b"sep=;\nName;ID\nWanji\0ku;1\n", Fault.DAMAGED),
        ("a.csv", b"\xff\xfeF", Fault.DAMAGED),
        ("a.csv", b"\n" * (MAX_LINES + 1), Fault.BOMB),
        ("a.csv", b"," * 100 + b"a\n", Fault.TOO_LONG),
        ("a.csv", b"a," * (MAX_BYTES // 2), Fault.TOO_LONG),
        ("a.csv", (b",".join([b"a" * 900] * 3) + b"\n") * 500, Fault.BOMB),
    ],
)
def test_file_that_is_no_sheet_of_a_member_is_refused(name, content, fault):
    assert fault_of(name, content) == fault


def test_long_cell_is_cut_above_every_limit():
    content = csv_file(["Purpose"], ["x" * 100_000])

    assert texts("a.csv", content)[1] == ["x" * MAX_TEXT]


# Value, number format, and what is read
CELLS = [
    ("01234567", "@", Cell("01234567")),
    (" Wanjiku ", "General", Cell("Wanjiku")),
    (1234567, "General", Cell("1234567", Kind.NUMBER)),
    (1234567.0, "General", Cell("1234567", Kind.NUMBER)),
    (1234567, "00000000", Cell("01234567", Kind.NUMBER)),
    (1.5, "General", Cell("1.5", Kind.NUMBER)),
    (1234567890123456, "0", Cell("1234567890123456", Kind.ROUNDED)),
    (date(1990, 12, 31), "dd/mm/yyyy", Cell("1990-12-31", Kind.DAY)),
    (
        datetime.fromisoformat("2026-01-31T14:30"),
        "dd/mm/yyyy hh:mm",
        Cell("2026-01-31T14:30", Kind.MOMENT),
    ),
    (time(14, 30), "hh:mm", Cell("14:30:00", Kind.ERROR)),
    ("=1+1", "General", Cell("=1+1", Kind.FORMULA)),
    (True, "General", Cell("True")),
]


def test_cells_of_a_workbook_are_read_as_they_are_shown():
    formats = {f"A{row}": format for row, (_, format, _) in enumerate(CELLS, start=2)}
    content = xlsx_file(["Heading"], *[[value] for value, *_ in CELLS], formats=formats)

    sheet = read_sheet("a.xlsx", content)

    assert [row.cells[0] for row in sheet.rows] == [cell for *_, cell in CELLS]


def test_first_sheet_of_a_workbook_counts():
    content = xlsx_file(*ROWS)

    assert texts("people.xlsx", content) == [list(row) for row in ROWS]


@pytest.mark.parametrize(
    "part",
    [
        {"xl/vbaProject.bin": b"x"},
        {"xl/macrosheets/sheet1.xml": b"<x/>"},
        {
            TYPES: part_of(xlsx_file(*ROWS), TYPES).replace(
                b"sheet.main", b"macroEnabled"
            )
        },
    ],
)
def test_workbook_with_macros_is_refused(part):
    assert fault_of("a.xlsx", repack(xlsx_file(*ROWS), part)) == Fault.ACTIVE


def test_workbook_that_unpacks_to_much_is_refused():
    bomb = repack(xlsx_file(*ROWS), {"xl/media/x.xml": b"0" * (65 * 1024 * 1024)})
    assert len(bomb) < 100_000

    assert fault_of("a.xlsx", bomb) == Fault.BOMB


@pytest.mark.parametrize(
    ("part", "end", "elements"),
    [
        ("xl/styles.xml", b"</fonts>", b"<font/>" * 100_000),
        ("xl/workbook.xml", b"</sheets>", b"<sheet/>" * 100_000),
        (SHEET, b"</sheetData>", b"<row>" + b"<c/>" * 2_000_000 + b"</row>"),
    ],
)
def test_workbook_with_very_many_elements_is_refused_before_it_is_read(
    part, end, elements
):
    content = xlsx_file(*ROWS)
    grown = part_of(content, part).replace(end, elements + end)
    bomb = repack(content, {part: grown})
    assert len(bomb) < 30_000

    begun = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert fault_of("a.xlsx", bomb) == Fault.BOMB
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert used.ru_utime + used.ru_stime - begun.ru_utime - begun.ru_stime < 1


@pytest.mark.slow
def test_large_workbook_of_a_member_is_read():
    header = [f"Heading {number}" for number in range(100)]
    rows = [[f"Person {n}" for _ in header] for n in range(500)]
    sheet = read_sheet("a.xlsx", xlsx_file(header, *rows))

    assert [cell.text for cell in sheet.rows[499].cells] == rows[499]


def test_workbook_with_a_document_type_is_refused():
    sheet = part_of(xlsx_file(*ROWS), SHEET)
    entity = b'<!DOCTYPE x [<!ENTITY a "aaaa">]>' + sheet

    damaged = repack(xlsx_file(*ROWS), {SHEET: entity})
    assert fault_of("a.xlsx", damaged) == Fault.DAMAGED


@pytest.mark.parametrize("row", [b'<row r="1000000000"/>', b"<row/>" * MAX_LINES])
def test_workbook_with_very_many_empty_rows_is_refused(row):
    content = xlsx_file(*ROWS)
    sheet = part_of(content, SHEET)
    last = b'<row r="10001"><c r="A10001"><v>1</v></c></row>'
    grown = sheet.replace(b"</sheetData>", row + last + b"</sheetData>")

    assert fault_of("a.xlsx", repack(content, {SHEET: grown})) == Fault.BOMB


def test_workbook_that_is_wrong_about_its_size_is_read_whole():
    content = xlsx_file(*ROWS)
    sheet = part_of(content, SHEET).replace(b'ref="A1:B2"', b'ref="A1:A1"')

    assert texts("a.xlsx", repack(content, {SHEET: sheet})) == [list(r) for r in ROWS]


@pytest.mark.parametrize("format", ["csv", "xlsx"])
def test_written_text_runs_nowhere_and_is_read_again(format):
    texts = ["=1+1", "+254712345678", "-1", "@a", "\t=1", "plain"]
    content = write_sheet(format, ["Heading"], [[text] for text in texts])

    if format == "xlsx":
        sheet = load_workbook(io.BytesIO(content)).active
        assert {cell.data_type for cell in sheet["A"]} == {"s"}
    else:
        written = content.decode("utf-8-sig").splitlines()[1:]
        assert {line[0] for line in written} <= {*"'\"p"}
    rows = read_sheet(f"a.{format}", content).rows
    assert [row.cells[0] for row in rows] == [Cell(text) for text in texts]


def test_template_of_a_workbook_holds_text_and_choices():
    content = write_sheet(
        "xlsx", ["ID number", "How"], as_text=True, choices={1: ["A", "B"]}
    )

    sheet = load_workbook(io.BytesIO(content)).active
    assert sheet.column_dimensions["A"].number_format == "@"
    (rule,) = sheet.data_validations.dataValidation
    assert (str(rule.sqref), rule.formula1) == ("B2:B501", '"A,B"')
