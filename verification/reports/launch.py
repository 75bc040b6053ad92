"""Launch a draft: price it, bill it and start its checks."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.utils.timezone import now

from verification.checks.models import CheckDefinition, CheckResult
from verification.checks.queue import schedule_checks
from verification.db.bulk_insert import insert
from verification.payments.models import Checkout, Payment, PaymentStatus
from verification.reports.locks import lock_report
from verification.reports.models import Report, ReportStatus
from verification.reports.pricing import (
    OrderLine,
    charge_items,
    charge_movements,
    price,
)
from verification.reports.request import (
    Fault,
    InvalidRequest,
    MemberPath,
    no_consent_reason,
    no_source_reason,
)
from verification.reports.status import NotLaunchable, Transition, apply_transitions
from verification.reports.subject import Subject
from workspaces.ledger import entries, move_balances
from workspaces.models import Client

REMOVE_CHECK_HINT = "Edit the draft without it."
# An edit of a member that the notice shows voids the consent, even with the same value.
RENEW_CONSENT_HINT = (
    "Edit the draft, for example with the purpose as it is, and the subject is asked "
    "for consent by a notice that names the present sources."
)


@transaction.atomic
def launch(client: Client, report_id: UUID) -> Report:
    """Launch a draft. Raises NotLaunchable or InvalidRequest, and changes nothing."""
    report = lock_report(client, report_id)
    results = list(report.results.select_related("definition"))
    if reasons := launch_blockers(report, results):
        raise NotLaunchable(report.status, reasons)
    _require_subject(report)
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
    apply_transitions(
        [
            Transition(
                report,
                ReportStatus.RUNNING,
                "launched",
                client.actor,
                {"launched_at": at},
            )
        ],
        at,
    )
    schedule_checks(report, at)
    insert(entries(movements, at))
    move_balances(movements)
    return report


def launch_blockers(report: Report, results: list[CheckResult]) -> list[str]:
    """Return the codes of why this report cannot be launched now."""
    if report.status != ReportStatus.DRAFT:
        return ["NOT_A_DRAFT"]
    reasons = []
    consent = getattr(report, "consent", None)
    is_needed = any(result.definition.requires_consent for result in results)
    is_given = consent.is_given if consent else not is_needed
    if not is_given:
        reasons.append("CONSENT_OUTSTANDING")
    payment = getattr(report, "payment", None)
    if payment and not (payment.is_settled and is_unrefunded(payment)):
        reasons.append("PAYMENT_OUTSTANDING")
    return reasons


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
    items = [(Subject(report.subject or {}), definitions, report.reuse)]
    return price(items, client.workspace.pk, client.environment, at)[0].lines


def _require_subject(report: Report) -> None:
    if report.subject is None:
        detail = "The subject was erased; edit the draft to name one."
        raise InvalidRequest([Fault(("subject",), "required", detail)])


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
