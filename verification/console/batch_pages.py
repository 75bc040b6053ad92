"""Pages of batches: choose checks, upload a file, put it right, order, follow it.

The file's rows are stored sealed until they are ordered, for 24 hours at most. The
address of a page has the id of the upload, which becomes that of the batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Count
from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _

from verification.batches.models import UPLOAD_RETENTION, Batch, Upload
from verification.batches.spreadsheet import MEDIA_TYPES, write_sheet
from verification.console.base import (
    PAGE_SIZE,
    Place,
    Text,
    member_required,
)
from verification.console.batches import (
    BatchReport,
    FileOrdered,
    Judged,
    OpenUpload,
    columns_of,
    common_inputs,
    orders_before,
    place_batch,
    reports_of,
    store_upload,
)
from verification.console.order_form import (
    ChoiceForm,
    UploadForm,
    choice_context,
)
from verification.console.order_pages import (
    CHANGED,
    NOT_COVERED,
    choice_form,
    require_order_rate,
)
from verification.console.orders import (
    METHODS,
    Choice,
    Offer,
    QuoteChanged,
    QuotedLine,
    covers,
    fault_text,
    launch_as_quoted,
    quote_launches,
    same_subject_reports,
)
from verification.console.report_actions import blocker_texts
from verification.db.base import ResultPage, read_page
from verification.files.uploads import status_of
from verification.notifications.sms import sms_is_configured
from verification.privacy.disclosures import record_disclosures
from verification.privacy.models import Channel
from verification.reports.idempotency import RequestInProgress
from verification.reports.models import Report, ReportStatus, SubjectType
from verification.reports.request import InvalidRequest
from verification.reports.status import NotLaunchable
from verification.values.formats import one_line
from verification.web.pages import attachment, read_id
from workspaces.ledger import InsufficientBalance
from workspaces.members import Permission, require_present
from workspaces.models import Member

UPLOADS_PER_MINUTE = 20
MAX_NAME_LENGTH = 150
# Rows that the quote shows. The member has the file.
SHOWN_ROWS = 10
# A cell of a page shows no more of a text.
SHOWN_LETTERS = 100
UNCONFIRMED = _(
    "Nothing was ordered. Read what stands above the price, and confirm it below."
)
NOT_LAUNCHED = _(
    "The balance does not cover it. Nothing was launched: top it up first."
)
RESULT_COLUMNS = (
    _("Row"),
    _("Report"),
    _("Reference"),
    _("Status"),
    _("Score"),
    _("Risk"),
    _("Decision"),
)


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
    """Show the choice, then the form of the file; a POST keeps the file's rows."""
    place.require_live()
    chosen = choice_form(place, place.request.GET if _has_choice(place) else None)
    if not (_has_choice(place) and chosen.is_valid()):
        return _render_choice(place, chosen)
    choice = chosen.choice
    inputs = common_inputs(choice, place.offer)
    earlier = _earlier_upload(place)
    if place.posted is None:
        initial = OpenUpload.of(earlier).common if earlier else {"reuse": True}
        return _render_upload(place, choice, UploadForm(None, inputs, initial=initial))
    form = UploadForm(place.posted, inputs, files=place.files)
    if not place.is_valid_upload(form, "uploads", UPLOADS_PER_MINUTE):
        return _render_upload(place, choice, form, status_of(form))
    name, sheet = form.cleaned_data["file"]
    kept = store_upload(
        place.client, one_line(name)[-MAX_NAME_LENGTH:], sheet, choice, form.values
    )
    if earlier:
        # The file that was put right takes its place.
        earlier.delete()
    return place.to("reports-batch", batch=kept.pk)


def _render_choice(place: Place, form: ChoiceForm) -> HttpResponse:
    kind = form.data.get("subject_type") or form.initial["subject_type"]
    is_company = kind == SubjectType.COMPANY
    return place.render("batches/choice", {"form": form, "is_company": is_company})


def _has_choice(place: Place) -> bool:
    return "step" in place.request.GET


def _earlier_upload(place: Place) -> Upload | None:
    """Return the upload that is sent again, which the address names."""
    earlier = read_id(place.request.GET.get("again", ""))
    return _uploads(place).filter(pk=earlier).first() if earlier else None


