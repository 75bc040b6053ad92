"""The balance, what moved it, and statements of its months."""

from __future__ import annotations

from io import BytesIO

from django.conf import settings
from django.http import FileResponse, Http404, HttpResponse
from django.utils.timezone import now

from verification.console.base import (
    PAGE_SIZE,
    Page,
    Place,
    member_required,
    page_number,
)
from verification.documents import statements as document_statements
from verification.links import top_up_url
from workspaces import statements
from workspaces.models import LedgerEntry


@member_required()
def balance(place: Place) -> HttpResponse:
    number = page_number(place.request)
    entries = LedgerEntry.objects.filter(account=place.account)
    first = number * PAGE_SIZE
    rows = list(entries.order_by("-created_at", "-id")[first : first + PAGE_SIZE + 1])
    # One more tells whether there are more; nobody needs the number of all.
    page = Page(rows[:PAGE_SIZE], first + len(rows), number)
    can_pay = place.is_sandbox or bool(settings.PAYMENT_PROVIDER)
    shown = {
        "account": place.account,
        "available": place.account.spendable,
        "page": page,
        "months": statements.months(place.account.pk),
        "top_up_url": top_up_url(place.account.pk) if can_pay else "",
    }
    return place.render("money", shown)


@member_required()
def statement(place: Place, month: str, kind: str) -> FileResponse:
    try:
        begun = statements.Month.parse(month)
    except ValueError:
        raise Http404 from None
    if begun.start > now():
        raise Http404
    with statements.open_statement(place.account.pk, begun) as found:
        if kind == "csv":
            file = document_statements.csv_file(found)
        else:
            file = BytesIO(document_statements.statement_pdf(found))
    name = document_statements.file_name(found, kind)
    return FileResponse(file, as_attachment=True, filename=name)
