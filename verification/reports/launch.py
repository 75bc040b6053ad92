"""Launch a draft, or retry the failed checks of an ended report."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, prefetch_related_objects

from verification.checks.due_checks import assign_turns, wake_up_row
from verification.checks.models import CheckDefinition, CheckResult, ResultStatus
from verification.checks.packages import packages_of
from verification.consents.models import Consent, ConsentStatus
from verification.jobs.queue import notify_on_commit
from verification.payments.models import Checkout, Payment, PaymentStatus
from verification.providers.registry import ORDER_AGAIN
from verification.reports.models import Report, ReportStatus, Subject
from verification.reports.objections import (
    lift_restriction,
    objected_since_consent,
    withdrew_from_monitoring,
)
from verification.reports.pricing import (
    OrderLine,
    PriceRequest,
    charge_items,
    charge_movements,
    may_reuse,
    price,
    total,
)
from verification.reports.request import (
    MAX_REPORTS,
    Fault,
    InvalidRequest,
    MemberPath,
    catalogue,
    find_number_faults,
    no_consent_reason,
    no_source_reason,
)
from verification.reports.status import (
    CHECK_ENDED,
    ConsentGap,
    LaunchObstacle,
    NotLaunchable,
    NotRetryable,
    Transition,
    apply_transitions,
    lock_report,
    lock_reports,
)
from verification.values.clock import now
from verification.values.local_time import utc_text
from workspaces.ledger import book
from workspaces.models import Client

REMOVE_CHECK_HINT = "Edit the draft without it."
# An edit of a member that the notice shows voids the consent, even with the same value.
RENEW_CONSENT_HINT = (
    "Edit the draft, for example with the purpose as it is, and the subject is asked "
    "for consent by a notice that names the present sources."
)
RETRY_TRIGGER = "retried"


def launch(client: Client, report_id: UUID) -> Report:
    """Launch a draft. Raises as `launch_together`."""
    return launch_together(client, [report_id])[0]


@transaction.atomic
def launch_together(client: Client, report_ids: Collection[UUID]) -> list[Report]:
    """Launch drafts, all or none.

    Raises Report.DoesNotExist, NotLaunchable, InvalidRequest or InsufficientBalance,
    and then changes nothing.
    """
    reports = lock_reports(client, report_ids)
    prefetch_related_objects(reports, "consent", "payment", "results__definition")
    for report in reports:
        results = list(report.results.all())
        if reasons := launch_blockers(report, results):
            raise NotLaunchable(report.status, reasons, consent_gap(report, results))
        if faults := find_launch_faults(report):
            raise InvalidRequest(faults)
        lift_restriction(report)
    at = now()
    # Other payments keep the price that their payment link shows.
    _set_prices(client, [report for report in reports if not has_price(report)], at)
    for report in reports:
        if owes_unasked(report, (result.price for result in report.results.all())):
            raise NotLaunchable(report.status, [LaunchObstacle.PAYMENT_OUTSTANDING])
    movements = [
        movement
        for report in reports
        for movement in charge_movements(
            client, report, charge_items(report.results.all())
        )
    ]
    changes = {"launched_at": at}
    moves = [
        Transition(report, ReportStatus.RUNNING, "launched", client.actor, changes)
        for report in reports
    ]
    apply_transitions(moves, at)
    _save_results(client, reports, at)
    book(movements, at, wake_up_row(at))
    notify_on_commit()
    return reports


def _set_prices(client: Client, reports: Sequence[Report], at: datetime) -> None:
    """Set today's price of each result, and the earlier result that it reuses."""
    found = [list(report.results.all()) for report in reports]
    drafts = [
        (report, [result.definition for result in results])
        for report, results in zip(reports, found, strict=True)
    ]
    for results, lines in zip(found, quote_drafts(client, drafts, at), strict=True):
        for result, line in zip(results, lines, strict=True):
            result.price = line.price
            result.reused_from_id = line.reused_from_id
            result.question = line.question


