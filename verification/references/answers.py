"""What a referee answers by the link, and what that does to the check that waits.

Each verb is one transaction: reference, event and the check that becomes due move
together or not at all. The report is held first, as every other verb does, so that of
two tabs, or of a referee and a cancellation, one wins.

Reminding referees who have not answered, and closing links that nobody did.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils.timezone import now

from verification.checks.events import consent_status_of, reference_event
from verification.checks.models import CheckResult, ResultStatus
from verification.consents.links import RESEND_INTERVAL, ResendTooSoon
from verification.consents.messages import reference_receipt
from verification.db.bulk_insert import insert
from verification.jobs.batches import sweep
from verification.notifications.models import Kind
from verification.notifications.outbox import cancel, notify
from verification.references.models import Reference, ReferenceStatus
from verification.references.requests import (
    causes_of,
    make_due,
    reference_message,
    set_new_link,
)
from verification.reports.locks import locked_reports
from verification.reports.models import Report, ReportStatus
from webhooks.events import event_rows

RUNNING = {ReportStatus.RUNNING, ReportStatus.PARTIAL}


class ReferenceClosed(Exception):
    """The reference takes no such answer: it is `status`, which is a ReferenceStatus,
    REPLACED (another link was made) or REPORT_ENDED."""

    def __init__(self, status: str) -> None:
        super().__init__(f"The reference is {status}.")
        self.status = status


@dataclass(frozen=True, slots=True)
class AnswerEvidence:
    """How the referee answered: what is kept to show that it was so."""

    address: str
    user_agent: str
    language: str
    # The notice that was shown, as `references.notices` keeps it.
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
    """Keep the answers, which are those of `providers.referee`, and end the check.

    Raises ReferenceClosed. The same link again changes nothing.
    """
    reference, report = _lock_reference(reference_id)
    if _is_done(reference, generation, ReferenceStatus.SUBMITTED):
        return reference
    _require_open(reference, report, generation)
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
    """The check fails, for good. Raises ReferenceClosed; twice is once."""
    reference, report = _lock_reference(reference_id)
    if _is_done(reference, generation, ReferenceStatus.DECLINED):
        return reference
    _require_open(reference, report, generation)
    at = now()
    reference.status = ReferenceStatus.DECLINED
    reference.declined_at = at
    _close(reference, evidence.kept(reason), at)
    return reference


@transaction.atomic
def resend_reference_link(reference_id: UUID) -> Reference:
    """Send the referee another link; the one before leads nowhere from then on.

    Raises ReferenceClosed, and TooSoon within a minute of the last one.
    """
    reference, report = _lock_reference(reference_id)
    _require_open(reference, report, reference.generation)
    at = now()
    if (left := reference.link_made_at + RESEND_INTERVAL - at) > timedelta():
        raise ResendTooSoon(math.ceil(left.total_seconds()))
    _cancel_messages(reference)
    reference.generation += 1
    set_new_link(reference, at)
    reference.save()
    notify(reference_message(Kind.REFERENCE_REQUEST, report, reference))
    return reference


@transaction.atomic
def remind_referee(reference_id: UUID) -> None:
    """Once a link; who cannot answer any more is not reminded."""
    reference, report = _lock_reference(reference_id)
    if reference.reminded_at is not None:
        return
    reference.reminded_at = now()
    reference.save(update_fields=["reminded_at"])
    if closed_status(reference, report, reference.generation) is None:
        notify(reference_message(Kind.REFERENCE_REMINDER, report, reference))


@transaction.atomic
def expire_reference(reference_id: UUID) -> None:
    """Close a link that nobody answered; nothing happens to one that was."""
    reference, _ = _lock_reference(reference_id)
    at = now()
    if reference.status != ReferenceStatus.PENDING or reference.expires_at > at:
        return
    reference.status = ReferenceStatus.EXPIRED
    reference.save(update_fields=["status"])
    _cancel_messages(reference)
    if _is_awaited(reference):
        make_due(reference.result_id, at)


def closed_status(reference: Reference, report: Report, generation: int) -> str | None:
    """The status that ReferenceClosed has, or None where this link can answer."""
    if reference.generation != generation:
        return "REPLACED"
    if reference.status == ReferenceStatus.EXPIRED and reference.expires_at > now():
        # Closed before its time, with its report.
        return "REPORT_ENDED"
    if reference.status != ReferenceStatus.PENDING:
        return reference.status
    if report.status not in RUNNING or not _is_awaited(reference):
        return "REPORT_ENDED"
    return ReferenceStatus.EXPIRED if reference.expires_at <= now() else None


def _lock_reference(reference_id: UUID) -> tuple[Reference, Report]:
    rows = Reference.objects.values_list("report_id", flat=True)
    report = locked_reports().get(pk=rows.get(pk=reference_id))
    return Reference.objects.select_for_update(no_key=True).get(pk=reference_id), report


def _is_done(reference: Reference, generation: int, status: ReferenceStatus) -> bool:
    return (reference.generation, reference.status) == (generation, status)


def _require_open(reference: Reference, report: Report, generation: int) -> None:
    if closed := closed_status(reference, report, generation):
        raise ReferenceClosed(closed)


def _is_awaited(reference: Reference) -> bool:
    return CheckResult.objects.filter(
        pk=reference.result_id, attempt=reference.attempt, status=ResultStatus.RUNNING
    ).exists()


def _close(reference: Reference, evidence: dict[str, str], at: datetime) -> None:
    reference.evidence = evidence
    reference.save()
    _cancel_messages(reference)
    notify(*reference_receipt(reference))
    make_due(reference.result_id, at)


def _cancel_messages(reference: Reference) -> None:
    cancel(*causes_of(reference))


REMINDER_DELAY = timedelta(days=3)


def remind_referees() -> None:
    due = _pending_references().filter(
        reminded_at=None,
        link_made_at__lte=now() - REMINDER_DELAY,
        expires_at__gt=now(),
    )
    sweep(due, remind_referee)


def expire_references() -> None:
    """Those whose check waits are closed by it; the others had their report stopped."""
    sweep(_pending_references().filter(expires_at__lte=now()), expire_reference)


def _pending_references() -> QuerySet[Reference]:
    return Reference.objects.filter(status=ReferenceStatus.PENDING)
