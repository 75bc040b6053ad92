"""Pages of batches: choose checks, send a file, mend it, order, follow it.

The file's rows are stored sealed until they are ordered, for 24 hours at most. The
address of a page has the id of the upload, which becomes that of the batch.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from hashlib import sha256
from time import monotonic
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.http import HttpResponse
from django.utils.html import format_html
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from verification.accounts.sessions import REFRESH
from verification.batches.cells import Line
from verification.batches.models import UPLOAD_RETENTION, Batch, Upload
from verification.batches.spreadsheet import (
    MEDIA_TYPES,
    NoRows,
    TooManyRows,
    write_sheet,
)
from verification.consents.links import REMINDABLE_STATUSES, consent_links
from verification.consents.models import Consent
from verification.consents.subject_messages import reaches_subject
from verification.console import orders
from verification.console.base import (
    PAGE_SIZE,
    Place,
    Text,
    member_required,
    post_required,
)
from verification.console.batch_sheet import (
    IGNORED,
    Columns,
    Row,
    has_unknown_headings,
)
from verification.console.batches import (
    FileOrdered,
    Judged,
    Mended,
    OpenUpload,
    RowFault,
    checks_of,
    choose_columns,
    columns_of,
    common_inputs,
    create_upload,
    judge,
    mend_rows,
    orders_before,
    place_batch,
    reports_of,
    skip_rows,
    store_upload,
    take_rows_back,
)
from verification.console.order_form import (
    NO_ROWS,
    TOO_MANY_ROWS,
    ChoiceForm,
    ColumnsForm,
    UploadForm,
    choice_context,
    needed_text,
)
from verification.console.order_inputs import METHODS, Choice, Offer
from verification.console.order_pages import (
    NOT_COVERED,
    choice_form,
    require_order_rate,
)
from verification.console.order_quotes import Quote, QuotedLine, covers, quote_launches
from verification.console.report_actions import NONE_LAUNCHED, launch_refusal_texts
from verification.db.base import ResultPage, read_page
from verification.decisions.case_list import standings_of
from verification.decisions.notices import reports_under_correction
from verification.files.uploads import status_of
from verification.notifications.sms import sms_is_configured
from verification.reports.hosted_links import NotRenewable, ResendTooSoon
from verification.reports.idempotency import RequestInProgress
from verification.reports.models import Report, ReportStatus, SubjectType
from verification.reports.request import InvalidRequest
from verification.reports.status import NotLaunchable
from verification.values.clock import now
from verification.values.formats import one_line
from verification.web.pages import attachment, read_id
from workspaces.ledger import InsufficientBalance
from workspaces.members import Permission, require_present
from workspaces.models import Member

UPLOADS_PER_MINUTE = 20
MAX_NAME_LENGTH = 150
# Nobody gets a further link by this page within this time.
INTERVAL = timedelta(days=1)
# A request takes no longer; the member goes on with another one.
MAX_SECONDS = 10
# So often a workspace may press the button, which takes a third of a process at most.
REMINDERS_PER_MINUTE = 2
# Rows that the quote shows, from the beginning and from the end
FIRST_ROWS, LAST_ROWS = 7, 3
# Cells put right that the quote shows
SHOWN_REPAIRS = 50
# Rows with faults that a page shows, to be mended or left out
FAULTY_ROWS = 25
# Faults that the summary above them leads to
LISTED_FAULTS = 12
# Cells of a column by which the member knows it
SAMPLES = 3
# The number of a row; the name of a field: the numbers of a row and of a column
ROW = re.compile(r"\d{1,5}")
CELL = re.compile(r"cell-(\d{1,5})-(\d{1,3})")
# A cell of a page shows no more of a text.
SHOWN_LETTERS = 100
CHANGED = _("Nothing is ordered yet: the rows or their price changed. Look again.")
UNCONFIRMED = _(
    "Nothing was ordered. Read what stands above the price, and confirm it below."
)
MAY_BE_ROW = _(
    "Row {row} is read as headings. If it is one to order, add headings above it."
)
RESULT_COLUMNS = (
    _("Row"),
    _("Name"),
    _("Report"),
    _("Reference"),
    _("Status"),
    _("Score"),
    _("Risk"),
    _("Decision"),
    _("Remark"),
)
# Columns of each check
CHECK_COLUMNS = (_("Status"), _("Risk"))
# Why a subject got no further link
RECENT = _("Not sent, as there is a link or a reminder from the last day")
UNREACHED = _("Not sent, as the report has no address that we can use")
ANSWERED = _("Not sent, as the subject has just answered")
LEFT = _("Not sent yet: send again to go on")
UNSENT = (RECENT, UNREACHED, ANSWERED, LEFT)


@member_required()
def listing(place: Place) -> HttpResponse:
    """List the batches, and the uploads of this member that wait for their order."""
    batches = Batch.objects.filter(**place.lookups).order_by("-created_at")
    shown = {
        "page": read_page(batches, **place.paging),
        "uploads": _uploads(place).order_by("-created_at"),
    }
    return place.render("batches/list", shown)


def _uploads(place: Place) -> Any:
    return Upload.objects.filter(**place.lookups, created_by=place.client.actor)


@member_required(Permission.ORDER)
def upload(place: Place) -> HttpResponse:
    """Show the choice, then the form of the file; a POST keeps the file's rows.

    The step `choice` shows the choice again, as the member made it.
    """
    place.require_live()
    step = place.request.GET.get("step", "")
    chosen = choice_form(place, place.request.GET if step else None)
    if step in {"", "choice"} or not chosen.is_valid():
        return _render_choice(place, chosen)
    choice = chosen.choice
    inputs = common_inputs(choice, place.offer)
    earlier = _earlier_upload(place)
    opened = OpenUpload.of(earlier) if earlier else None
    if place.posted is None:
        initial = opened.common if opened else {"reuse": True}
        form = UploadForm(None, inputs, is_sent=bool(earlier), initial=initial)
        return _render_upload(place, choice, form)
    form = UploadForm(
        place.posted,
        inputs,
        is_sent=bool(earlier),
        is_live=place.workspace.is_live,
        files=place.files,
    )
    if not place.is_valid_upload(form, "uploads", UPLOADS_PER_MINUTE):
        return _render_upload(place, choice, form, status_of(form))
    try:
        kept = _keep(place, choice, form, opened)
    except (NoRows, TooManyRows) as e:
        form.add_error("file", NO_ROWS if isinstance(e, NoRows) else TOO_MANY_ROWS)
        return _render_upload(place, choice, form)
    if earlier:
        # The file that was put right takes its place.
        earlier.delete()
    return place.to("reports-batch", batch=kept.pk)


def _keep(
    place: Place, choice: Choice, form: UploadForm, earlier: OpenUpload | None
) -> Upload:
    """Keep the rows of the file, or of the earlier one if none is sent."""
    if sent := form.cleaned_data["file"]:
        name, sheet = sent
        name = one_line(name)[-MAX_NAME_LENGTH:]
        return store_upload(place.client, name, sheet, choice, form.values)
    assert earlier  # noqa: S101
    # Other checks may need other columns.
    columns = earlier.columns if earlier.choice == choice else None
    opened = replace(earlier, choice=choice, common=form.values, columns=columns)
    return create_upload(place.client, opened)


def _render_choice(place: Place, form: ChoiceForm) -> HttpResponse:
    kind = form.data.get("subject_type") or form.initial["subject_type"]
    is_company = kind == SubjectType.COMPANY
    return place.render("batches/choice", {"form": form, "is_company": is_company})


def _earlier_upload(place: Place) -> Upload | None:
    """Return the upload that is sent again, which the address names."""
    earlier = read_id(place.request.GET.get("again", ""))
    return _uploads(place).filter(pk=earlier).first()


def _render_upload(
    place: Place, choice: Choice, form: UploadForm, status: int = 200
) -> HttpResponse:
    earlier = _earlier_upload(place)
    shown = {
        **choice_context(choice, place.offer),
        "form": form,
        "earlier": earlier,
        "earlier_name": earlier.content["name"] if earlier else "",
        "columns": columns_of(choice, place.offer),
        "hours": int(UPLOAD_RETENTION.total_seconds()) // 3600,
    }
    return place.render("batches/upload", shown, status)


@member_required(Permission.ORDER)
def template(place: Place, format: str) -> HttpResponse:
    """Return a file with the headings that the choice needs."""
    chosen = choice_form(place, place.request.GET)
    if not chosen.is_valid():
        return _render_choice(place, chosen)
    columns = columns_of(chosen.choice, place.offer)
    methods = [str(label) for _name, label in METHODS]
    content = write_sheet(
        format,
        [str(one.label) for one in columns],
        as_text=True,
        choices={n: methods for n, x in enumerate(columns) if x.kind == "METHOD"},
    )
    return attachment(content, f"template.{format}", MEDIA_TYPES[format])


@member_required(write=Permission.ORDER)
def show(place: Place, batch: UUID) -> HttpResponse:
    """Show faults or the quote of an upload, or how a batch goes on; a POST orders."""
    ordered = Batch.objects.filter(pk=batch, **place.lookups).first()
    step = place.request.POST.get("step", "")
    if ordered:
        if place.posted is None:
            return _show_progress(place, ordered)
        return _to_ordered(place, ordered.pk)
    # The rows are visible only to the member who uploaded the file.
    kept = _uploads(place).get(pk=batch)
    require_present(place.member, Permission.ORDER)
    if step == "discard":
        kept.delete()
        gone = _("The rows of the file are deleted. Nothing was ordered.")
        return place.to("reports-batches", success=gone)
    place.require_live()
    if step in {"order", "draft"}:
        require_order_rate(place)
        return _place(place, kept, draft=step == "draft")
    if step in {"columns", "mend", "skip", "back"}:
        require_order_rate(place)
        return _change(place, kept, step)
    return _show_upload(place, kept)


def _change(place: Place, kept: Upload, step: str) -> HttpResponse:
    """Change columns, cells or left-out rows; then show the faults or the quote."""
    client, opened = place.client, OpenUpload.of(kept)
    if step == "columns":
        columns = opened.mapping(client, place.offer)
        form = ColumnsForm(place.posted, opened, columns, place.offer)
        if not form.is_valid():
            return _show_columns(place, kept, opened, columns, form)
        choose_columns(client, kept.pk, form.columns)
    elif step == "back":
        take_rows_back(client, kept.pk)
    else:
        ticked = place.request.POST.getlist("ignore")
        ignored = [int(text) for text in ticked if ROW.fullmatch(text)]
        mend_rows(client, kept.pk, _typed_cells(place, opened), ignored)
    if step == "skip":
        opened = OpenUpload.of(_uploads(place).get(pk=kept.pk))
        skip_rows(client, kept.pk, judge(client, opened).faulty_numbers)
    return place.to("reports-batch", batch=kept.pk)


def _typed_cells(place: Place, opened: OpenUpload) -> Mended:
    """Return the cells of the order whose text the member has changed."""
    lines = {line.number: line for line in opened.sheet.rows}
    columns = opened.mapping(place.client, place.offer).inputs
    found: Mended = {}
    for name, text in place.request.POST.items():
        if not (cell := CELL.fullmatch(name)):
            continue
        row, column = map(int, cell.groups())
        if (
            row in lines
            and columns.get(column)
            and str(text) != lines[row].at(column).text
        ):
            found.setdefault(row, {})[column] = str(text)
    return found


def _show_upload(place: Place, kept: Upload, error: Text = "") -> HttpResponse:
    """Show the columns to confirm, the faults of the file, or the quote."""
    opened = OpenUpload.of(kept)
    columns = opened.mapping(place.client, place.offer)
    is_known = not (columns.unsure or opened.missing(columns.inputs, place.offer))
    if not is_known or "columns" in place.request.GET:
        form = ColumnsForm(None, opened, columns, place.offer)
        return _show_columns(place, kept, opened, columns, form)
    judged = judge(place.client, opened)
    rows, sheet = judged.rows, opened.sheet
    headings = _headings(opened, judged)
    shown = {
        **choice_context(opened.choice, place.offer),
        "upload": kept,
        "name": opened.name,
        "judged": judged,
        "count": len(rows.rows),
        "workbook": sheet.workbook,
        "hidden": [r.line.number for r in rows.rows if r.line.number in sheet.hidden],
        "headings": headings,
        "unused": [
            sheet.header.at(number).text[:SHOWN_LETTERS] or number + 1
            for number, name in sorted(columns.inputs.items())
            if name == IGNORED
        ],
        "ignored": [(line.number, _summary(line)) for line in rows.ignored],
        "is_changed": bool(opened.ignored or opened.skipped),
        "error": error,
    }
    if judged.is_faulty:
        return place.render(
            "batches/faults", {**shown, **_faults_context(judged, headings)}
        )
    shown["orders_before"] = [
        _summary_of(batch, place.offer)
        for batch in orders_before(place.client, opened.original)
    ]
    return place.render("batches/quote", {**shown, **_quote_context(place, judged)})


def _show_columns(
    place: Place,
    kept: Upload,
    opened: OpenUpload,
    columns: Columns,
    form: ColumnsForm,
) -> HttpResponse:
    """Ask what each column is."""
    rows = opened.original.rows
    missing = opened.missing(columns.inputs, place.offer)
    notes: list[Text] = [needed_text(one) for one in missing]
    if has_unknown_headings(opened.original, opened.choice, place.offer):
        notes.append(MAY_BE_ROW.format(row=opened.original.header.number))
    shown = {
        **choice_context(opened.choice, place.offer),
        "upload": kept,
        "name": opened.name,
        "form": form,
        "missing": notes,
        "columns": [
            (
                form[name],
                [text[:SHOWN_LETTERS] for row in rows if (text := row.at(number).text)][
                    :SAMPLES
                ],
                number in columns.unsure,
            )
            for number, name in form.names.items()
        ],
        "above": [line.number for line in opened.original.above],
        "count": len(rows),
    }
    return place.render("batches/columns", shown)


def _summary(line: Line) -> str:
    """Return the texts of a line, shortened."""
    return " ".join(cell.text for cell in line.cells if cell.text)[:SHOWN_LETTERS]


def _headings(opened: OpenUpload, judged: Judged) -> list[tuple[int, str]]:
    """Return number and heading of each column that the order uses."""
    return [
        (
            number,
            opened.original.header.at(number).text[:SHOWN_LETTERS]
            or str(judged.rows.inputs[name].label),
        )
        for number, name in judged.rows.columns.items()
    ]


def _summary_of(batch: Batch, offer: Offer) -> dict[str, Any]:
    """Return a batch's checks, counts and the member who ordered it."""
    reports = Report.objects.filter(pk__in=batch.report_ids)
    ordered = reports.values_list("checks_requested", "status")
    names = dict.fromkeys(name for checks, _status in ordered for name in checks)
    return {
        "batch": batch,
        "by": _name_of(batch),
        "count": len(batch.report_ids),
        "cancelled": sum(s == ReportStatus.CANCELLED for _checks, s in ordered),
        "checks": [offer.checks[name].title for name in names],
    }


