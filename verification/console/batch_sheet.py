"""A sheet with orders: the input of each column, and rows as texts of a form.

The heading names the input of a column; without one, the cells suggest it. A member
corrects the suggestion. The workspace's next file with these headings is read alike.

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

from verification.batches.cells import MORE_LINES, NO_HEADINGS, Cell, Kind, Line, Sheet
from verification.batches.headings import (
    COMPANY_NAMES,
    NAME_PARTS,
    SYNONYMS,
    UNUSED,
    fold,
    folded,
    is_footer,
    is_name,
)
from verification.batches.models import MAX_MAPPINGS, ColumnMapping
from verification.console.base import Text
from verification.console.order_inputs import (
    CONTACTS,
    METHODS,
    MOMENT_FORMAT,
    ON,
    Choice,
    Input,
    Offer,
    Values,
    inputs_of,
    is_phone,
    repair,
)
from verification.db.encryption import keyed_hash
from verification.reports.models import IDENTIFIERS, SUBJECT_LABELS
from verification.values.clock import now
from verification.values.identifiers import shape_of
from workspaces.models import Client

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

IGNORED = ""
# Several columns may number the subject: the first one is the reference.
REFERENCE = "reference"
# Rows by which a column without a known heading is guessed
SAMPLE = 50
# The share of them that must look alike
MOST = 0.8
# ID numbers of Kenya have more digits than most counts and amounts.
FEWEST_DIGITS = 6
# A line with a longer number holds a person, not headings.
DATA_DIGITS = 6

FORMULA = _("This is a formula. Put its value here")
UNREADABLE = _(
    "We cannot read this text reliably. Save the file as XLSX, or as CSV in UTF-8"
)
BROKEN = _("The spreadsheet has no value here. Type it as text")
MADE_DAY = _("The spreadsheet changed this to a date. Type it as text")
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
        is_serial = inputs[name].kind == "DATE" and SERIAL_DAY.fullmatch(cell.text)
        if right != text or is_serial:
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


@dataclass(slots=True)
class Columns:
    """The name of an input for each column, or IGNORED."""

    inputs: dict[int, str] = field(default_factory=dict)
    # Columns whose input is a guess, or that hold something unknown
    unsure: set[int] = field(default_factory=set)

    @property
    def taken(self) -> set[str]:
        return set(self.inputs.values()) - {IGNORED}


@dataclass(frozen=True, slots=True)
class Headings:
    """Folded headings with the names of their inputs, or IGNORED."""

    labels: Mapping[str, str]
    words: Mapping[str, str]
    name_parts: frozenset[str]

    @classmethod
    def of(cls, choice: Choice, offer: Offer) -> Headings:
        inputs = inputs_of(choice, offer)
        labels: dict[str, str] = {}
        words: dict[str, str] = {}
        for one in inputs:
            # The API's name alone, such as idNumber; that of the subject comes first.
            for heading in [one.name, *_labels(one.label), one.path[-1]]:
                labels.setdefault(fold(heading), one.name)
        for one in inputs:
            if one.section != "payer":
                for heading in _words_of(one.path[-1], choice):
                    words.setdefault(heading, one.name)
        for member, label in SUBJECT_LABELS.items():
            others = [*map(fold, [member, *_labels(label)]), *_words_of(member, choice)]
            for heading in others:
                words.setdefault(heading, IGNORED)
        for heading in folded(UNUSED):
            words.setdefault(heading, IGNORED)
        parts = frozenset() if choice.is_company else frozenset(folded(NAME_PARTS))
        words = {
            heading: name for heading, name in words.items() if heading not in parts
        }
        return cls(labels, words, parts)

    def input_of(self, heading: str) -> str | None:
        """Return the input that a folded heading means, or None if it is unknown."""
        if heading in self.name_parts:
            return FULL_NAME
        return self.labels.get(heading, self.words.get(heading))

    def likeness(self, line: Line) -> int:
        """Return how much a line looks like headings: inputs count double."""
        found = [self.input_of(fold(cell.text)) for cell in line.cells if cell.text]
        return sum(1 + bool(name) for name in found if name is not None)


def _labels(label: Text) -> list[str]:
    found = []
    for language in LANGUAGES:
        with override(language):
            optional = _("(optional)")
            found += [str(label), f"{label} {optional}"]
    return found


def _words_of(member: str, choice: Choice) -> list[str]:
    words = folded(SYNONYMS.get(member, ""))
    if member == "fullName" and choice.is_company:
        words += folded(COMPANY_NAMES)
    return list(filter(None, words))


def find_headings(sheet: Sheet, choice: Choice, offer: Offer) -> Sheet:
    """Return the sheet with the line of its headings, below titles; or with none."""
    headings = Headings.of(choice, offer)
    first = sheet.lines[:MORE_LINES]
    place = max(range(len(first)), key=lambda n: headings.likeness(first[n]))
    if not headings.likeness(first[place]):
        place = NO_HEADINGS if _holds_data(first[0]) else 0
    return sheet.with_heading(place)


def has_unknown_headings(sheet: Sheet, choice: Choice, offer: Offer) -> bool:
    """Return whether no heading is known, so that the line may be a row."""
    line = sheet.header
    return bool(line.cells) and not Headings.of(choice, offer).likeness(line)


def _holds_data(line: Line) -> bool:
    """Return whether a cell is a day, an address or a long number."""
    return any(
        cell.kind in {Kind.DAY, Kind.MOMENT}
        or "@" in cell.text
        or sum(map(str.isdigit, cell.text)) >= DATA_DIGITS
        for cell in line.cells
    )


def guess_columns(
    client: Client, sheet: Sheet, choice: Choice, offer: Offer
) -> Columns:
    """Return the columns as the workspace has mapped such a file, or by best guess."""
    headings, found = Headings.of(choice, offer), Columns()
    inputs = {one.name: one for one in inputs_of(choice, offer)}
    texts = {number: text for text, number in sorted_headings(sheet)}
    for number, name in _remembered(client, sheet, choice).items():
        found.inputs[number] = name if name in inputs else IGNORED
    for names in (headings.labels, headings.words):
        for number, text in sorted(texts.items()):
            if text in names:
                _add(found, number, names[text])
    parts = [n for n, text in texts.items() if text in headings.name_parts]
    has_name = FULL_NAME in found.taken
    for number in parts:
        found.inputs.setdefault(number, IGNORED if has_name else FULL_NAME)
    for number in sorted(texts.keys() - found.inputs.keys()):
        cells = [row.at(number) for row in sheet.rows if row.at(number).text]
        free = [one for name, one in inputs.items() if name not in found.taken]
        found.inputs[number] = _by_content(cells[:SAMPLE], free, choice)
        if cells:
            found.unsure.add(number)
    return found


def _add(columns: Columns, number: int, name: str) -> None:
    if number in columns.inputs:
        return
    is_twice = name in columns.taken
    columns.inputs[number] = IGNORED if is_twice else name
    if is_twice and name != REFERENCE:
        columns.unsure.add(number)


def _by_content(cells: list[Cell], inputs: list[Input], choice: Choice) -> str:
    """Return the name of the input that most of these cells look like."""
    for one in inputs:
        if not (cells and one.section == "subject"):
            continue
        alike = [cell for cell in cells if _looks_like(cell, one, choice)]
        is_own = one.kind == "DATE" or len({c.text for c in cells}) > len(cells) * MOST
        if len(alike) >= len(cells) * MOST and is_own:
            return one.name
    return IGNORED


def _looks_like(cell: Cell, one: Input, choice: Choice) -> bool:
    text, fault = read_cell(cell, one)
    if fault or not text:
        return False
    digits = sum(map(str.isdigit, text))
    if one.kind == "EMAIL":
        return "@" in text
    if one.kind == "PHONE":
        return is_phone(choice, text)
    if one.kind == "DATE":
        # A number alone may be anything.
        return not cell.text.isdecimal()
    if one.name == FULL_NAME:
        is_plain = not digits and len(text.split()) > 1
        return is_plain and is_name(text, of_company=choice.is_company)
    shape = shape_of(one.path[-1], choice.country)
    if shape is None or one.path[-1] not in {"idNumber", "kraPin"}:
        return False
    return shape.fits(text) and digits >= FEWEST_DIGITS and not text.startswith("0")


def remember_columns(
    client: Client,
    sheet: Sheet,
    choice: Choice,
    offer: Offer,
    columns: Mapping[int, str],
) -> None:
    """Store the mapping for later files with the same headings."""
    if not sheet.header.cells:
        return
    headings = Headings.of(choice, offer)
    numbers = sorted_headings(sheet)
    inputs = [
        # None: the order has no input for the heading, so the member chose nothing.
        columns.get(n) or (None if headings.input_of(text) == IGNORED else IGNORED)
        for text, n in numbers
    ]
    mappings = ColumnMapping.objects.filter(**client.lookups)
    mappings.update_or_create(
        **client.lookups,
        headings=_digest(numbers, choice),
        defaults={"inputs": inputs, "updated_at": now()},
    )
    oldest = mappings.order_by("-updated_at")[MAX_MAPPINGS:]
    mappings.filter(pk__in=[one.pk for one in oldest]).delete()


def _remembered(client: Client, sheet: Sheet, choice: Choice) -> dict[int, str]:
    """Return what the workspace has chosen for such columns."""
    numbers = sorted_headings(sheet)
    found = (
        sheet.header.cells
        and ColumnMapping.objects.filter(
            **client.lookups,
            headings=_digest(numbers, choice),
        ).first()
    )
    if not found:
        return {}
    chosen = zip(numbers, found.inputs, strict=True)
    return {number: name for (_text, number), name in chosen if name is not None}


def sorted_headings(sheet: Sheet) -> list[tuple[str, int]]:
    """Return the folded headings with their columns, without empty ones."""
    return sorted(
        (fold(sheet.header.at(number).text), number)
        for number in range(sheet.width)
        if sheet.header.at(number).text
        or any(row.at(number).text for row in sheet.rows)
    )


def _digest(numbers: list[tuple[str, int]], choice: Choice) -> bytes:
    texts = [text for text, _number in numbers]
    return keyed_hash("headings of a file", choice.subject_type, *texts)
