"""Reports: found by their list, and opened one by one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpResponse

from verification.checks.models import CheckResult, ResultStatus
from verification.consents.records import reason_of
from verification.console import forms
from verification.console.base import SIZE, Page, Place, number_of, opened
from verification.console.mailbox import described
from verification.documents.report import as_text, report_pdf, words
from verification.reports.messages import messages_of
from verification.reports.models import Report
from verification.reports.queries import Filters, list_reports


@opened()
def listing(place: Place) -> HttpResponse:
    form = forms.ReportFilters(place.request.GET)
    number = number_of(place.request)
    filters = form.filters() if form.is_valid() else Filters()
    found = list_reports(*place.where, filters, page=number, size=SIZE)
    page = Page(found.reports, found.total, number)
    return place.show("reports/list", {"form": form, "page": page})


@opened()
def detail(place: Place, report: UUID) -> HttpResponse:
    found = _theirs(place, report)
    place.record("report.opened", found)
    results = found.results.select_related("definition").order_by("position")
    subject = found.subject or {}
    consent = getattr(found, "consent", None)
    shown = {
        "report": found,
        "subject": [(words(k), t) for k, v in subject.items() if (t := as_text(v))],
        "results": [_result(result) for result in results],
        "consent": consent,
        "reason": reason_of(consent) if consent else None,
        "payment": getattr(found, "payment", None),
        "messages_sent": [described(one) for one in messages_of(found)],
        "timeline": found.status_changes.all(),
    }
    return place.show("reports/detail", shown)


@opened()
def pdf(place: Place, report: UUID) -> HttpResponse:
    found = _theirs(place, report)
    place.record("report.pdf-downloaded", found)
    name = f'attachment; filename="report-{found.pk}.pdf"'
    return HttpResponse(
        report_pdf(found),
        content_type="application/pdf",
        headers={"Content-Disposition": name},
    )


def _theirs(place: Place, report: UUID) -> Report:
    return Report.objects.select_related("consent", "payment", "workspace").get(
        pk=report, workspace=place.workspace, environment=place.environment
    )


def _result(result: CheckResult) -> dict[str, Any]:
    finding = result.finding or {}
    details = (finding.get("details") or {}).items()
    return {
        "name": result.definition.display_name,
        "status": result.status,
        "is_done": result.status == ResultStatus.COMPLETED,
        "level": result.risk_level,
        "score": result.score,
        "summary": finding.get("summary") or result.failure_message,
        "failure": result.failure_code,
        "flags": finding.get("flags") or [],
        "details": [(words(k), t) for k, v in details if (t := as_text(v))],
        "price": result.price,
        "reused": result.reused,
        "at": result.completed_at,
    }