def _faults_context(
    judged: Judged, headings: Sequence[tuple[int, str]]
) -> dict[str, Any]:
    """Return the first rows with faults as a table of cells and their faults."""
    faults: dict[int, list[RowFault]] = {}
    for fault in judged.faults:
        faults.setdefault(fault.row, []).append(fault)
    lines = {row.line.number: row.line for row in judged.rows.rows}
    shown = list(faults)[:FAULTY_ROWS]
    table = []
    for number in shown:
        at = {fault.column: fault.text for fault in faults[number]}
        cells = [
            (column, label, lines[number].at(column).text, at.get(column))
            for column, label in headings
        ]
        table.append((number, cells, [f for f in faults[number] if f.column is None]))
    listed = [fault for number in shown for fault in faults[number]]
    return {
        "table": table,
        "listed": listed[:LISTED_FAULTS],
        "is_listed_in_part": len(listed) > LISTED_FAULTS,
        "faulty": len(faults),
        "more": len(faults) - len(shown),
        "rest": len(judged.rows.rows) - len(faults),
    }


def _quote_context(place: Place, judged: Judged) -> dict[str, Any]:
    quote = judged.quote
    assert quote  # noqa: S101
    reached = ["email", *(["phone"] if sms_is_configured() else [])]
    unreached = [
        row.line.number
        for row in judged.rows.rows
        if not any(row.values.get(f"subject-{name}") for name in reached)
    ]
    return {
        "quote": quote,
        "totals": _totals(quote.lines),
        "reused": sum(line.reused_at is not None for line in quote.lines),
        "unreached": unreached,
        "is_covered": covers(place.client, quote.charge),
        "others": _others(place, judged, quote),
        "repairs": judged.repairs[:SHOWN_REPAIRS],
        "more_repairs": max(len(judged.repairs) - SHOWN_REPAIRS, 0),
        "rows": [_shown_cells(judged, row) for row in _ends(judged.rows.rows)],
    }


