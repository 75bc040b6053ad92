"""Uploads: the rows of a file with the member's changes, until they are ordered.

The lines of the file do not change: mended cells and left-out rows are stored
separately, so that the service recognises the same file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import UUID

from django.db import transaction

from verification.batches.cells import (
    MAX_ROWS,
    MAX_TEXT,
    Cell,
    Kind,
    Line,
    Sheet,
    Workbook,
)
from verification.batches.models import MAX_UPLOADS, Upload
from verification.batches.spreadsheet import NoRows, TooManyRows
from verification.console.batch_columns import (
    Columns,
    find_headings,
    guess_columns,
    remember_columns,
)
from verification.console.batch_rows import Rows, is_remark, read_row
from verification.console.orders import Choice, Input, Offer, Values, inputs_of
from verification.db.ids import uuid7
from verification.reports.models import Subject
from verification.values.clock import now
from workspaces.models import Client

# Number of a line -> number of a column -> the text in place of that of the file
Mended = dict[int, dict[int, str]]


@dataclass(frozen=True, slots=True)
class OpenUpload:
    """The opened content of an upload."""

    name: str
    # The unchanged sheet of the file
    original: Sheet
    choice: Choice
    common: dict[str, str]
    # Null until the member has confirmed a mapping
    columns: dict[int, str] | None = None
    mended: Mended = field(default_factory=dict)
    # Numbers of rows without a subject, and of rows that a later order may have
    ignored: frozenset[int] = frozenset()
    skipped: frozenset[int] = frozenset()

    @classmethod
    def of(cls, upload: Upload) -> OpenUpload:
        content = upload.content
        lines = [
            Line(number, [Cell(text, Kind(kind)) for text, kind in cells])
            for number, cells in content["lines"]
        ]
        chosen, found = content["choice"], content.get("workbook")
        columns, mended = content.get("columns"), content.get("mended", {})
        sheet = Sheet(lines[0], lines[1:], Workbook(**found) if found else None)
        return cls(
            name=content["name"],
            original=sheet.with_heading(content.get("heading", 0)),
            choice=Choice(**{**chosen, "checks": tuple(chosen["checks"])}),
            common=content["common"],
            columns=None if columns is None else _by_number(columns),
            mended={int(row): _by_number(cells) for row, cells in mended.items()},
            ignored=frozenset(content.get("ignored", ())),
            skipped=frozenset(content.get("skipped", ())),
        )

    @property
    def content(self) -> dict[str, Any]:
        """The content of an upload, but for the ids of its subjects."""
        sheet = self.original
        return {
            "name": self.name,
            "choice": asdict(self.choice),
            "common": self.common,
            "lines": [
                [line.number, [[cell.text, cell.kind] for cell in line.cells]]
                for line in sheet.lines
            ],
            "heading": sheet.place_of_heading,
            "workbook": asdict(sheet.workbook) if sheet.workbook else None,
            "columns": None if self.columns is None else _by_text(self.columns),
            "mended": {str(n): _by_text(texts) for n, texts in self.mended.items()},
            "ignored": sorted(self.ignored),
            "skipped": sorted(self.skipped),
        }

    @property
    def sheet(self) -> Sheet:
        """The sheet with the cells that the member has mended."""
        rows = [
            _mend(line, self.mended[line.number])
            if line.number in self.mended
            else line
            for line in self.original.rows
        ]
        return replace(self.original, rows=rows)

    def mapping(self, client: Client, offer: Offer) -> Columns:
        """Return the confirmed mapping, or the best guess."""
        if self.columns is not None:
            return Columns(self.columns)
        return guess_columns(client, self.original, self.choice, offer)

    def missing(self, columns: Mapping[int, str], offer: Offer) -> list[Input]:
        """Return the inputs of the subject that the order needs and no column has."""
        given = {name for name in columns.values() if name}
        given |= {name for name, text in self.common.items() if text}
        found = inputs_of(self.choice, offer)
        inputs = [one for one in found if one.section == "subject"]
        labels = {str(one.label) for one in inputs if one.name in given}
        return [
            one
            for one in inputs
            if one.name not in given
            and (one.is_required or (one.other and str(one.other) not in labels))
        ]

    def read(self, client: Client, offer: Offer) -> Rows:
        """Return the rows as texts by the name of an input."""
        columns = self.mapping(client, offer).inputs
        inputs = {one.name: one for one in inputs_of(self.choice, offer)}
        used = {n: columns[n] for n in sorted(columns) if columns[n] in inputs}
        found, sheet = Rows([], used, inputs, [], []), self.sheet
        heading = [cell.text for cell in sheet.header.cells]
        for line in sheet.rows:
            is_heading = [cell.text for cell in line.cells] == heading
            if line.number in self.ignored or is_heading or is_remark(line, used):
                found.ignored.append(line)
            elif line.number in self.skipped:
                found.skipped.append(line)
            else:
                row = read_row(line, used, inputs, self.common, self.choice)
                found.rows.append(row)
        return found


def _by_text(found: Mapping[int, str]) -> dict[str, str]:
    return {str(number): text for number, text in found.items()}


def _by_number(found: Mapping[str, str]) -> dict[int, str]:
    # JSON makes texts of the numbers.
    return {int(number): text for number, text in found.items()}


def _mend(line: Line, texts: Mapping[int, str]) -> Line:
    width = max(len(line.cells), *(number + 1 for number in texts))
    return Line(
        line.number,
        [
            Cell(texts[number]) if number in texts else line.at(number)
            for number in range(width)
        ],
    )


def store_upload(
    client: Client, name: str, sheet: Sheet, choice: Choice, common: Values
) -> Upload:
    """Keep the rows of a file until they are ordered.

    Raises TooManyRows, and NoRows if no row is left below the headings.
    """
    waiting = Upload.objects.filter(
        **client.lookups,
        created_by=client.actor,
    )
    oldest = waiting.order_by("-created_at")[MAX_UPLOADS - 1 :]
    offer = Offer.to(client)
    found = find_headings(sheet, choice, offer)
    if not found.rows:
        raise NoRows
    opened = OpenUpload(name, found, choice, dict(common))
    if len(opened.read(client, offer).rows) > MAX_ROWS:
        raise TooManyRows
    Upload.objects.filter(pk__in=[one.pk for one in oldest.only("pk")]).delete()
    return create_upload(client, opened)


def create_upload(client: Client, opened: OpenUpload, **more: Any) -> Upload:
    return Upload.objects.create(
        id=uuid7(),
        **client.lookups,
        created_by=client.actor,
        content=_sealed(client, opened),
        **{"created_at": now(), **more},
    )


def _sealed(client: Client, opened: OpenUpload) -> dict[str, Any]:
    """Return the content with the subjects' ids, to find it when one is erased."""
    choice, whole = opened.choice, replace(opened, skipped=frozenset())
    found: list[str] = []
    for row in whole.read(client, Offer.to(client)).rows:
        typed = {
            name.removeprefix("subject-"): text
            for name, text in row.values.items()
            if text and name.startswith("subject-")
        }
        kind = {"subjectType": choice.subject_type, "country": choice.country}
        # A faulty row may have a number and no name.
        subject = Subject({"fullName": "?", **typed, **kind})
        if typed:
            found += map(str, subject.in_workspace(*client.where).ids)
    return {**opened.content, "subjects": found}


