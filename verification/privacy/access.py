"""Access: what a subject sees of their own data, and who has received it."""

from __future__ import annotations

from django.db.models import QuerySet

from verification.reports.models import Report


def reports_of(report: Report) -> QuerySet[Report]:
    """Return all reports about the subject of this one, newest first.

    They are those of the same workspace and environment. An erased report is about
    nobody, and stands alone.
    """
    return Report.objects.filter(
        workspace=report.workspace_id,
        environment=report.environment,
        subject_id=report.subject_id,
    ).order_by("-created_at", "-id")