def _others(place: Place, judged: Judged, quote: Quote) -> list[tuple[int, Report]]:
    """Return newer reports about subjects of the file, each with its row."""
    rows: dict[UUID | str, int] = {}
    for row, order in zip(judged.rows.rows, quote.orders, strict=True):
        subject, number = order.subject, row.line.number
        rows[subject.in_workspace(*place.client.where).id] = number
        if subject.has_name_alone:
            rows[subject.search_name] = number
    found = orders.same_subject_reports(place.client, quote.orders)
    return [(rows.get(x.subject_id) or rows[x.search_name], x) for x in found]


def _ends(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the first rows, and the last, among which remarks would stand."""
    if len(rows) <= FIRST_ROWS + LAST_ROWS:
        return rows
    return [*rows[:FIRST_ROWS], *rows[-LAST_ROWS:]]


def _shown_cells(judged: Judged, row: Row) -> tuple[int, list[str]]:
    texts = [
        row.repairs.get(number, row.line.at(number).text)[:SHOWN_LETTERS]
        for number in judged.rows.columns
    ]
    return row.line.number, texts


def _totals(lines: Sequence[QuotedLine]) -> list[tuple[str, int, int, Decimal]]:
    """Return label, number, number of reused results, and price of each check."""
    found: dict[str, list[QuotedLine]] = {}
    for line in lines:
        found.setdefault(line.label, []).append(line)
    return [
        (
            label,
            len(each),
            sum(line.reused_at is not None for line in each),
            sum((line.price for line in each), Decimal(0)),
        )
        for label, each in found.items()
    ]


def _place(place: Place, kept: Upload, *, draft: bool) -> HttpResponse:
    """Order all rows, or save them as drafts; then show how they go on."""
    typed, opened = place.request.POST, OpenUpload.of(kept)
    columns = opened.mapping(place.client, place.offer)
    judged = judge(place.client, opened)
    quote = judged.quote
    if columns.unsure or quote is None:
        return _show_upload(place, kept)
    repeats = len(orders_before(place.client, opened.original))
    is_confirmed = not repeats or typed.get("again") == str(repeats)
    numbers = {row.line.number for row in judged.rows.rows}
    if numbers & opened.sheet.hidden and "hidden" not in typed:
        is_confirmed = False
    if not is_confirmed:
        return _show_unconfirmed(place, kept)
    if typed.get("digest") != judged.digest:
        return _show_upload(place, kept, CHANGED)

    def record(batch: Batch) -> None:
        """Write the trail. Raises NotAllowed if the member's role was taken."""
        require_present(place.member, Permission.ORDER)
        place.record(f"batch.{'drafted' if draft else 'ordered'}", batch)

    try:
        place_batch(
            place.client,
            kept,
            judged,
            draft=draft,
            digest=quote.digest,
            repeats=repeats,
            also=record,
        )
    except FileOrdered:
        return _show_unconfirmed(place, kept)
    except InvalidRequest:
        # It became wrong at this moment: the page says how.
        return _show_upload(place, kept)
    except orders.QuoteChanged:
        return _show_upload(place, kept, CHANGED)
    except InsufficientBalance:
        return _show_upload(place, kept, NOT_COVERED)
    except RequestInProgress:
        wait = _("Your order is being carried out. It stands in this list at once.")
        return place.to("reports-batches", success=wait)
    done = _done_text(len(judged.rows.rows), len(judged.rows.skipped), draft=draft)
    return place.to("reports-batch", success=done, batch=kept.pk)


def _done_text(count: int, skipped: int, *, draft: bool) -> str:
    done = _("Drafts saved: {count}.") if draft else _("Reports ordered: {count}.")
    texts = [format_lazy(done, count=count)]
    if skipped:
        wait = _("Rows with errors that wait under Files ordered: {count}.")
        texts.append(format_lazy(wait, count=skipped))
    return " ".join(map(str, texts))


def _show_unconfirmed(place: Place, kept: Upload) -> HttpResponse:
    """Ask for what the member has to confirm, or lead on if a double click ordered."""
    if Batch.objects.filter(pk=kept.pk).exists():
        return _to_ordered(place, kept.pk)
    # The boxes to tick stand beside the price.
    link = format_html('<a href="#price">{}</a>', UNCONFIRMED)
    return _show_upload(place, kept, link)


def _to_ordered(place: Place, batch: UUID) -> HttpResponse:
    done = _("You sent this before: it was ordered once, and this is it.")
    return place.to("reports-batch", success=done, batch=batch)


def _show_progress(place: Place, batch: Batch) -> HttpResponse:
    """Show the number of reports in each state, and the reports that need an action.

    A page that refreshes itself gets status 204 while it has all that it would show.
    """
    reports = Report.objects.filter(pk__in=batch.report_ids)
    counted = Counter(
        dict(reports.values_list("status").annotate(Count("pk")).order_by())
    )
    number, count = place.paging["page"], len(batch.report_ids)
    rows = reports_of(batch, number * PAGE_SIZE, PAGE_SIZE)
    waiting = _unanswered(batch.report_ids)
    unanswered, remindable = waiting.count(), waiting.exclude(_recent()).count()
    shown: dict[str, Any] = {
        "waiting": unanswered,
        "remindable": remindable,
        "batch": batch,
        "by": _name_of(batch),
        "count": count,
        "ended": reports.exclude(completed_at=None).count(),
        "drafts": counted[ReportStatus.DRAFT],
        "states": [(s.value, counted[s]) for s in ReportStatus if counted[s]],
        "page": ResultPage(rows, count, number, PAGE_SIZE),
        "disputed": reports_under_correction([row.report.pk for row in rows]),
        "standings": standings_of([row.report.pk for row in rows]),
    }
    parts: list[Any] = [shown[n] for n in ("states", "ended", "waiting", "remindable")]
    parts += [(row.report.updated_at, row.report.risk_score) for row in rows]
    parts += [sorted(shown["disputed"]), sorted(shown["standings"].items())]
    seen = sha256(str(parts).encode()).hexdigest()
    if place.request.headers.get(REFRESH) == seen:
        return HttpResponse(status=204)
    shown["seen"] = seen
    place.disclose_risks(row.report for row in rows)
    return place.render("batches/progress", shown)


@member_required(Permission.ORDER)
def launch(place: Place, batch: UUID) -> HttpResponse:
    """Show what the launch of a file's drafts costs; a POST launches them together."""
    found = Batch.objects.get(pk=batch, **place.lookups)
    place.require_live()
    if place.posted is None:
        return _show_launch(place, found)
    require_order_rate(place)
    quoted = quote_launches(place.client, found.report_ids)
    drafts = [draft.pk for draft in quoted.drafts]
    if not (drafts or quoted.refused):
        none = _("No draft of this file is left.")
        return place.to("reports-batch", success=none, batch=found.pk)
    if not drafts:
        return _show_launch(place, found)
    try:
        with transaction.atomic():
            require_present(place.member, Permission.ORDER)
            orders.launch_as_quoted(
                place.client, drafts, place.posted.get("digest", "")
            )
            place.record("batch.launched", found)
    except InsufficientBalance:
        return _show_launch(place, found, NONE_LAUNCHED)
    except (InvalidRequest, NotLaunchable, orders.QuoteChanged):
        return _show_launch(place, found, CHANGED)
    texts = [format_lazy(_("Drafts launched: {count}."), count=len(drafts))]
    if refused := len(quoted.refused):
        stay = _("Rows that stay drafts: {count}.")
        texts.append(format_lazy(stay, count=refused))
    done = " ".join(map(str, texts))
    return place.to("reports-batch", success=done, batch=found.pk)


def _show_launch(place: Place, batch: Batch, error: Text = "") -> HttpResponse:
    quoted = quote_launches(place.client, batch.report_ids)
    rows = dict(zip(batch.report_ids, batch.row_numbers, strict=True))
    shown = {
        "batch": batch,
        "error": error,
        "quoted": quoted,
        "totals": _totals(quoted.lines),
        "total": quoted.total,
        "refused": [
            (rows[report.pk], report, launch_refusal_texts(blockers, gap, faults))
            for report, blockers, gap, faults in quoted.refused
        ],
        "is_covered": covers(place.client, quoted.charge),
    }
    return place.render("batches/launch", shown)


def _name_of(batch: Batch) -> str:
    """Return the e-mail address of the batch's member, or "" if the member has left."""
    member = batch.created_by.removeprefix("member ")
    found = Member.objects.filter(pk=member, workspace=batch.workspace_id)
    return found.values_list("user__email", flat=True).first() or ""


@post_required(Permission.ORDER)
def remind(place: Place, batch: UUID) -> HttpResponse:
    """Send all subjects of a file who have not answered another link."""
    found = Batch.objects.get(pk=batch, **place.lookups)
    place.require_rate(REMINDERS_PER_MINUTE, f"reminders:{place.workspace.pk}")
    counts = Counter(_remind_all(place, found.report_ids))
    sent = format_lazy(_("New links being sent: {count}."), count=counts[""])
    unsent = [f"{text}: {counts[text]}." for text in UNSENT if counts[text]]
    said = " ".join([str(sent), *unsent])
    return place.to("reports-batch", success=said, batch=found.pk)


def _unanswered(report_ids: Sequence[UUID]) -> QuerySet[Consent]:
    """Return the consents of these reports whose subjects can still answer."""
    return consent_links.waiting().filter(
        report__in=report_ids,
        report__status__in=REMINDABLE_STATUSES,
        expires_at__gt=now(),
    )


def _recent() -> Q:
    since = now() - INTERVAL
    return Q(link_made_at__gt=since) | Q(reminded_at__gt=since)


def _remind_all(place: Place, report_ids: Sequence[UUID]) -> Iterator[Text]:
    """Send each subject a new link; yield why it was not sent, or an empty text."""
    waiting = _unanswered(report_ids)
    yield from [RECENT] * waiting.filter(_recent()).count()
    end = monotonic() + MAX_SECONDS
    for consent in waiting.exclude(_recent()).select_related("report__workspace"):
        yield _remind(place, consent) if monotonic() < end else LEFT


def _remind(place: Place, consent: Consent) -> Text:
    report = consent.report
    if not reaches_subject(report):
        return UNREACHED
    try:
        with transaction.atomic():
            require_present(place.member, Permission.ORDER)
            consent_links.resend(place.client, report.pk)
            place.record("report.consent-resent", report)
    except NotRenewable:
        return ANSWERED
    except ResendTooSoon:
        return RECENT
    return ""


@member_required()
def results(place: Place, batch: UUID, format: str) -> HttpResponse:
    """Return a file with name, state, score, decision and checks of each row.

    A remark says if the subject objected, or disputes a finding.
    """
    found = Batch.objects.get(pk=batch, **place.lookups)
    rows = reports_of(found)
    place.record("batch.results-downloaded", found)
    place.disclose_risks(row.report for row in rows)
    disputed = reports_under_correction(found.report_ids)
    checks = checks_of(found)
    names = dict.fromkeys(name for each in checks.values() for name in each)
    labels = [place.offer.checks[name].title for name in names]
    content = write_sheet(
        format,
        [
            *map(str, RESULT_COLUMNS),
            *(f"{label}: {title}" for label in labels for title in CHECK_COLUMNS),
        ],
        [
            (
                row.row,
                row.report.subject_name,
                str(row.report.pk),
                row.report.reference,
                row.report.status,
                row.report.risk_score,
                row.report.risk_level,
                row.decision,
                _remark(row.report, disputed),
                *(
                    text
                    for name in names
                    for text in checks[row.report.pk].get(name, ("", ""))
                ),
            )
            for row in rows
        ],
    )
    return attachment(content, f"results-{found.pk}.{format}", MEDIA_TYPES[format])


def _remark(report: Report, disputed: Collection[UUID]) -> str:
    if report.restricted_at:
        return str(_("The subject objected"))
    return str(_("Under correction")) if report.pk in disputed else ""
