"""Orders by file: each row of a sheet becomes a request item, as a form does.

This module is independent of the pages. An upload has the rows with the member's
changes, until they are ordered. The lines of the file do not change: mended cells and
left-out rows are stored separately, so that the service recognises the same file.

`batch_sheet` turns cells into the texts of a form, `judge` lets the API's rules find
faults by row and column, and `place_batch` orders all rows that are not left out, or
none. A repeated order of the same cells needs the member's confirmation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import UUID

import orjson
from django.db import IntegrityError, transaction
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from verification.batches.cells import (
    MAX_ROWS,
    MAX_TEXT,
    Cell,
    Kind,
    Line,
    Sheet,
    Workbook,
)
from verification.batches.models import MAX_UPLOADS, Batch, Upload
from verification.batches.repairs import mark_invisible
from verification.batches.spreadsheet import NoRows, TooManyRows
from verification.checks.models import CheckResult
from verification.console.base import Text
from verification.console.batch_sheet import (
    Columns,
    Row,
    Rows,
    find_headings,
    guess_columns,
    is_remark,
    read_row,
    remember_columns,
)
from verification.console.order_faults import fault_text, path_in_item
from verification.console.order_inputs import (
    Choice,
    Input,
    Item,
    Offer,
    Values,
    build_item,
    inputs_of,
)
from verification.console.order_quotes import Quote, quote_items
from verification.console.orders import place_order
from verification.db.encryption import keyed_hash
from verification.db.ids import uuid7
from verification.decisions.models import Decision, DecisionState
from verification.reports.create import NewReport
from verification.reports.models import Report, Subject
from verification.reports.request import MAX_FAULTS, Fault, InvalidRequest
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


# Digits that such numbers of Kenya mostly have. One with fewer may have lost zeros.
USUAL_LENGTH = {"idNumber": 8, "postalCode": 5}


class FileOrdered(Exception):
    """A file with the same cells was ordered since the member has confirmed."""


def columns_of(choice: Choice, offer: Offer) -> list[Input]:
    """Return the columns of a template: what differs from row to row comes first."""
    inputs = [one for one in inputs_of(choice, offer) if one.kind != "FLAG"]
    own = [one for one in inputs if not is_common(one)]
    return own + [one for one in inputs if is_common(one)]


def common_inputs(choice: Choice, offer: Offer) -> list[Input]:
    """Return what can be typed once for all rows; a cell of the file wins."""
    return [one for one in inputs_of(choice, offer) if is_common(one)]


def is_common(one: Input) -> bool:
    """Return whether all rows may have this in common, as no row's subject has it."""
    return one.section in {"consent", "payer"} or one.name in {"purpose", "reuse"}


@dataclass(frozen=True, slots=True)
class RowFault:
    """The fault of a row, in a column of the file or, with None, in the whole row."""

    row: int
    column: int | None
    label: Text
    text: Text


@dataclass(slots=True)
class Judged:
    """The result for the rows: a quote, or faults."""

    rows: Rows
    # The items of all rows
    items: list[Item]
    # Only without a fault
    quote: Quote | None
    # Faults of the whole file
    general: list[Text]
    faults: list[RowFault]
    # True if there may be more faults
    is_cut: bool = False

    @property
    def is_faulty(self) -> bool:
        return bool(self.general or self.faults)

    @property
    def digest(self) -> str:
        """Return the digest of the quote and of the items.

        The items count, too: a mended cell, or a mapping that a colleague has changed,
        can change the order at the same price.
        """
        assert self.quote  # noqa: S101
        items = orjson.dumps(self.items).decode()
        return keyed_hash("quote of a file", self.quote.digest, items).hex()

    @property
    def faulty_numbers(self) -> set[int]:
        return {fault.row for fault in self.faults}

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