def _render_upload(
    place: Place, choice: Choice, form: UploadForm, status: int = 200
) -> HttpResponse:
    shown = {
        **choice_context(choice, place.offer),
        "form": form,
        "earlier": _earlier_upload(place),
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
    step = place.posted.get("step", "") if place.posted is not None else ""
    if ordered:
        if place.posted is None:
            return _show_progress(place, ordered)
        return _to_ordered(place, ordered.pk)
    # Only the member who has sent the file sees its rows.
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
    return _show_upload(place, kept)


def _show_upload(place: Place, kept: Upload, error: Text = "") -> HttpResponse:
    """Show what is wrong in the file, or what its order costs."""
    opened = OpenUpload.of(kept)
    judged = opened.judge(place.client)
    shown = {
        **choice_context(opened.choice, place.offer),
        "upload": kept,
        "name": opened.name,
        "header": [cell.text for cell in opened.sheet.header.cells],
        "judged": judged,
        "count": len(opened.sheet.rows),
        "workbook": opened.sheet.workbook,
        "hidden": opened.sheet.hidden_rows,
        "error": error,
    }
    if judged.is_faulty:
        return place.render(
            "batches/faults", {**shown, **_faults_context(opened, judged)}
        )
    shown["orders_before"] = [
        _summary_of(batch, place.offer)
        for batch in orders_before(place.client, opened.sheet)
    ]
    return place.render("batches/quote", {**shown, **_quote_context(place, judged)})


def _summary_of(batch: Batch, offer: Offer) -> dict[str, Any]:
    """Return what a batch has ordered, when and by whom."""
    reports = Report.objects.filter(pk__in=batch.report_ids)
    ordered = reports.values_list("checks_requested", "status")
    names = dict.fromkeys(name for checks, _status in ordered for name in checks)
    return {
        "batch": batch,
        "by": _name_of(batch),
        "count": len(batch.report_ids),
        "cancelled": sum(s == ReportStatus.CANCELLED for _checks, s in ordered),
        "checks": [offer.checks[name].display_name for name in names],
    }


def _faults_context(opened: OpenUpload, judged: Judged) -> dict[str, Any]:
    """Return the rows with faults as a table: each cell with what is wrong in it."""
    width = max([*judged.rows.columns, *judged.rows.faults], default=-1) + 1
    table = []
    for row, faults in judged.faulty_rows():
        at = {fault.column: fault.text for fault in faults}
        cells = [
            (number, row.line.at(number).text[:SHOWN_LETTERS], at.get(number))
            for number in range(width)
        ]
        table.append((row.line.number, cells, [f for f in faults if f.column is None]))
    return {
        "table": table,
        "headings": [
            (
                number,
                opened.sheet.header.at(number).text[:SHOWN_LETTERS],
                judged.rows.faults.get(number),
            )
            for number in range(width)
        ],
        "known": [one.label for one in judged.rows.inputs.values()],
        "faulty": len(table),
    }


def _quote_context(place: Place, judged: Judged) -> dict[str, Any]:
    quote = judged.quote
    assert quote  # noqa: S101
    lines = [line for order in quote.orders for line in order.lines]
    reached = ["email", *(["phone"] if sms_is_configured() else [])]
    unreached = [
        row.line.number
        for row in judged.rows.rows
        if not any(row.values.get(f"subject-{name}") for name in reached)
    ]
    return {
        "quote": quote,
        "totals": _totals(lines),
        "reused": sum(line.reused_at is not None for line in lines),
        "unreached": unreached,
        "is_covered": covers(place.client, quote.charge),
        "others": same_subject_reports(
            place.client, [one.order for one in quote.orders]
        ),
        "first": judged.rows.rows[:SHOWN_ROWS],
    }


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
    assert place.posted is not None  # noqa: S101
    opened = OpenUpload.of(kept)
    judged = opened.judge(place.client)
    if judged.is_faulty:
        return _show_upload(place, kept)
    repeats = len(orders_before(place.client, opened.sheet))
    is_confirmed = not repeats or place.posted.get("again") == str(repeats)
    if opened.sheet.hidden_rows and "hidden" not in place.posted:
        is_confirmed = False
    if not is_confirmed:
        return _show_unconfirmed(place, kept)

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
            digest=place.posted.get("digest", ""),
            repeats=repeats,
            also=record,
        )
    except FileOrdered:
        return _show_unconfirmed(place, kept)
    except InvalidRequest:
        # It became wrong at this moment: the page says how.
        return _show_upload(place, kept)
    except QuoteChanged:
        return _show_upload(place, kept, CHANGED)
    except InsufficientBalance:
        return _show_upload(place, kept, NOT_COVERED)
    except RequestInProgress:
        wait = _("Your order is being carried out. It stands in this list at once.")
        return place.to("reports-batches", success=wait)
    done = _("The drafts are saved.") if draft else _("All rows are ordered.")
    return place.to("reports-batch", success=done, batch=kept.pk)


