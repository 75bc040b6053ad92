"""Orders by file: each row of a sheet becomes a request item, as a form does.

Nothing here knows a page. `read_rows` finds the columns and turns cells into the texts
that a form would have, `judge` lets the rules of the API find what is wrong by row and
column, and `place_batch` orders all rows or none. The same cells are ordered again only
if the member confirms it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import orjson
from django.db import IntegrityError
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _
from django.utils.translation import override

from verification.batches.cells import MAX_ROWS, Cell, Kind, Line, Sheet, Workbook
from verification.batches.models import MAX_UPLOADS, Batch, Upload
from verification.batches.repairs import mark_invisible, repair_number, repair_phone
from verification.console.base import Text
from verification.console.orders import (
    METHODS,
    MOMENT_FORMAT,
    ON,
    Choice,
    Input,
    Item,
    Offer,
    Quote,
    Values,
    build_item,
    fault_text,
    inputs_of,
    path_in_item,
    place_order,
    quote_items,
)
from verification.db.encryption import keyed_hash
from verification.db.ids import uuid7
from verification.decisions.models import Decision, DecisionState
from verification.reports.create import NewReport
from verification.reports.models import Report, Subject
from verification.reports.request import MAX_FAULTS, Fault, InvalidRequest
from verification.values import formats
from verification.values.clock import now
from verification.values.identifiers import shape_of
from workspaces.models import Client

LANGUAGES = ("en", "sw")
# Days as people write them, after those of ISO 8601; the day stands first.
DAY = re.compile(r"(\d{1,2})[./-](\d{1,2})[./-](\d{4})(?:[ T]+(\d{1,2}:\d{2}))?")
# A long number that a spreadsheet has shortened, such as 2.54712E+11
SHORTENED = re.compile(r"\d([.,]\d+)?E\+?\d+", re.IGNORECASE)
# A Kenyan mobile number that a spreadsheet took for a number
MOBILE_WITHOUT_ZERO = re.compile(r"[17]\d{8}")
# Digits that such numbers of Kenya mostly have. One with fewer may have lost zeros.
USUAL_LENGTH = {"idNumber": 8, "postalCode": 5}
YES, NO = {"yes", "y", "true", "1", "ndiyo", "on"}, {"no", "n", "false", "0", "hapana"}

FORMULA = _("This is a formula. Put its value here")
UNREADABLE = _(
    "We cannot read this text for sure. Save the file as XLSX, or as CSV in UTF-8"
)
BROKEN = _("The spreadsheet has no value here. Type it as text")
MADE_DAY = _("The spreadsheet has made a day of it. Type it as text")
ROUNDED = _("The spreadsheet has rounded this number. Type it as text")
NO_DAY = _("Write the day as 1990-12-31 or 31/12/1990")
NO_MOMENT = _("Write the time as 2026-01-31 14:30 or 31/01/2026 14:30")
NO_FLAG = _("Write yes or no")


class FileOrdered(Exception):
    """A file with the same cells was ordered since the member has confirmed."""


def columns_of(choice: Choice, offer: Offer) -> list[Input]:
    """Return the columns of a template: what differs from row to row comes first."""
    inputs = [one for one in inputs_of(choice, offer) if one.kind != "FLAG"]
    own = [one for one in inputs if not is_common(one)]
    return own + [one for one in inputs if is_common(one)]


def common_inputs(choice: Choice, offer: Offer) -> list[Input]:
    """Return what can be typed once for all rows; a cell of the file wins."""
    return [
        replace(one, is_required=False, other="")
        for one in inputs_of(choice, offer)
        if is_common(one)
    ]


def is_common(one: Input) -> bool:
    """Return whether all rows may have this in common, as no row's subject has it."""
    return one.section in {"consent", "payer"} or one.name in {"purpose", "reuse"}


@dataclass(slots=True)
class RowFault:
    """What is wrong in a row, in a column of the file or, with None, in no column."""

    row: int
    column: int | None
    label: Text
    text: Text