def _save_results(client: Client, reports: Sequence[Report], at: datetime) -> None:
    """Save the prices of the results, and make these due in turn."""
    results = [result for report in reports for result in report.results.all()]
    turns = assign_turns(client.account.pk, len(results), at)
    for result, turn in zip(results, turns, strict=True):
        result.next_attempt_at, result.turn_at = at, turn
    fields = ["price", "reused_from_id", "question", "next_attempt_at", "turn_at"]
    CheckResult.objects.bulk_update(results, fields, batch_size=MAX_REPORTS)


def has_price(report: Report) -> bool:
    """Return whether the draft has a payment, which has its price."""
    payment = getattr(report, "payment", None)
    return payment is not None and payment.status != PaymentStatus.NOT_REQUIRED


def owes_unasked(report: Report, prices: Iterable[Decimal]) -> bool:
    """Return whether the draft's payer would owe something that no link asks for.

    The draft was free and has no payment link; an edit makes one.
    """
    has_payment = getattr(report, "payment", None) is not None
    return has_payment and not has_price(report) and any(prices)


def launch_blockers(report: Report, results: list[CheckResult]) -> list[LaunchObstacle]:
    """Return why this report cannot be launched now."""
    if report.status != ReportStatus.DRAFT:
        return [LaunchObstacle.NOT_A_DRAFT]
    reasons = []
    if consent_gap(report, results):
        reasons.append(LaunchObstacle.CONSENT_OUTSTANDING)
    payment = getattr(report, "payment", None)
    if payment and not (payment.is_settled and is_unrefunded(payment)):
        reasons.append(LaunchObstacle.PAYMENT_OUTSTANDING)
    return reasons


def consent_gap(report: Report, results: list[CheckResult]) -> ConsentGap | None:
    """Return why the consent of a draft is outstanding, or None if it is given."""
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


def quote_drafts(
    client: Client,
    drafts: Sequence[tuple[Report, list[CheckDefinition]]],
    at: datetime,
) -> list[list[OrderLine]]:
    """Price the checks of reports whose subjects are not erased."""
    packages = packages_of([report for report, _ in drafts])
    requests = [
        PriceRequest(
            subject := Subject(report.subject or {}),
            definitions,
            may_reuse(report.requested_reuse, subject),
            packages.get(report.pk),
        )
        for report, definitions in drafts
    ]
    priced = price(requests, *client.where, at)
    return [one.lines for one in priced]


def present_price(
    client: Client, report: Report, results: Iterable[CheckResult]
) -> Decimal:
    """Return the price of a report; of a draft, its price if it were launched now."""
    if report.status == ReportStatus.DRAFT and report.subject:
        known = catalogue()
        definitions = [known[name] for name in report.checks_requested]
        (lines,) = quote_drafts(client, [(report, definitions)], now())
        return total(lines)
    return sum((result.price for result in results), Decimal(0))


def find_launch_faults(report: Report) -> list[Fault]:
    """Return the faults that prevent the launch of this draft."""
    if report.subject is None:
        detail = "The subject was erased; edit the draft to name one."
        return [Fault(("subject",), "required", detail)]
    # A draft may be older than the rules about forms of numbers.
    return [*find_number_faults(report.subject), *_unavailable_checks(report)]


def _unavailable_checks(report: Report) -> Iterator[Fault]:
    for number, result in enumerate(report.results.all()):
        path: MemberPath = ("checksRequested", number)
        definition = result.definition
        if not definition.active:
            detail = f"{definition.name} is not offered at present. {REMOVE_CHECK_HINT}"
            yield Fault(path, "inactive-check", detail)
        elif reason := no_source_reason(
            definition.name, report.environment, report.country
        ):
            detail = f"{reason} {REMOVE_CHECK_HINT}"
            yield Fault(path, "check-not-available", detail)
        elif reason := no_consent_reason(report, definition.name):
            detail = f"{reason} {RENEW_CONSENT_HINT}"
            yield Fault(path, "check-not-available", detail)


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
    book(movements, at, wake_up_row(at))
    notify_on_commit()
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
    if reason := next(_retry_obstacles(report, failed), None):
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
    elif withdrew_from_monitoring(report):
        yield "The subject withdrew the consent to the monitoring that made it."
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
