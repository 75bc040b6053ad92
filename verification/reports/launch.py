"""Launch a draft, or retry the failed checks of an ended report."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F

from verification.checks.models import CheckDefinition, CheckResult, ResultStatus
from verification.checks.packages import package_of
from verification.checks.queue import schedule_checks, wake_up
from verification.checks.results import CHECK_ENDED
from verification.consents.models import Consent, ConsentStatus
from verification.db.bulk_insert import insert
from verification.payments.models import Checkout, Payment, PaymentStatus
from verification.providers.registry import ORDER_AGAIN
from verification.reports.models import Report, ReportStatus, Subject
from verification.reports.objections import objected_since_consent
from verification.reports.pricing import (
    OrderLine,
    PriceRequest,
    charge_items,
    charge_movements,
    price,
)
from verification.reports.request import (
    Fault,
    InvalidRequest,
    MemberPath,
    find_number_faults,
    no_consent_reason,
    no_source_reason,
)
from verification.reports.status import (
    ConsentGap,
    NotLaunchable,
    NotRetryable,
    Transition,
    apply_transitions,
    lock_report,
)
from verification.values.clock import now
from verification.values.local_time import utc_text
from workspaces.ledger import entries, move_balances
from workspaces.models import Client

REMOVE_CHECK_HINT = "Edit the draft without it."
# An edit of a member that the notice shows voids the consent, even with the same value.
RENEW_CONSENT_HINT = (
    "Edit the draft, for example with the purpose as it is, and the subject is asked "
    "for consent by a notice that names the present sources."
)
RETRY_TRIGGER = "retried"


@transaction.atomic
def launch(client: Client, report_id: UUID) -> Report:
    """Launch a draft. Raises NotLaunchable or InvalidRequest, and changes nothing."""
    report = lock_report(client, report_id)
    results = list(report.results.select_related("definition"))
    if reasons := launch_blockers(report, results):
        raise NotLaunchable(report.status, reasons, consent_gap(report, results))
    _require_sound_subject(report)
    _require_available_checks(report, [result.definition for result in results])
    at = now()
    payment = getattr(report, "payment", None)
    if payment is None or payment.status == PaymentStatus.NOT_REQUIRED:
        # Other payments keep the price that their payment link shows.
        reprice(client, report, results, at)
        if payment and any(result.price for result in results):
            # The draft was free and has no payment link; an edit makes one.
            raise NotLaunchable(report.status, ["PAYMENT_OUTSTANDING"])
    movements = charge_movements(client, report, charge_items(results))
    launched = {"launched_at": at}
    move = Transition(report, ReportStatus.RUNNING, "launched", client.actor, launched)
    apply_transitions([move], at)
    schedule_checks(report, at)
    insert(entries(movements, at))
    move_balances(movements)
    return report


def launch_blockers(report: Report, results: list[CheckResult]) -> list[str]:
    """Return the codes of why this report cannot be launched now."""
    if report.status != ReportStatus.DRAFT:
        return ["NOT_A_DRAFT"]
    reasons = ["CONSENT_OUTSTANDING"] if consent_gap(report, results) else []
    payment = getattr(report, "payment", None)
    if payment and not (payment.is_settled and is_unrefunded(payment)):
        reasons.append("PAYMENT_OUTSTANDING")
    return reasons


def consent_gap(report: Report, results: list[CheckResult]) -> ConsentGap | None:
    """Return why the consent of a draft is outstanding, or None if it is not."""
    if report.status != ReportStatus.DRAFT:
        return None
    consent = getattr(report, "consent", None)
    if consent is None:
        is_needed = any(result.definition.requires_consent for result in results)
        return ConsentGap.NOT_NAMED if is_needed else None
    if consent.is_given:
        return ConsentGap.OBJECTED if objected_since_consent(report) else None
    if consent.mode == Consent.Mode.CUSTOMER_ATTESTED:
        return ConsentGap.NOT_ATTESTED
    if consent.status in {ConsentStatus.DECLINED, ConsentStatus.WITHDRAWN}:
        return ConsentGap.REFUSED
    is_over = consent.expires_at is not None and consent.expires_at <= now()
    if is_over or consent.status == ConsentStatus.EXPIRED:
        return ConsentGap.EXPIRED
    return ConsentGap.UNANSWERED


def is_unrefunded(payment: Payment) -> bool:
    """Return whether no part of the payment was refunded or is being refunded.

    A refund of a surplus does not count.
    """
    return not Checkout.objects.paying(payment.pk).partly_returned().exists()


def reprice(
    client: Client, report: Report, results: list[CheckResult], at: datetime
) -> None:
    """Set today's price of each result, and the earlier result that it reuses."""
    lines = quote_lines(client, report, [result.definition for result in results], at)
    for result, line in zip(results, lines, strict=True):
        result.price = line.price
        result.reused_from_id = line.reused_from_id
        result.question = line.question
    CheckResult.objects.bulk_update(results, ["price", "reused_from_id", "question"])