@dataclass(slots=True)
class Row:
    """A row of the file with the texts that a form would have."""

    line: Line
    values: dict[str, str]
    # The name of an input -> what is wrong with its cell
    faults: dict[str, Text] = field(default_factory=dict)
    # The number of a column -> the text of its cell that was put right
    repairs: dict[int, str] = field(default_factory=dict)

    @property
    def texts(self) -> list[str]:
        """The texts of the cells, with those that were put right."""
        return [
            self.repairs.get(number, cell.text)
            for number, cell in enumerate(self.line.cells)
        ]


@dataclass(slots=True)
class Rows:
    """All rows; `columns` are the names of the inputs, by the number of the column."""

    rows: list[Row]
    columns: dict[int, str]
    inputs: dict[str, Input]
    # The number of a column -> what is wrong with its heading
    faults: dict[int, Text]

    @property
    def column_numbers(self) -> dict[str, int]:
        return {name: number for number, name in self.columns.items()}


def read_rows(sheet: Sheet, choice: Choice, common: Values, offer: Offer) -> Rows:
    """Return the rows of a sheet as texts by the name of an input.

    Headings are the labels of the form in either language, or the API's names.
    """
    inputs = {one.name: one for one in inputs_of(choice, offer)}
    known = _headings(inputs.values())
    columns: dict[int, str] = {}
    faults: dict[int, Text] = {}
    width = max(len(line.cells) for line in [sheet.header, *sheet.rows])
    for number in range(width):
        heading = sheet.header.at(number).text
        name = known.get(_fold(heading))
        if name in columns.values():
            faults[number] = _("The file has this column twice")
        elif name:
            columns[number] = name
        elif heading:
            faults[number] = _("This order has no such column. Delete it")
        elif any(row.at(number).text for row in sheet.rows):
            faults[number] = _("This column has no heading")
    rows = [_read_row(line, columns, inputs, common, choice) for line in sheet.rows]
    return Rows(rows, columns, inputs, faults)


def _headings(inputs: Any) -> dict[str, str]:
    """Return the names of inputs by the folded headings that mean them."""
    found: dict[str, str] = {}
    for one in inputs:
        headings = [one.name]
        for language in LANGUAGES:
            with override(language):
                headings.append(str(one.label))
                headings.append(
                    str(format_lazy(_("{label} (optional)"), label=one.label))
                )
        # The API's name alone, such as idNumber; that of the subject comes first.
        for heading in [*headings, one.path[-1]]:
            found.setdefault(_fold(heading), one.name)
    return found


def _fold(heading: str) -> str:
    return "".join(c for c in heading.casefold() if c.isalnum())


def _read_row(
    line: Line,
    columns: Mapping[int, str],
    inputs: Mapping[str, Input],
    common: Values,
    choice: Choice,
) -> Row:
    row = Row(line, {n: text for n, text in common.items() if n in inputs})
    for number, name in columns.items():
        cell = line.at(number)
        if not cell.text:
            continue
        row.values[name], fault = _read_cell(cell, inputs[name], choice)
        if fault:
            row.faults[name] = fault
            continue
        right = _repair(row.values[name], inputs[name], choice)
        if right != row.values[name]:
            row.values[name] = row.repairs[number] = right
    return row


def _read_cell(cell: Cell, one: Input, choice: Choice) -> tuple[str, Text]:
    """Return the text of a cell for this input, and what is wrong or an empty text."""
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
        return _methods().get(_fold(text), text), ""
    if one.kind == "COUNTRY":
        return text.upper(), ""
    return text, ""


def _repair(text: str, one: Input, choice: Choice) -> str:
    """Return the number that a spreadsheet has damaged; other texts as they are."""
    if one.kind == "PHONE":
        text = repair_phone(text, partial(_is_phone, choice))
        is_short = choice.country == "KE" and MOBILE_WITHOUT_ZERO.fullmatch(text)
        return f"0{text}" if is_short else text
    shape = shape_of(one.path[-1], choice.country) if one.kind == "TEXT" else None
    return repair_number(text, shape) if shape else text


