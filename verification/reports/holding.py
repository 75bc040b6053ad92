"""Taking hold of reports for a verb, until the transaction ends."""

from __future__ import annotations

from django.db.models import QuerySet

from verification.reports.models import Report


def held() -> QuerySet[Report]:
    """Reports that are locked as they are read, each with its workspace.

    Consent and payment are read when they are first asked for, which is after the
    lock: what is joined to a row that had to be waited for is as old as the question.
    """
    reports = Report.objects.select_related("workspace")
    # As an UPDATE locks them: rows that refer to a report may be inserted meanwhile.
    return reports.select_for_update(of=("self",), no_key=True)