def quote_lines(
    client: Client, report: Report, definitions: list[CheckDefinition], at: datetime
) -> list[OrderLine]:
    """Price the checks of a report whose subject is not erased."""
    subject, package = Subject(report.subject or {}), package_of(report)
    request = PriceRequest(subject, definitions, report.reuse, package)
    return price([request], client.workspace.pk, client.environment, at)[0].lines


def _require_sound_subject(report: Report) -> None:
    if report.subject is None:
        detail = "The subject was erased; edit the draft to name one."
        raise InvalidRequest([Fault(("subject",), "required", detail)])
    # A draft may be older than the rules about forms of numbers.
    if faults := list(find_number_faults(report.subject)):
        raise InvalidRequest(faults)


def _require_available_checks(
    report: Report, definitions: list[CheckDefinition]
) -> None:
    faults = []
    for number, definition in enumerate(definitions):
        path: MemberPath = ("checksRequested", number)
        if not definition.active:
            detail = f"{definition.name} is not offered at present. {REMOVE_CHECK_HINT}"
            faults.append(Fault(path, "inactive-check", detail))
        elif reason := no_source_reason(
            definition.name, report.environment, report.country
        ):
            detail = f"{reason} {REMOVE_CHECK_HINT}"
            faults.append(Fault(path, "check-not-available", detail))
        elif reason := no_consent_reason(report, definition.name):
            detail = f"{reason} {RENEW_CONSENT_HINT}"
            faults.append(Fault(path, "check-not-available", detail))
    if faults:
        raise InvalidRequest(faults)


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
    for reason in _retry_obstacles(report, failed):
        raise NotRetryable(report.status, reason)


def _retry_obstacles(report: Report, failed: list[CheckResult]) -> Iterator[str]:
    consent = getattr(report, "consent", None)
    if consent and not consent.is_given:
        yield "The subject's consent does not hold."
    if objected_at := objected_since_consent(report):
        yield (
            f"The subject objected at {utc_text(objected_at)}. Order a new report with "
            "a consent that was obtained after that."
        )
    payment = getattr(report, "payment", None)
    if payment and not is_unrefunded(payment):
        yield "What was paid for it was given back, in part or whole."
    if payment and _is_past_retry_time(report):
        yield (
            "Its payer waits for the money: failed checks that a payer paid for are "
            f"retried again only until {settings.REFUND_UNDONE_AFTER_MINUTES} minutes "
            "after they first failed."
        )
    if gone := [r.name for r in failed if not r.definition.active]:
        yield f"{', '.join(gone)} is not offered at present."
    for result in failed:
        if reason := no_source_reason(result.name, report.environment, report.country):
            yield reason
    for result in failed:
        if reason := no_consent_reason(report, result.name):
            yield f"{reason} {ORDER_AGAIN}"


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
