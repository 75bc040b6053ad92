"""Cancelling a report before it has ended."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.utils.timezone import now

from verification.ordering.client import Client
from verification.ordering.holding import hold
from verification.ordering.refusals import NotCancellable
from verification.ordering.stopping import stop
from verification.reports.models import Report, ReportStatus


@transaction.atomic
def cancel(client: Client, report_id: UUID) -> Report:
    """Stop a report, or raise NotCancellable when it has ended."""
    report = hold(client, report_id)
    if report.is_ended:
        raise NotCancellable(report.status)
    stop(client, report, ReportStatus.CANCELLED, "cancelled", now())
    return report