def judge(client: Client, opened: OpenUpload) -> Judged:
    """Quote the rows, or return their faults. It stores nothing.

    The rules stop at MAX_FAULTS: the rows without a fault so far are judged again.
    """
    choice, offer = opened.choice, Offer.to(client)
    rows = opened.read(client, offer)
    items = [build_item(choice, row.values, offer) for row in rows.rows]
    numbers = rows.column_numbers
    faults = [
        RowFault(row.line.number, numbers[name], rows.inputs[name].label, text)
        for row in rows.rows
        for name, text in row.faults.items()
    ]
    judged = Judged(rows, items, None, [], faults)
    if not rows.rows:
        judged.general.append(_("No row is left to order"))
    left = list(zip(rows.rows, items, strict=True))
    draft, quote = choice.is_draft_only(offer), None
    while left and quote is None and not judged.is_cut:
        try:
            quote = quote_items(client, [item for _, item in left], draft=draft)
        except InvalidRequest as e:
            _add_faults(judged, [row for row, _ in left], e.faults)
            wrong = judged.faulty_numbers
            rest = [each for each in left if each[0].line.number not in wrong]
            # Faults of the whole file hide the faults of its rows.
            is_whole = len(rest) == len(left) or bool(judged.general)
            judged.is_cut = is_whole and len(e.faults) >= MAX_FAULTS
            left = [] if is_whole else rest
    if quote:
        judged.faults += _find_repeats(client, judged, [row for row, _ in left], quote)
    judged.quote = None if judged.is_faulty else quote
    # Several checks can need the same cell.
    judged.faults = sorted(
        dict.fromkeys(judged.faults),
        key=lambda f: (f.row, -1 if f.column is None else f.column),
    )
    return judged


def _add_faults(judged: Judged, asked: Sequence[Row], faults: Sequence[Fault]) -> None:
    """Add what the rules of the API found: at a cell, or to the file as a whole."""
    rows, numbers = judged.rows, judged.rows.column_numbers
    general = dict.fromkeys(judged.general)
    for fault in faults:
        name, text = "-".join(path_in_item(fault)), fault_text(fault, rows.inputs)
        one = rows.inputs.get(name)
        if len(fault.path) < 2 or one is None:
            general[text] = None
            continue
        row = asked[int(fault.path[1])]
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
    judged.general = list(general)


def _find_repeats(
    client: Client, judged: Judged, asked: Sequence[Row], quote: Quote
) -> Iterator[RowFault]:
    """Yield a fault for each row about the subject of an earlier row."""
    rows, numbers = judged.rows, judged.rows.column_numbers
    wrong, earlier = judged.faulty_numbers, dict[UUID, int]()
    for row, order in zip(asked, quote.orders, strict=True):
        # The same id for all rows with one name and nothing else
        subject = order.subject.in_workspace(*client.where, client.workspace.pk).id
        if row.line.number in wrong:
            continue
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
    """Return the keyed hash of the cells and of how often they were ordered before.

    The cells are those of the file, so that it is known however it was mended.
    """
    cells = [[cell.text for cell in line.cells] for line in sheet.lines]
    counted = [repeats] if repeats else []
    return keyed_hash("batch", *client.where, orjson.dumps(cells).decode(), *counted)


def orders_before(client: Client, sheet: Sheet) -> list[Batch]:
    """Return the batches that files with the same cells have ordered, oldest first."""
    found: list[Batch] = []
    batches = Batch.objects.filter(**client.lookups)
    while one := batches.filter(
        digest=digest_of_sheet(client, sheet, len(found))
    ).first():
        found.append(one)
    return found


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
    """Order all judged rows or none; return the ids of the reports.

    The upload becomes a batch. Rows that were skipped become another upload.
    `repeats` is how many orders of the same cells the member has confirmed. `also` is
    called in the same transaction: it checks permission and writes the trail.
    Raises FileOrdered, and as `place_order`; then nothing is ordered.
    """
    opened = OpenUpload.of(upload)

    def keep(created: list[NewReport]) -> None:
        batch = Batch.objects.create(
            id=upload.pk,
            **client.lookups,
            digest=digest_of_sheet(client, opened.original, repeats),
            name=opened.name,
            report_ids=[new.report.pk for new in created],
            row_numbers=[row.line.number for row in judged.rows.rows],
            draft=draft,
            created_by=client.actor,
            created_at=now(),
        )
        also(batch)
        keep_skipped(client, upload)
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
        if len(orders_before(client, opened.original)) > repeats:
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


def checks_of(batch: Batch) -> dict[UUID, dict[str, tuple[str, str]]]:
    """Return status and risk of each check, by report and name of the check."""
    found: dict[UUID, dict[str, tuple[str, str]]] = {pk: {} for pk in batch.report_ids}
    results = CheckResult.objects.filter(report__in=batch.report_ids)
    columns = ("report_id", "name", "status", "risk_level")
    for report, name, status, risk in results.order_by("position").values_list(
        *columns
    ):
        found[report][name] = (status, risk)
    return found