def _is_phone(choice: Choice, text: str) -> bool:
    """Return whether the text is a phone number, as the form or a file takes it."""
    if choice.country == "KE" and MOBILE_WITHOUT_ZERO.fullmatch(text):
        return True
    for read in (formats.kenyan_mobile, formats.phone):
        with suppress(ValueError):
            return bool(read(text))
    return False


def _read_time(text: str, kind: str) -> tuple[str, Text]:
    if typed := DAY.fullmatch(text):
        day, month, year, hour = typed.groups()
        text = f"{year}-{month:0>2}-{day:0>2}" + (f"T{hour:0>5}" if hour else "")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return "", NO_DAY if kind == "DATE" else NO_MOMENT
    if kind == "MOMENT":
        return moment.isoformat() if moment.tzinfo else f"{moment:{MOMENT_FORMAT}}", ""
    return moment.date().isoformat(), ""


def _methods() -> dict[str, str]:
    """Return the ways of consent by their folded names in both languages."""
    found = {_fold(name): name for name, _label in METHODS}
    for language in LANGUAGES:
        with override(language):
            found |= {_fold(str(label)): name for name, label in METHODS}
    return found


@dataclass(slots=True)
class Judged:
    """The result for the rows: a quote, or faults."""

    rows: Rows
    items: list[Item]
    quote: Quote | None
    # Of the file as a whole
    general: list[Text]
    faults: list[RowFault]
    # Whether there may be more faults than these
    is_cut: bool = False

    @property
    def is_faulty(self) -> bool:
        return bool(self.general or self.faults or self.rows.faults)

    @property
    def repairs(self) -> list[tuple[int, Text, str, str]]:
        """Return row, label, text before and text after of each cell put right."""
        rows = self.rows
        return [
            (
                row.line.number,
                rows.inputs[rows.columns[number]].label,
                mark_invisible(row.line.at(number).text),
                text,
            )
            for row in rows.rows
            for number, text in row.repairs.items()
        ]

    def faulty_rows(self) -> list[tuple[Row, list[RowFault]]]:
        """Return each row with faults, and these."""
        return [
            (row, found)
            for row in self.rows.rows
            if (found := [f for f in self.faults if f.row == row.line.number])
        ]

    @property
    def short_numbers(self) -> list[tuple[Text, list[int]]]:
        """Return labels with the rows whose number may have lost zeros in front."""
        found: dict[str, list[int]] = {}
        for row in self.rows.rows:
            for name, one in self.rows.inputs.items():
                full = USUAL_LENGTH.get(one.path[-1], 0)
                text = row.values.get(name, "")
                if text.isdecimal() and len(text) < full:
                    found.setdefault(name, []).append(row.line.number)
        inputs = self.rows.inputs
        return [(inputs[name].label, numbers) for name, numbers in found.items()]


def judge(client: Client, rows: Rows, choice: Choice, offer: Offer) -> Judged:
    """Quote the rows, or return what is wrong with them. Nothing is stored."""
    items = [build_item(choice, row.values, offer) for row in rows.rows]
    numbers = rows.column_numbers
    faults = [
        RowFault(row.line.number, numbers[name], rows.inputs[name].label, text)
        for row in rows.rows
        for name, text in row.faults.items()
    ]
    judged = Judged(rows, items, None, [], faults)
    try:
        judged.quote = quote_items(client, items, draft=choice.is_draft_only(offer))
    except InvalidRequest as e:
        judged.is_cut = len(e.faults) >= MAX_FAULTS
        _add_faults(judged, e.faults)
    else:
        judged.faults += _find_repeats(client, judged)
    judged.faults.sort(key=lambda f: (f.row, -1 if f.column is None else f.column))
    return judged


