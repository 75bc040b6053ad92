"""Taking hold of reports for a verb, until the transaction ends.

Taking hold of one report for a verb, until the transaction ends.
"""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from verification.payments.models import Payment
from verification.reports.models import Report
from workspaces.models import Client


def locked_reports() -> QuerySet[Report]:
    """Reports that are locked as they are read, each with its workspace.

    Consent and payment are read when they are first asked for, which is after the
    lock: what is joined to a row that had to be waited for is as old as the question.
    """
    reports = Report.objects.select_related("workspace")
    # As an UPDATE locks them: rows that refer to a report may be inserted meanwhile.
    return reports.select_for_update(of=("self",), no_key=True)


def lock_report(client: Client, report_id: UUID) -> Report:
    """The client's report, locked; Report.DoesNotExist where it is not theirs."""
    return locked_reports().get(
        pk=report_id, workspace=client.workspace, environment=client.environment
    )


def lock_payment(payment_id: UUID) -> tuple[Report, Payment]:
    """Report and payment, locked; Payment.DoesNotExist when an edit replaced it."""
    report_id = Payment.objects.values_list("report_id", flat=True).get(pk=payment_id)
    report = locked_reports().get(pk=report_id)
    payment = Payment.objects.select_for_update(no_key=True).get(pk=payment_id)
    report.payment = payment
    return report, payment
