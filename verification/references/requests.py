"""Checks that ask a referee by e-mail, as they have no other source.

The check result waits, without a worker, until the link expires or `make_due` wakes it
because the referee has answered.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils.timezone import now

from verification import links
from verification.checks.models import CheckResult, ResultStatus
from verification.checks.queue import Claim, wake_up
from verification.checks.results import (
    Cancelled,
    Failed,
    Outcome,
    Retry,
    completed_with,
)
from verification.db.ids import uuid7
from verification.notifications.models import BILINGUAL, Channel, Kind
from verification.notifications.outbox import OutgoingMessage, cancel, notify
from verification.providers.referee import compare_employment
from verification.references.models import Reference, ReferenceStatus
from verification.reports.links import make_link, reminder_cause, request_cause
from verification.reports.locks import locked_reports
from verification.reports.models import Report, ReportStatus
from verification.values.wire import utc_text
from workspaces.models import Environment

DECLINED = Failed("REFEREE_DECLINED", "The referee declined to answer.", False)
NO_ANSWER = Failed("REFEREE_NO_ANSWER", "The referee did not answer in time.", True)
ERASED = Failed("SUBJECT_ERASED", "There is nobody left to ask about.", False)


def run_reference_check(claimed: Claim) -> Outcome:
    """Ask the referee, or return the outcome of an earlier request to them."""
    if claimed.report.subject is None:
        return ERASED
    reference = _reference_of(claimed) or _create_reference(claimed)
    if reference is None:
        return Cancelled()
    if reference.status == ReferenceStatus.PENDING and reference.expires_at <= now():
        _expire(reference)
    return _reference_outcome(claimed, reference)


def make_due(result_id: UUID, at: datetime) -> None:
    """Schedule this waiting check for now, in the caller's transaction.

    Raises the fence, so that a worker that read the reference earlier cannot postpone
    the check.
    """
    CheckResult.objects.filter(pk=result_id, status=ResultStatus.RUNNING).update(
        next_attempt_at=at, turn_at=at, claims=0, fence=F("fence") + 1
    )
    wake_up()


def cancel_reference_requests(reference: Reference) -> None:
    """Cancel unsent messages that ask for an answer by the present link."""
    cancel(request_cause(reference), reminder_cause(reference))


def close_references(report: Report) -> None:
    """Expire the references of a stopped report. The caller holds the report."""
    waiting = Reference.objects.filter(report=report, status=ReferenceStatus.PENDING)
    for reference in waiting:
        cancel_reference_requests(reference)
    waiting.update(status=ReferenceStatus.EXPIRED)


def reference_message(
    kind: Kind, report: Report, reference: Reference
) -> OutgoingMessage:
    subject = report.subject or {}
    cause = request_cause if kind == Kind.REFERENCE_REQUEST else reminder_cause
    return OutgoingMessage(
        kind,
        Channel.EMAIL,
        cause(reference),
        subject["refereeEmail"],
        {
            **report.workspace.requester.message_context,
            "subjectName": subject["fullName"],
            "refereeName": subject["refereeName"],
            "employer": subject["employerName"],
            "link": links.reference_url(reference.pk, reference.generation),
            "expiresAt": utc_text(reference.expires_at),
        },
        BILINGUAL,
        report.workspace_id,
        report.environment == Environment.SANDBOX,
    )


def _reference_of(claimed: Claim) -> Reference | None:
    return Reference.objects.filter(
        result_id=claimed.result_id, attempt=claimed.attempt
    ).first()


@transaction.atomic
def _create_reference(claimed: Claim) -> Reference | None:
    """Ask the referee; return None if the report has stopped."""
    report = locked_reports().get(pk=claimed.report.pk)
    # Under the lock only one worker asks, and none asks for a cancelled report.
    if report.status not in {ReportStatus.RUNNING, ReportStatus.PARTIAL}:
        return None
    if reference := _reference_of(claimed):
        return reference
    reference = Reference(
        id=uuid7(), report=report, result_id=claimed.result_id, attempt=claimed.attempt
    )
    make_link(reference, now())
    reference.save(force_insert=True)
    notify(reference_message(Kind.REFERENCE_REQUEST, report, reference))
    return reference


def _expire(reference: Reference) -> None:
    """Expire the reference, unless an answer or a new link was faster."""
    Reference.objects.filter(
        pk=reference.pk, status=ReferenceStatus.PENDING, expires_at__lte=now()
    ).update(status=ReferenceStatus.EXPIRED)
    reference.refresh_from_db()


def _reference_outcome(claimed: Claim, reference: Reference) -> Outcome:
    match reference.status:
        case ReferenceStatus.SUBMITTED:
            subject, answers = claimed.report.subject, reference.answers
            if subject is None or answers is None:
                return ERASED
            return completed_with(
                compare_employment(subject, answers, str(reference.pk))
            )
        case ReferenceStatus.DECLINED:
            return DECLINED
        case ReferenceStatus.EXPIRED:
            return NO_ANSWER
    return Retry(reference.expires_at, tries=claimed.tries)
