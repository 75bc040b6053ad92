"""Locks on reports, and on the rows that belong to them, until the transaction ends."""

from __future__ import annotations

from typing import TypeVar
from uuid import UUID

from django.db.models import QuerySet

from verification.consents.models import Consent
from verification.payments.models import Payment
from verification.references.models import Reference
from verification.reports.models import Report
from workspaces.models import Client

Row = TypeVar("Row", Consent, Payment, Reference)


def locked_reports() -> QuerySet[Report]:
    """Return reports that are locked when they are read, with their workspaces.

    Read consent and payment after the lock, never in the same query: PostgreSQL reads
    joined rows as they were before it waited for the lock.
    """
    reports = Report.objects.select_related("workspace")
    # Like the lock of an UPDATE, it lets others insert rows that refer to the report.
    return reports.select_for_update(of=("self",), no_key=True)


def lock_report(client: Client, report_id: UUID) -> Report:
    """Return the client's report, locked. Raises Report.DoesNotExist."""
    return locked_reports().get(
        pk=report_id, workspace=client.workspace, environment=client.environment
    )


def lock_with_report(model: type[Row], row_id: UUID) -> tuple[Report, Row]:
    """Lock a report, then its consent, payment or reference with this id.

    Raises the model's DoesNotExist if an edit of the draft has replaced the row.
    """
    report_id = model.objects.values_list("report_id", flat=True).get(pk=row_id)
    report = locked_reports().get(pk=report_id)
    row = model.objects.select_for_update(no_key=True).get(pk=row_id)
    # A report has one consent and one payment: this sets its side of them as well.
    row.report = report
    return report, row
