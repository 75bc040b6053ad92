"""End a report before all its checks have: cancel it, or fail it at a gate."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from verification.checks.events import consent_status_of, report_event
from verification.checks.models import CheckResult, ResultStatus
from verification.consents.subject_messages import cancel_consent_requests
from verification.db.bulk_insert import insert
from verification.decisions.cases import close_cases
from verification.payments.models import PaymentStatus
from verification.payments.payer_messages import cancel_payment_requests
from verification.payments.refunds import refund_parts
from verification.payments.settlement import close_checkouts
from verification.references.requests import close_references
from verification.reports.models import Report, ReportStatus
from verification.reports.pricing import charge_items, charge_movements
from verification.reports.status import (
    NotCancellable,
    Transition,
    apply_transitions,
    lock_report,
)
from verification.sources.calls import close_calls
from verification.values.clock import now
from webhooks.events import record_events
from webhooks.models import Event
from workspaces.ledger import Kind, account_of, entries, move_balances
from workspaces.models import Client

# Results whose check has no call under way; a cancellation gives their price back.
UNCALLED = Q(status=ResultStatus.PENDING) | Q(status=ResultStatus.RUNNING, claims=0)


@transaction.atomic
def cancel(client: Client, report_id: UUID) -> Report:
    """Cancel the report. Raises NotCancellable if it has ended."""
    report = lock_report(client, report_id)
    if report.is_ended:
        raise NotCancellable(report.status)
    end_report(client, report, ReportStatus.CANCELLED, "cancelled", now())
    return report


def end_report(
    client: Client,
    report: Report,
    target: ReportStatus,
    trigger: str,
    at: datetime,
    failure: tuple[str, str] = ("", ""),
) -> None:
    """Move a locked report to FAILED or CANCELLED; `failure` is its code and message.

    Checks without a call under way are cancelled and their charges reversed. Completed
    and failed checks stay billed. A call under way still records its answer.
    """
    was_draft = report.status == ReportStatus.DRAFT
    uncalled = list(report.results.select_for_update().filter(UNCALLED))
    CheckResult.objects.filter(pk__in=[result.pk for result in uncalled]).update(
        status=ResultStatus.CANCELLED, next_attempt_at=None, completed_at=at
    )
    # A worker that died may have left a call open for a check that it had claimed.
    close_calls(result.pk for result in uncalled if result.fence)
    code, message = failure
    changes = {"completed_at": at, "failure_code": code, "failure_message": message}
    apply_transitions([Transition(report, target, trigger, client.actor, changes)], at)
    if consent := getattr(report, "consent", None):
        cancel_consent_requests(consent)
    close_references(report.results.values_list("pk", flat=True))
    # A report whose checks ran again may still wait for a decision.
    close_cases([report.pk], at)
    _cancel_payment(report)
    if not was_draft:
        charges = charge_items(uncalled)
        reversals = charge_movements(client, report, charges, Kind.REVERSAL)
        insert(entries(reversals, at))
        move_balances(reversals)


def fail_report(
    report: Report,
    failure: tuple[str, str],
    trigger: str,
    actor: str,
    cause: str,
    at: datetime,
) -> None:
    """Move a locked report from its gate to FAILED, and record `report.failed`."""
    account = account_of(report.workspace, report.environment)
    client = Client(report.workspace, account, actor)
    end_report(client, report, ReportStatus.FAILED, trigger, at, failure)
    stack = report.results.values_list("name", "status", "id")
    event = report_event(
        Event.Name.REPORT_FAILED,
        f"{report.pk}:{cause}",
        report,
        list(stack),
        consent_status=consent_status_of(report),
    )
    record_events([event], at)


def _cancel_payment(report: Report) -> None:
    payment = getattr(report, "payment", None)
    if payment and payment.is_outstanding:
        payment.status = PaymentStatus.CANCELLED
        payment.save(update_fields=["status"])
        refund_parts(payment.pk)
        close_checkouts(payment.pk)
        cancel_payment_requests(payment)
