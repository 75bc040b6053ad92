"""Checks that ask a referee by e-mail, as they have no other source.

The check result waits, without a worker, until the link expires or `make_due` wakes it
because the referee has answered.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.expressions import CombinedExpression
from django.utils.timezone import localdate

from verification import links
from verification.checks.due_checks import Claim, make_due
from verification.checks.models import CheckResult, ResultStatus
from verification.checks.results import (
    Cancelled,
    Failed,
    Outcome,
    Retry,
    completed_with,
)
from verification.db.ids import time_of_id, uuid7
from verification.jobs.queue import job
from verification.notifications.models import BILINGUAL, Channel, Kind
from verification.notifications.outbox import OutgoingMessage, notify
from verification.providers.referee import compare_employment
from verification.references.models import Reference, ReferenceStatus
from verification.reports.hosted_links import (
    HostedLinks,
    cancel_requests,
    is_over,
    make_link,
    reminder_cause,
    request_cause,
)
from verification.reports.models import Report, ReportStatus
from verification.reports.objections import withdrew_from_monitoring
from verification.reports.status import locked_reports
from verification.values.clock import now
from verification.values.local_time import utc_text
from workspaces.models import Environment

RUNNING = {ReportStatus.RUNNING, ReportStatus.PARTIAL}
REMINDER_DELAY = timedelta(days=3)
DECLINED = Failed("REFEREE_DECLINED", "The referee declined to answer.", False)
NO_ANSWER = Failed("REFEREE_NO_ANSWER", "The referee did not answer in time.", True)
ERASED = Failed("SUBJECT_ERASED", "There is nobody left to ask about.", False)


class ReferenceClosed(Exception):
    """The reference takes no answer.

    `status` says why: a ReferenceStatus, REPLACED (there is a newer link) or
    REPORT_ENDED.
    """

    def __init__(self, status: str) -> None:
        super().__init__(f"The reference is {status}.")
        self.status = status


def run_reference_check(claimed: Claim) -> Outcome:
    """Ask the referee, or return the outcome of an earlier request to them."""
    if claimed.subject is None:
        return ERASED
    reference = _reference_of(claimed) or _declined_before(claimed)
    reference = reference or _create_reference(claimed)
    if reference is None:
        return Cancelled()
    if reference.status == ReferenceStatus.PENDING and reference.expires_at <= now():
        _expire(reference)
    return _reference_outcome(claimed, reference)


def reference_message(kind: Kind, reference: Reference) -> OutgoingMessage:
    """Return the message with the present link."""
    subject = asked_subject(reference)
    cause = request_cause if kind == Kind.REFERENCE_REQUEST else reminder_cause
    context = {
        "subjectName": subject["fullName"],
        "employer": subject["employerName"],
        "expiresAt": utc_text(reference.expires_at),
    }
    return referee_message(kind, cause(reference), reference, context)


def referee_message(
    kind: Kind,
    cause: str,
    reference: Reference,
    context: dict[str, Any],
    language: str = BILINGUAL,
) -> OutgoingMessage:
    """Return an e-mail to the referee, whose address must not be erased."""
    report, subject = reference.report, asked_subject(reference)
    context = {
        **report.workspace.requester.message_context,
        "refereeName": subject.get("refereeName", ""),
        "link": links.reference_url(reference.pk, reference.generation),
        **context,
    }
    return OutgoingMessage(
        kind,
        Channel.EMAIL,
        cause,
        subject["refereeEmail"],
        context,
        language,
        report.workspace_id,
        report.environment == Environment.SANDBOX,
        report.pk,
    )


def asked_subject(reference: Reference) -> dict[str, Any]:
    """Return the subject as the check asks about it; empty after its erasure."""
    known = reference.__dict__
    if "_edited" not in known:
        edited = CheckResult.every.filter(inputs__isnull=False)
        known["_edited"] = edited.filter(pk=reference.result_id).first()
    result = known["_edited"]
    return (result.inputs if result else reference.report.subject) or {}


def closed_status(reference: Reference, report: Report, generation: int) -> str | None:
    """Return the status of ReferenceClosed, or None if this link takes an answer."""
    if reference.generation != generation:
        return "REPLACED"
    if reference.status == ReferenceStatus.EXPIRED and reference.expires_at > now():
        # It was closed before its time, together with its report.
        return "REPORT_ENDED"
    if reference.status != ReferenceStatus.PENDING:
        return reference.status
    if not is_awaited(reference, report):
        return "REPORT_ENDED"
    return ReferenceStatus.EXPIRED if is_over(reference, now()) else None


def require_open(reference: Reference, report: Report, generation: int) -> None:
    if closed := closed_status(reference, report, generation):
        raise ReferenceClosed(closed)


def is_awaited(reference: Reference, report: Report) -> bool:
    """Return whether the check waits; that of an ended report may, in a correction."""
    waiting = CheckResult.every.filter(
        pk=reference.result_id, attempt=reference.attempt, status=ResultStatus.RUNNING
    )
    if report.status not in RUNNING:
        waiting = waiting.exclude(revision=0)
    return waiting.exists()


class ReferenceLinks(HostedLinks[Reference]):
    """The links of references, which only staff renew."""

    model = Reference

    def waiting(self) -> QuerySet[Reference]:
        return Reference.objects.filter(status=ReferenceStatus.PENDING)

    def require_renewable(self, report: Report, row: Reference, at: datetime) -> None:
        """Raise ReferenceClosed if the present link takes no answer either."""
        require_open(row, report, row.generation)

    def reset(self, row: Reference) -> None:
        """Nothing else belongs to the old link."""

    def request(self, report: Report, row: Reference) -> list[OutgoingMessage]:
        return [reference_message(Kind.REFERENCE_REQUEST, row)]

    def reminder_time(self) -> CombinedExpression:
        """Remind referees after three days, as their check is running."""
        return F("link_made_at") + REMINDER_DELAY

    def reminder(self, report: Report, row: Reference) -> list[OutgoingMessage]:
        if closed_status(row, report, row.generation):
            return []
        return [reference_message(Kind.REFERENCE_REMINDER, row)]

    def close(self, report: Report, row: Reference, at: datetime) -> None:
        """End the check, if it still waits for this reference."""
        if row.status != ReferenceStatus.PENDING:
            return
        row.status = ReferenceStatus.EXPIRED
        row.save(update_fields=["status"])
        cancel_requests(row)
        if is_awaited(row, report):
            make_due(row.result_id, at)


reference_links = ReferenceLinks()


@job
def remind_and_expire_references() -> None:
    """Remind referees after three days, and close links that nobody answered."""
    reference_links.remind_due()
    reference_links.expire_due()


def _reference_of(claimed: Claim) -> Reference | None:
    return Reference.objects.filter(
        result_id=claimed.result_id, attempt=claimed.attempt
    ).first()


def _declined_before(claimed: Claim) -> Reference | None:
    """Return the last request of a rule if the referee declined it.

    Its next runs do not ask again; the client may, by a retry.
    """
    rule_id = claimed.report.monitoring_id
    if rule_id is None or claimed.attempt > 1 or claimed.is_rerun:
        return None
    asked = Reference.objects.filter(report__monitoring_run__rule=rule_id)
    last = asked.order_by("pk").last()
    return last if last and last.status == ReferenceStatus.DECLINED else None


@transaction.atomic
def _create_reference(claimed: Claim) -> Reference | None:
    """Ask the referee; return None if the report has stopped."""
    report = locked_reports().get(pk=claimed.report.pk)
    # Under the lock only one worker asks, and none asks for a cancelled report.
    if report.erased_at or not (report.status in RUNNING or claimed.is_rerun):
        return None
    # A withdrawal does not end the re-run that a worker has claimed.
    consent = getattr(report, "consent", None)
    if (consent and not consent.is_given) or withdrew_from_monitoring(report):
        return None
    if reference := _reference_of(claimed):
        return reference
    reference = Reference(
        id=uuid7(), report=report, result_id=claimed.result_id, attempt=claimed.attempt
    )
    make_link(reference, now())
    reference.save(force_insert=True)
    notify(reference_message(Kind.REFERENCE_REQUEST, reference))
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
            subject, answers = claimed.subject, reference.answers
            if subject is None or answers is None:
                return ERASED
            rule_id = claimed.report.monitoring_id
            # Each run of a rule repeats what the client stated when it made the rule.
            stated_at = time_of_id(rule_id) if rule_id else claimed.report.created_at
            asked_on = localdate(stated_at)
            return completed_with(
                compare_employment(subject, answers, asked_on, str(reference.pk))
            )
        case ReferenceStatus.DECLINED:
            return DECLINED
        case ReferenceStatus.EXPIRED:
            return NO_ANSWER
    return Retry(reference.expires_at, tries=claimed.tries)
