"""The answers of a referee, and how they end the check that waits for them.

Each verb is one transaction: reference, event and the check that becomes due change
together or not at all. It locks the report first, as all verbs do: of two tabs, or of a
referee and a cancellation, one wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.timezone import now

from verification.checks.events import consent_status_of, reference_event
from verification.checks.models import CheckResult, ResultStatus
from verification.consents.messages import reference_receipt
from verification.db.bulk_insert import insert
from verification.notifications.outbox import notify
from verification.references.models import Reference, ReferenceStatus
from verification.references.requests import cancel_reference_requests, make_due
from verification.reports.locks import lock_with_report
from verification.reports.models import Report, ReportStatus
from webhooks.events import event_rows

RUNNING = {ReportStatus.RUNNING, ReportStatus.PARTIAL}


class ReferenceClosed(Exception):
    """The reference takes no answer.

    `status` says why: a ReferenceStatus, REPLACED (there is a newer link) or
    REPORT_ENDED.
    """

    def __init__(self, status: str) -> None:
        super().__init__(f"The reference is {status}.")
        self.status = status


@dataclass(frozen=True, slots=True)
class AnswerEvidence:
    """Proof of the answer; `notice` is the `Notice.kept` of the notice on the page."""

    address: str
    user_agent: str
    language: str
    notice: Mapping[str, str]

    def kept(self, reason: str = "") -> dict[str, str]:
        return {
            "address": self.address,
            "userAgent": self.user_agent,
            "language": self.language,
            "reason": reason,
            **self.notice,
        }


@transaction.atomic
def submit(
    reference_id: UUID,
    generation: int,
    answers: Mapping[str, Any],
    evidence: AnswerEvidence,
) -> Reference:
    """Store the answers, in the form of `providers.referee`, and end the check.

    Raises ReferenceClosed. A second call through the same link changes nothing.
    """
    report, reference = lock_with_report(Reference, reference_id)
    if _is_done(reference, generation, ReferenceStatus.SUBMITTED):
        return reference
    require_open(reference, report, generation)
    at = now()
    reference.status = ReferenceStatus.SUBMITTED
    reference.answers, reference.submitted_at = dict(answers), at
    _close(reference, evidence.kept(), at)
    stack = report.results.values_list("name", "status", "id")
    event = reference_event(
        report,
        list(stack),
        reference,
        referee_name=answers["refereeName"],
        submitted_at=at,
        consent_status=consent_status_of(report),
    )
    insert(event_rows([event], at))
    return reference


@transaction.atomic
def decline(
    reference_id: UUID, generation: int, evidence: AnswerEvidence, reason: str
) -> Reference:
    """Fail the check without a retry, as the referee does not want to answer.

    Raises ReferenceClosed. A second call through the same link changes nothing.
    """
    report, reference = lock_with_report(Reference, reference_id)
    if _is_done(reference, generation, ReferenceStatus.DECLINED):
        return reference
    require_open(reference, report, generation)
    at = now()
    reference.status = ReferenceStatus.DECLINED
    reference.declined_at = at
    _close(reference, evidence.kept(reason), at)
    return reference


def closed_status(reference: Reference, report: Report, generation: int) -> str | None:
    """Return the status of ReferenceClosed, or None if this link takes an answer."""
    if reference.generation != generation:
        return "REPLACED"
    if reference.status == ReferenceStatus.EXPIRED and reference.expires_at > now():
        # It was closed before its time, together with its report.
        return "REPORT_ENDED"
    if reference.status != ReferenceStatus.PENDING:
        return reference.status
    if report.status not in RUNNING or not is_awaited(reference):
        return "REPORT_ENDED"
    return ReferenceStatus.EXPIRED if reference.expires_at <= now() else None


def _is_done(reference: Reference, generation: int, status: ReferenceStatus) -> bool:
    return (reference.generation, reference.status) == (generation, status)


def require_open(reference: Reference, report: Report, generation: int) -> None:
    if closed := closed_status(reference, report, generation):
        raise ReferenceClosed(closed)


def is_awaited(reference: Reference) -> bool:
    return CheckResult.objects.filter(
        pk=reference.result_id, attempt=reference.attempt, status=ResultStatus.RUNNING
    ).exists()


def _close(reference: Reference, evidence: dict[str, str], at: datetime) -> None:
    reference.evidence = evidence
    reference.save()
    cancel_reference_requests(reference)
    notify(*reference_receipt(reference))
    make_due(reference.result_id, at)
