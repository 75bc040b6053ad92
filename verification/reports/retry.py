"""Run the failed checks of an ended report again."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils.timezone import now

from verification.checks.models import CheckResult, ResultStatus
from verification.checks.queue import wake_up
from verification.checks.results import CHECK_ENDED
from verification.db.bulk_insert import insert
from verification.payments.models import Checkout
from verification.providers.registry import ORDER_AGAIN
from verification.reports.launch import is_unrefunded
from verification.reports.locks import lock_report
from verification.reports.models import Report, ReportStatus
from verification.reports.pricing import charge_items, charge_movements
from verification.reports.request import no_consent_reason, no_source_reason
from verification.reports.status import NotRetryable, Transition, apply_transitions
from workspaces.ledger import entries, move_balances
from workspaces.models import Client

RETRY_TRIGGER = "retried"


@transaction.atomic
def retry(client: Client, report_id: UUID) -> Report:
    """Charge the failed checks as at launch and run them again.

    The charge of a check that fails again is reversed.
    """
    report = lock_report(client, report_id)
    failed = failed_checks(report)
    check_retryable(report, failed)
    at = now()
    if payment := getattr(report, "payment", None):
        Checkout.objects.paying(payment.pk).update(accounted_at=None)
    _reset_results(failed, at)
    some_completed = report.results.filter(status=ResultStatus.COMPLETED).exists()
    target = ReportStatus.PARTIAL if some_completed else ReportStatus.RUNNING
    changes = {"completed_at": None, "failure_code": "", "failure_message": ""}
    apply_transitions(
        [Transition(report, target, RETRY_TRIGGER, client.actor, changes)], at
    )
    movements = charge_movements(client, report, charge_items(failed))
    insert(entries(movements, at))
    wake_up()
    move_balances(movements)
    return report


def failed_checks(report: Report) -> list[CheckResult]:
    failed = report.results.filter(status=ResultStatus.FAILED)
    return list(failed.select_related("definition"))


def check_retryable(report: Report, failed: list[CheckResult]) -> None:
    """Raise NotRetryable if the failed checks cannot run again."""
    # Sources cannot look up a subject that was erased.
    final = report.status == ReportStatus.CANCELLED or report.subject is None
    if final or not (report.is_ended and failed):
        raise NotRetryable(report.status)
    consent = getattr(report, "consent", None)
    if consent and not consent.is_given:
        raise NotRetryable(report.status, "The subject's consent does not hold.")
    payment = getattr(report, "payment", None)
    if payment and not is_unrefunded(payment):
        why = "What was paid for it was given back, in part or whole."
        raise NotRetryable(report.status, why)
    if payment and _is_past_retry_time(report):
        why = (
            "Its payer waits for the money: failed checks that a payer paid for are "
            f"retried again only until {settings.REFUND_UNDONE_AFTER_MINUTES} minutes "
            "after they first failed."
        )
        raise NotRetryable(report.status, why)
    if gone := [r.name for r in failed if not r.definition.active]:
        why = f"{', '.join(gone)} is not offered at present."
        raise NotRetryable(report.status, why)
    for result in failed:
        if why := no_source_reason(result.name, report.environment, report.country):
            raise NotRetryable(report.status, why)
    for result in failed:
        if why := no_consent_reason(report, result.name):
            raise NotRetryable(report.status, f"{why} {ORDER_AGAIN}")


def _is_past_retry_time(report: Report) -> bool:
    """Return whether a report that a payer paid for was retried, and its time is over.

    The time begins when the checks first fail. Each end after a retry begins the wait
    for the refund again, so unlimited retries would hold the payer's money for ever.
    """
    changes = report.status_changes
    retried = changes.filter(trigger=RETRY_TRIGGER).first()
    if retried is None:
        return False
    ends = changes.filter(trigger=CHECK_ENDED, created_at__lte=retried.created_at)
    first_end = ends.last() or retried
    grace = timedelta(minutes=settings.REFUND_UNDONE_AFTER_MINUTES)
    return now() >= first_end.created_at + grace


def _reset_results(results: list[CheckResult], at: datetime) -> None:
    CheckResult.objects.filter(pk__in=[result.pk for result in results]).update(
        status=ResultStatus.PENDING,
        attempt=F("attempt") + 1,
        tries=0,
        claims=0,
        next_attempt_at=at,
        turn_at=at,
        started_at=None,
        completed_at=None,
        failure_code="",
        failure_message="",
        failure_retryable=False,
    )
    for result in results:
        result.attempt += 1
