"""Statements as CSV and PDF files."""

import csv
import io
from collections.abc import Iterable, Iterator
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import IO, Any
from uuid import UUID

from django.db import close_old_connections, connection
from django.http import FileResponse, Http404, StreamingHttpResponse
from django.utils.dateformat import format as format_date
from django.utils.translation import get_language, gettext

from verification.db.ids import number_of_id
from verification.documents import pdf
from verification.values.formats import escape_formula
from verification.values.local_time import NAIROBI, nairobi_text
from verification.values.masking import hide_staff
from workspaces.models import Account
from workspaces.statements import Line, Month, Statement, open_statement

HEADINGS = (
    "time",
    "kind",
    "amount",
    "balance",
    "currency",
    "report",
    "check",
    "note",
    "actor",
    "entry",
)
# A longer document takes long to render, and nobody reads it.
MAX_PDF_LINES = 2_000
# A larger CSV file goes to disk.
MAX_BYTES_IN_MEMORY = 1 << 20
PIECE_BYTES = 1 << 16


class _CsvResponse(StreamingHttpResponse):
    # The gateway makes its pieces in threads of their own.
    is_long = True


def statement_response(
    account: Account, month: str, extension: str
) -> StreamingHttpResponse:
    """Return a statement as a `csv` or `pdf` file. Raises Http404 for a wrong month.

    A CSV file is made when it is sent: a million entries take a minute.
    """
    try:
        parsed = Month.parse(month)
    except ValueError:
        raise Http404 from None
    name = f"statement-{account.workspace_id}-{account.environment}-{parsed}"
    if extension == "csv":
        return _CsvResponse(
            _csv_pieces(account.pk, parsed),
            content_type="text/csv",
            headers={"Content-Disposition": f'attachment; filename="{name}.csv"'},
        )
    with open_statement(account.pk, parsed) as statement:
        file = io.BytesIO(statement_pdf(statement))
    return FileResponse(file, as_attachment=True, filename=f"{name}.pdf")


def _csv_pieces(account_id: UUID, month: Month) -> Iterator[bytes]:
    # The thread may have lost its connection.
    if not connection.in_atomic_block:
        close_old_connections()
    with open_statement(account_id, month) as statement:
        file = csv_file(csv_rows(statement))
    with file:
        yield from iter(partial(file.read, PIECE_BYTES), b"")


def csv_rows(statement: Statement) -> Iterator[Iterable[object]]:
    """Yield headings, opening balance, a row for each entry, and closing balance."""
    yield HEADINGS
    yield _balance(statement, "OPENING_BALANCE")
    currency = statement.account.currency
    yield from (_row(line, currency) for line in statement.lines())
    closing = "BALANCE_SO_FAR" if statement.is_partial else "CLOSING_BALANCE"
    yield _balance(statement, closing)


def csv_file(rows: Iterable[Iterable[object]]) -> IO[bytes]:
    """Return the complete CSV file (RFC 4180), by whose mark spreadsheets know UTF-8.

    It is complete before its first piece is sent, so that a slow client holds no
    database snapshot.
    """
    file = SpooledTemporaryFile(max_size=MAX_BYTES_IN_MEMORY)  # noqa: SIM115
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    csv.writer(text).writerows(rows)
    text.detach()
    file.seek(0)
    return file


def statement_pdf(statement: Statement) -> bytes:
    """Render totals and entries; above MAX_PDF_LINES entries, only the totals.

    It is in the active language.
    """
    return pdf.render_document("statement.typ", statement.until, _data(statement))


def _row(line: Line, currency: str) -> Iterable[object]:
    return (
        nairobi_text(line.at),
        line.kind,
        line.amount,
        line.balance,
        currency,
        line.report_id or "",
        line.check,
        escape_formula(line.note),
        escape_formula(hide_staff(line.actor)),
        line.id,
    )


def _balance(statement: Statement, kind: str) -> Iterable[object]:
    is_first = kind == "OPENING_BALANCE"
    at = statement.month.start if is_first else statement.until
    balance = statement.opening if is_first else statement.closing
    currency = statement.account.currency
    return (nairobi_text(at), kind, "", balance, currency, "", "", "", "", "")


def _data(statement: Statement) -> dict[str, Any]:
    account = statement.account
    is_whole = statement.count <= MAX_PDF_LINES
    return {
        "language": get_language() or "en",
        "workspace": account.workspace.requester.name,
        "workspaceId": str(account.workspace_id),
        "environment": account.environment,
        "currency": account.currency,
        "month": format_date(statement.month.start, "F Y"),
        "soFar": f"{statement.until:%Y-%m-%d %H:%M:%S}" if statement.is_partial else "",
        "opening": _money(statement.opening),
        "closing": _money(statement.closing),
        "count": statement.count,
        "totals": [
            {"kind": t.kind.value, "entries": t.entries, "amount": _money(t.amount)}
            for t in statement.totals
        ],
        "isWhole": is_whole,
        "lines": [_line_data(line) for line in statement.lines()] if is_whole else [],
    }


def _line_data(line: Line) -> dict[str, str]:
    check = gettext(line.check_name) if line.check_name else line.check
    what = [check, line.note, "" if line.check else hide_staff(line.actor)]
    return {
        "at": f"{line.at.astimezone(NAIROBI):%Y-%m-%d %H:%M:%S}",
        "kind": line.kind,
        "what": ", ".join(filter(None, what)),
        "report": number_of_id("R", line.report_id) if line.report_id else "",
        "amount": _money(line.amount),
        "balance": _money(line.balance),
    }


def _money(amount: Any) -> str:
    return f"{amount:,.2f}"