def _add_faults(judged: Judged, faults: Sequence[Fault]) -> None:
    """Add what the rules of the API found: at a cell, or to the file as a whole."""
    rows, numbers = judged.rows, judged.rows.column_numbers
    general: dict[str, None] = {}
    for fault in faults:
        name, text = "-".join(path_in_item(fault)), fault_text(fault, rows.inputs)
        one = rows.inputs.get(name)
        if len(fault.path) < 2 or one is None:
            general[text] = None
            continue
        row = rows.rows[int(fault.path[1])]
        if name in row.faults:
            continue
        if name in numbers:
            at = RowFault(row.line.number, numbers[name], one.label, text)
            judged.faults.append(at)
        elif row.values.get(name) or is_common(one):
            general[f"{one.label}: {text}"] = None
        else:
            no_column = _("{label}: {text}. The file has no such column")
            general[str(format_lazy(no_column, label=one.label, text=text))] = None
    judged.general += list(general)


def _find_repeats(client: Client, judged: Judged) -> Iterator[RowFault]:
    """Yield a fault for each row about the subject of an earlier row."""
    assert judged.quote  # noqa: S101
    rows, numbers = judged.rows, judged.rows.column_numbers
    earlier: dict[UUID, int] = {}
    where = (client.workspace.pk, client.environment)
    for row, quoted in zip(rows.rows, judged.quote.orders, strict=True):
        subject = quoted.order.subject.in_workspace(*where).id
        if subject not in earlier:
            earlier[subject] = row.line.number
            continue
        names = ("subject-idNumber", "subject-registrationNumber", "subject-kraPin")
        told = [n for n in names if row.values.get(n)] or ["subject-fullName"]
        yield RowFault(
            row.line.number,
            numbers.get(told[0]),
            rows.inputs[told[0]].label,
            format_lazy(_("The same as in row {row}"), row=earlier[subject]),
        )


def digest_of_sheet(client: Client, sheet: Sheet, repeats: int) -> bytes:
    """Return the keyed hash of the cells and of how often they were ordered before."""
    cells = [[c.text for c in line.cells] for line in [sheet.header, *sheet.rows]]
    where = (client.workspace.pk, client.environment)
    counted = [repeats] if repeats else []
    return keyed_hash("batch", *where, orjson.dumps(cells).decode(), *counted)


def orders_before(client: Client, sheet: Sheet) -> list[Batch]:
    """Return the batches that files with the same cells have ordered, oldest first."""
    found: list[Batch] = []
    batches = Batch.objects.filter(
        workspace=client.workspace, environment=client.environment
    )
    while one := batches.filter(
        digest=digest_of_sheet(client, sheet, len(found))
    ).first():
        found.append(one)
    return found


def store_upload(
    client: Client, name: str, sheet: Sheet, choice: Choice, common: Values
) -> Upload:
    """Keep the rows of a file until they are ordered."""
    waiting = Upload.objects.filter(
        workspace=client.workspace,
        environment=client.environment,
        created_by=client.actor,
    )
    oldest = waiting.order_by("-created_at")[MAX_UPLOADS - 1 :]
    Upload.objects.filter(pk__in=[one.pk for one in oldest.only("pk")]).delete()
    rows = read_rows(sheet, choice, common, Offer.to(client)).rows
    return Upload.objects.create(
        id=uuid7(),
        workspace=client.workspace,
        environment=client.environment,
        created_by=client.actor,
        content={
            "name": name,
            "choice": asdict(choice),
            "common": dict(common),
            "lines": [
                [line.number, [[cell.text, cell.kind] for cell in line.cells]]
                for line in [sheet.header, *sheet.rows]
            ],
            "workbook": asdict(sheet.workbook) if sheet.workbook else None,
            "subjects": _subject_ids(client, rows, choice),
        },
        created_at=now(),
    )


