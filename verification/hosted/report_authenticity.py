"""The page that says whether a printed report is genuine."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from verification import links
from verification.hosted.pages import client_context, hosted, initials, render_page
from verification.reports.models import Report
from workspaces.models import Environment


@require_safe
@hosted
def show(request: HttpRequest, report_id: UUID, token: str) -> HttpResponse:
    """Show the checks of a genuine report, and only the initials of its subject."""
    known = links.is_token(token, "genuine", report_id)
    reports = Report.objects.select_related("workspace")
    report = reports.filter(pk=report_id).first() if known else None
    if report is None:
        return render_page(request, "not_genuine", status=404)
    context = {
        "report": report,
        "number": report.number,
        **client_context(report.workspace),
        "initials": "" if report.subject is None else initials(report.subject_name),
        "results": report.results.select_related("definition").order_by("position"),
        "is_disputed": report.results.filter(disputed_at__isnull=False).exists(),
        "is_test": report.environment == Environment.SANDBOX,
        "timezone": "Africa/Nairobi",
    }
    return render_page(request, "genuine", context)
