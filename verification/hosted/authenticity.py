"""Proof that a document is authentic: the page of a printed report, public keys."""

from collections.abc import Iterator
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from verification import links
from verification.hosted.hosted_pages import (
    client_context,
    hosted,
    initials,
    render_page,
)
from verification.privacy.certificates import published_keys
from verification.reports.models import Report, ReportStatus, RiskLevel

LEVELS = {
    RiskLevel.LOW: _("Low risk"),
    RiskLevel.MEDIUM: _("Medium risk"),
    RiskLevel.HIGH: _("High risk"),
    RiskLevel.UNKNOWN: _("Not scored"),
}
RESTRICTED = _("The person objected. Do not use this report for anything else.")
ERASED = _("Details and result are erased here, so they cannot be compared.")
PEM_TYPE = "application/x-pem-file"


@require_safe
@hosted
def show_report(request: HttpRequest, report_id: UUID, token: str) -> HttpResponse:
    """Show the checks of a genuine report, and only the initials of its subject."""
    known = links.is_token(token, "genuine", report_id)
    reports = Report.objects.select_related("workspace")
    report = reports.filter(pk=report_id).first() if known else None
    if report is None:
        return render_page(request, "not_genuine", status=404)
    context = {
        "report": report,
        "number": report.number,
        **client_context(report.workspace, report.environment),
        "initials": "" if report.subject is None else initials(report.subject_name),
        "is_done": report.status not in {ReportStatus.CANCELLED, ReportStatus.FAILED},
        "results": report.results.select_related("definition").order_by("position"),
        "level": "" if report.erased_at else LEVELS[RiskLevel(report.risk_level)],
        "is_disputed": report.results.filter(disputed_at__isnull=False).exists(),
        "notes": list(_notes(report)),
    }
    return render_page(request, "genuine", context)


def _notes(report: Report) -> Iterator[Promise]:
    if report.erased_at:
        yield ERASED
    if report.restricted_at:
        yield RESTRICTED


@require_safe
def show_keys(request: HttpRequest) -> HttpResponse:
    """Return the keys that verify certificates of erasures: today's, then former."""
    pem = "".join(key.pem for key in published_keys())
    return HttpResponse(pem, content_type=PEM_TYPE)


@require_safe
def show_key(request: HttpRequest, key_id: str) -> HttpResponse:
    """Return the key with this id, which a certificate names."""
    for key in published_keys():
        if key.pk == key_id:
            return HttpResponse(key.pem, content_type=PEM_TYPE)
    raise Http404