def _subject_ids(client: Client, rows: Sequence[Row], choice: Choice) -> list[str]:
    """Return the ids of the subjects, to find the upload when one is erased."""
    where = (client.workspace.pk, client.environment)
    found: list[str] = []
    for row in rows:
        typed = {
            name.removeprefix("subject-"): text
            for name, text in row.values.items()
            if text and name.startswith("subject-")
        }
        kind = {"subjectType": choice.subject_type, "country": choice.country}
        # A faulty row may have a number and no name.
        subject = Subject({"fullName": "?", **typed, **kind})
        if typed:
            found += map(str, subject.in_workspace(*where).ids)
    return found


@dataclass(frozen=True, slots=True)
class OpenUpload:
    """What an upload holds."""

    name: str
    sheet: Sheet
    choice: Choice
    common: dict[str, str]

    @classmethod
    def of(cls, upload: Upload) -> OpenUpload:
        content = upload.content
        header, *rows = [
            Line(number, [Cell(text, Kind(kind)) for text, kind in cells])
            for number, cells in content["lines"]
        ]
        chosen = content["choice"]
        choice = Choice(**{**chosen, "checks": tuple(chosen["checks"])})
        found = content.get("workbook")
        sheet = Sheet(header, rows, Workbook(**found) if found else None)
        return cls(content["name"], sheet, choice, content["common"])

    def judge(self, client: Client) -> Judged:
        offer = Offer.to(client)
        rows = read_rows(self.sheet, self.choice, self.common, offer)
        return judge(client, rows, self.choice, offer)


def place_batch(
    client: Client,
    upload: Upload,
    judged: Judged,
    *,
    draft: bool,
    digest: str,
    repeats: int = 0,
    also: Callable[[Batch], None],
) -> list[UUID]:
    """Order all rows of an upload or none; return the ids of the reports.

    The upload becomes a batch.
    `repeats` is how many orders of the same cells the member has confirmed. `also` is
    called in the same transaction: it checks permission and writes the trail.
    Raises FileOrdered, and as `place_order`; then nothing is ordered.
    """
    opened = OpenUpload.of(upload)

    def keep(created: list[NewReport]) -> None:
        batch = Batch.objects.create(
            id=upload.pk,
            workspace=client.workspace,
            environment=client.environment,
            digest=digest_of_sheet(client, opened.sheet, repeats),
            name=opened.name,
            report_ids=[new.report.pk for new in created],
            row_numbers=[row.line.number for row in judged.rows.rows],
            draft=draft,
            created_by=client.actor,
            created_at=now(),
        )
        also(batch)
        Upload.objects.filter(pk=upload.pk).delete()

    try:
        report_ids, _is_repeat = place_order(
            client,
            judged.items,
            draft=draft,
            key=f"batch {upload.pk}",
            digest=digest,
            also=keep,
        )
    except IntegrityError:
        if len(orders_before(client, opened.sheet)) > repeats:
            raise FileOrdered from None
        raise
    return report_ids


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One row of a batch: its report, and the decision that counts."""

    row: int
    report: Report
    decision: str


def batch_of(report: Report) -> Batch | None:
    """Return the batch that has ordered the report, or None."""
    batches = Batch.objects.filter(report_ids__contains=[report.pk])
    return batches.filter(
        workspace=report.workspace_id, environment=report.environment
    ).first()


def reports_of(batch: Batch, first: int = 0, most: int = MAX_ROWS) -> list[BatchReport]:
    """Return reports of a batch from the row with this index, in the file's order."""
    numbers = batch.row_numbers[first : first + most]
    ids = batch.report_ids[first : first + most]
    found = Report.objects.in_bulk(ids)
    final = Decision.objects.filter(report__in=ids, state=DecisionState.FINAL)
    # The newest comes last, and counts.
    decided = dict(final.order_by("number").values_list("report_id", "status"))
    return [
        BatchReport(number, found[report], decided.get(report, ""))
        for number, report in zip(numbers, ids, strict=True)
    ]