@transaction.atomic
def choose_columns(client: Client, upload_id: UUID, columns: dict[int, str]) -> None:
    """Confirm what each column is, and remember it for the workspace."""
    upload, opened = _lock(upload_id)
    _save(client, upload, replace(opened, columns=columns))
    offer = Offer.to(client)
    remember_columns(client, opened.original, opened.choice, offer, columns)


@transaction.atomic
def mend_rows(
    client: Client, upload_id: UUID, cells: Mended, ignored: Collection[int] = ()
) -> None:
    """Replace the texts of these cells, and ignore these rows."""
    upload, opened = _lock(upload_id)
    mended = dict(opened.mended)
    known = {line.number for line in opened.original.rows}
    for number in cells.keys() & known:
        texts = {
            n: text.replace("\0", "").strip()[:MAX_TEXT]
            for n, text in cells[number].items()
        }
        mended[number] = {**mended.get(number, {}), **texts}
    more = opened.ignored | (known & set(ignored))
    _save(client, upload, replace(opened, mended=mended, ignored=more))


@transaction.atomic
def skip_rows(client: Client, upload_id: UUID, numbers: Collection[int]) -> None:
    """Leave these rows for a later order."""
    upload, opened = _lock(upload_id)
    known = {line.number for line in opened.original.rows}
    skipped = opened.skipped | (known & set(numbers))
    _save(client, upload, replace(opened, skipped=skipped))


@transaction.atomic
def take_rows_back(client: Client, upload_id: UUID) -> None:
    """Make all rows part of the order again."""
    upload, opened = _lock(upload_id)
    _save(client, upload, replace(opened, ignored=frozenset(), skipped=frozenset()))


def _lock(upload_id: UUID) -> tuple[Upload, OpenUpload]:
    upload = Upload.objects.select_for_update().get(pk=upload_id)
    return upload, OpenUpload.of(upload)


def _save(client: Client, upload: Upload, opened: OpenUpload) -> None:
    upload.content = _sealed(client, opened)
    upload.save(update_fields=["content"])


def keep_skipped(client: Client, upload: Upload) -> None:
    """Make an upload of the rows that an order has skipped, for the rest of the day."""
    opened = OpenUpload.of(upload)
    rows = [line for line in opened.original.rows if line.number in opened.skipped]
    if not rows:
        return
    rest = replace(
        opened,
        original=replace(opened.original, rows=rows),
        skipped=frozenset(),
    )
    create_upload(client, rest, created_at=upload.created_at)