def _show_unconfirmed(place: Place, kept: Upload) -> HttpResponse:
    """Ask for what the member has to confirm, or lead on if a double click ordered."""
    if Batch.objects.filter(pk=kept.pk).exists():
        return _to_ordered(place, kept.pk)
    return _show_upload(place, kept, UNCONFIRMED)


def _to_ordered(place: Place, batch: UUID) -> HttpResponse:
    done = _("You had sent this already: it was ordered once, and this is it.")
    return place.to("reports-batch", success=done, batch=batch)


def _show_progress(place: Place, batch: Batch) -> HttpResponse:
    """Show how many of the reports are in which state, and those that need somebody."""
    reports = Report.objects.filter(pk__in=batch.report_ids)
    counted = Counter(
        dict(reports.values_list("status").annotate(Count("pk")).order_by())
    )
    number, count = place.paging["page"], len(batch.report_ids)
    rows = reports_of(batch, number * PAGE_SIZE, PAGE_SIZE)
    shown = {
        "batch": batch,
        "by": _name_of(batch),
        "count": count,
        "ended": reports.exclude(completed_at=None).count(),
        "drafts": counted[ReportStatus.DRAFT],
        "states": [(s.value, counted[s]) for s in ReportStatus if counted[s]],
        "page": ResultPage(rows, count, number, PAGE_SIZE),
    }
    _record_disclosures(place, rows)
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
            launch_as_quoted(place.client, drafts, place.posted.get("digest", ""))
            place.record("batch.launched", found)
    except InsufficientBalance:
        return _show_launch(place, found, NOT_LAUNCHED)
    except (InvalidRequest, NotLaunchable, QuoteChanged):
        return _show_launch(place, found, CHANGED)
    done = _("The drafts are launched.")
    return place.to("reports-batch", success=done, batch=found.pk)


def _show_launch(place: Place, batch: Batch, error: Text = "") -> HttpResponse:
    quoted = quote_launches(place.client, batch.report_ids)
    rows = dict(zip(batch.report_ids, batch.row_numbers, strict=True))
    shown = {
        "batch": batch,
        "error": error,
        "quoted": quoted,
        "totals": _totals(quoted.lines),
        "total": sum(line.price for line in quoted.lines),
        "refused": [
            (
                rows[report.pk],
                report,
                [
                    *blocker_texts(blockers, gap),
                    *(fault_text(fault, {}) for fault in faults),
                ],
            )
            for report, blockers, gap, faults in quoted.refused
        ],
        "is_covered": covers(place.client, quoted.charge),
    }
    return place.render("batches/launch", shown)


def _record_disclosures(place: Place, rows: Sequence[BatchReport]) -> None:
    rated = [row.report.pk for row in rows if row.report.risk_score is not None]
    record_disclosures(rated, Channel.CONSOLE, place.client.actor)


def _name_of(batch: Batch) -> str:
    """Return the address of the member who has ordered it; empty if they have left."""
    member = batch.created_by.removeprefix("member ")
    found = Member.objects.filter(pk=member, workspace=batch.workspace_id)
    return found.values_list("user__email", flat=True).first() or ""


@member_required()
def results(place: Place, batch: UUID, format: str) -> HttpResponse:
    """Return a file with id, state, score and decision of each row."""
    found = Batch.objects.get(pk=batch, **place.lookups)
    rows = reports_of(found)
    place.record("batch.results-downloaded", found)
    _record_disclosures(place, rows)
    content = write_sheet(
        format,
        [str(title) for title in RESULT_COLUMNS],
        [
            (
                row.row,
                str(row.report.pk),
                row.report.reference,
                row.report.status,
                row.report.risk_score,
                row.report.risk_level,
                row.decision,
            )
            for row in rows
        ],
    )
    return attachment(content, f"results-{found.pk}.{format}", MEDIA_TYPES[format])
