"""Cancelling a report before it has ended."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils.timezone import now

from verification.checks.models import CheckResult, ResultStatus
from verification.ordering.client import Client
from verification.ordering.holding import hold
from verification.ordering.refusals import NotCancellable
from verification.payments.models import PaymentStatus
from verification.reports.models import PaymentMode, Report, ReportStatus
from verification.reports.transitions import Move, move
from verification.tables import insert
from workspaces.ledger import Kind, Movement, entries, move_balances


@transaction.atomic
def cancel(client: Client, report_id: UUID) -> Report:
    """Stop a report. Checks that are not being asked right now are given back; those
    that were asked stay billed, and one that is being asked still records its answer.
    """
    report = hold(client, report_id)
    if report.is_ended:
        raise NotCancellable(report.status)
    was_draft = report.status == ReportStatus.DRAFT
    at = now()
    unasked = list(
        report.results.select_for_update().filter(
            Q(status=ResultStatus.PENDING) | Q(status=ResultStatus.RUNNING, claims=0)
        )
    )
    CheckResult.objects.filter(pk__in=[result.pk for result in unasked]).update(
        status=ResultStatus.CANCELLED, next_attempt_at=None, completed_at=at
    )
    changes = {"completed_at": at}
    move([Move(report, ReportStatus.CANCELLED, "cancelled", client.actor, changes)], at)
    _cancel_payment(report)
    if not was_draft and report.payment_mode == PaymentMode.SELF:
        _give_back(client, report, unasked)
    return report


def _cancel_payment(report: Report) -> None:
    payment = getattr(report, "payment", None)
    if payment and payment.is_outstanding:
        payment.status = PaymentStatus.CANCELLED
        payment.save(update_fields=["status"])


def _give_back(client: Client, report: Report, results: list[CheckResult]) -> None:
    movements = [
        Movement(
            client.account.pk,
            Kind.REVERSAL,
            result.price,
            client.actor,
            report.pk,
            result.pk,
            result.attempt,
        )
        for result in results
        if result.price
    ]
    insert(entries(movements, now()))
    move_balances(movements)
