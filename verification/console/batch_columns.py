"""Columns of a file: which line has the headings, and which column is which input.

The heading names the input of a column; without one, the cells suggest it. A member
corrects the suggestion. The workspace's next file with these headings is read alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    is_name,
)
from verification.batches.models import MAX_MAPPINGS, ColumnMapping
from verification.console.base import Text
from verification.console.batch_rows import (
    FULL_NAME,
    LANGUAGES,
    read_cell,
)
from verification.console.orders import (
    Choice,
    Input,
    Offer,
    inputs_of,
    is_phone,
)
from verification.db.encryption import keyed_hash
from verification.reports.models import SUBJECT_LABELS
from verification.values.clock import now
from verification.values.identifiers import shape_of
from workspaces.models import Client

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
    return [word for word in words if word]


def find_headings(sheet: Sheet, choice: Choice, offer: Offer) -> Sheet:
    """Return the sheet with the line of its headings, below titles; or with none."""
    headings = Headings.of(choice, offer)
    first = sheet.lines[:MORE_LINES]
    place = max(range(len(first)), key=lambda n: headings.likeness(first[n]))
    if not headings.likeness(first[place]):
        place = NO_HEADINGS if _holds_data(first[0]) else 0
    return sheet.with_heading(place)


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
    for number, text in sorted(texts.items()):
        if text in headings.labels:
            _add(found, number, headings.labels[text])
    for number, text in sorted(texts.items()):
        if text in headings.words and text not in headings.labels:
            _add(found, number, headings.words[text])
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
