"""Ending a report before its checks have: what was not asked is given back.

Cancelling a report before it has ended.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils.timezone import now

from verification.checks.events import consent_status_of, report_event
from verification.checks.models import CheckResult, ResultStatus
from verification.consents.messages import stop_asking
from verification.db.bulk_insert import insert
from verification.payments.messages import stop_asking_payer
from verification.payments.models import PaymentStatus
from verification.payments.polling import close_checkouts
from verification.payments.refunds import give_back_parts
from verification.references.requests import close_references
from verification.reports.locks import hold
from verification.reports.models import PaymentMode, Report, ReportStatus
from verification.reports.status import Move, NotCancellable, move
from verification.sources.gate import close
from webhooks.events import event_rows
from webhooks.models import Event
from workspaces.ledger import Kind, Movement, account_of, entries, move_balances
from workspaces.models import Client


def stop(
    client: Client,
    report: Report,
    target: ReportStatus,
    trigger: str,
    at: datetime,
    failure: tuple[str, str] = ("", ""),
) -> None:
    """Move a held report to FAILED or CANCELLED; `failure` is its code and message.

    Checks that are not being asked right now are cancelled and given back; those that
    were asked stay billed, and one that is being asked still records its answer.
    """
    was_draft = report.status == ReportStatus.DRAFT
    unasked = list(
        report.results.select_for_update().filter(
            Q(status=ResultStatus.PENDING) | Q(status=ResultStatus.RUNNING, claims=0)
        )
    )
    CheckResult.objects.filter(pk__in=[result.pk for result in unasked]).update(
        status=ResultStatus.CANCELLED, next_attempt_at=None, completed_at=at
    )
    # Of one that was claimed before, a call may be left whose worker died.
    close(result.pk for result in unasked if result.fence)
    code, message = failure
    changes = {"completed_at": at, "failure_code": code, "failure_message": message}
    move([Move(report, target, trigger, client.actor, changes)], at)
    if consent := getattr(report, "consent", None):
        stop_asking(consent)
    close_references(report)
    _cancel_payment(report)
    if not was_draft and report.payment_mode == PaymentMode.SELF:
        _give_back(client, report, unasked, at)


def fail(
    report: Report,
    failure: tuple[str, str],
    trigger: str,
    actor: str,
    cause: str,
    at: datetime,
) -> None:
    """Move a held report that waited at a gate to FAILED, and say so by an event."""
    account = account_of(report.workspace, report.environment)
    client = Client(report.workspace, account, actor)
    stop(client, report, ReportStatus.FAILED, trigger, at, failure)
    stack = report.results.values_list("name", "status", "id")
    event = report_event(
        Event.Name.REPORT_FAILED,
        f"{report.pk}:{cause}",
        report,
        list(stack),
        consent_status=consent_status_of(report),
    )
    insert(event_rows([event], at))


def _cancel_payment(report: Report) -> None:
    payment = getattr(report, "payment", None)
    if payment and payment.is_outstanding:
        payment.status = PaymentStatus.CANCELLED
        payment.save(update_fields=["status"])
        give_back_parts(payment.pk)
        close_checkouts(payment.pk)
        stop_asking_payer(payment)


def _give_back(
    client: Client, report: Report, results: list[CheckResult], at: datetime
) -> None:
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
    insert(entries(movements, at))
    move_balances(movements)


@transaction.atomic
def cancel(client: Client, report_id: UUID) -> Report:
    """Stop a report, or raise NotCancellable when it has ended."""
    report = hold(client, report_id)
    if report.is_ended:
        raise NotCancellable(report.status)
    stop(client, report, ReportStatus.CANCELLED, "cancelled", now())
    return report
