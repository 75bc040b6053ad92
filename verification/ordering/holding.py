"""Taking hold of one report for a verb, until the transaction ends."""

from __future__ import annotations

from uuid import UUID

from verification.ordering.client import Client
from verification.payments.models import Payment
from verification.reports.holding import held
from verification.reports.models import Report


def hold(client: Client, report_id: UUID) -> Report:
    """The client's report, locked; Report.DoesNotExist where it is not theirs."""
    return held().get(
        pk=report_id, workspace=client.workspace, environment=client.environment
    )


def hold_payment(payment_id: UUID) -> tuple[Report, Payment]:
    """Report and payment, locked; Payment.DoesNotExist when an edit replaced it."""
    report_id = Payment.objects.values_list("report_id", flat=True).get(pk=payment_id)
    report = held().get(pk=report_id)
    payment = Payment.objects.select_for_update(no_key=True).get(pk=payment_id)
    report.payment = payment
    return report, payment
