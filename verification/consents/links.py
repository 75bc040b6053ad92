"""Links to the consent page; `reports.links` says how a link lives."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from verification.consents.decisions import record_expiry
from verification.consents.messages import (
    cancel_consent_requests,
    consent_reminder,
    consent_request,
    is_reachable,
)
from verification.consents.models import Consent, ConsentStatus
from verification.jobs.queue import job
from verification.notifications.models import Kind
from verification.notifications.outbox import OutgoingMessage
from verification.reports.links import ClientLinks, NotRenewable
from verification.reports.models import Report, ReportStatus
from verification.reports.status import SUBJECT_ACTOR

UNANSWERED_STATUSES = {ConsentStatus.PENDING, ConsentStatus.EXPIRED}
REMINDABLE_STATUSES = {ReportStatus.DRAFT, ReportStatus.PENDING_CONSENT}


class ConsentNotRenewable(NotRenewable):
    noun = "consent"


class ConsentLinks(ClientLinks[Consent]):
    """The links of hosted consents. An attested consent has none."""

    model = Consent
    asker = SUBJECT_ACTOR
    not_renewable = ConsentNotRenewable

    def waiting(self) -> QuerySet[Consent]:
        return Consent.objects.filter(
            status=ConsentStatus.PENDING, mode=Consent.Mode.SERVICE_HOSTED
        )

    def require_renewable(self, report: Report, row: Consent, at: datetime) -> None:
        is_draft = report.status == ReportStatus.DRAFT
        is_over = row.expires_at is not None and row.expires_at <= at
        waits = row.status == ConsentStatus.PENDING and not is_over
        # A report whose link is over has failed, even if no job has recorded that yet.
        is_asked = is_draft or (report.status == ReportStatus.PENDING_CONSENT and waits)
        is_hosted = row.mode == Consent.Mode.SERVICE_HOSTED
        if not (is_hosted and is_asked and row.status in UNANSWERED_STATUSES):
            status = ConsentStatus.EXPIRED if is_over else row.status
            raise ConsentNotRenewable(status)

    def cancel_messages(self, row: Consent) -> None:
        cancel_consent_requests(row)

    def reset(self, row: Consent) -> None:
        """Unlock the page and void its code."""
        row.status = ConsentStatus.PENDING
        row.wrong_answers, row.locks, row.locked_until = 0, 0, None
        row.code_sent_at, row.wrong_codes = None, 0
        row.link_requested_at = None

    def request(self, report: Report, row: Consent) -> list[OutgoingMessage]:
        return consent_request(report, row)

    def lock_to_remind(self, row_id: UUID) -> tuple[Report, Consent]:
        """Lock the consent alone, as a reminder changes nothing of the report."""
        consent = Consent.objects.select_for_update(no_key=True).get(pk=row_id)
        report = Report.objects.select_related("workspace").get(pk=consent.report_id)
        return report, consent

    def due_reminders(self, at: datetime) -> QuerySet[Consent]:
        """Leave out links that are locked for good, as they take no answer."""
        most_locks = len(Consent.LOCK_DURATIONS)
        return super().due_reminders(at).filter(locks__lte=most_locks)

    def reminder(self, report: Report, row: Consent) -> list[OutgoingMessage] | None:
        if row.status != ConsentStatus.PENDING:
            return None
        is_asked = report.status in REMINDABLE_STATUSES
        return consent_reminder(report, row) if is_asked else []

    def close(self, report: Report, row: Consent, at: datetime) -> None:
        if row.status == ConsentStatus.PENDING:
            record_expiry(report, row, at)

    def can_visitor_renew(self, report: Report) -> bool:
        is_draft = report.status == ReportStatus.DRAFT
        subject = report.subject or {}
        return is_draft and is_reachable(report, Kind.CONSENT_REQUEST, subject)

    def client_action_needed(self, report: Report, row: Consent, at: datetime) -> str:
        if row.status not in UNANSWERED_STATUSES:
            return ""
        why = "LOCKED" if row.is_locked_for_good else "EXPIRED"
        if row.expires_at is None or row.expires_at > at:
            return why if row.is_locked_for_good and not report.is_ended else ""
        if report.status == ReportStatus.DRAFT:
            return "" if self.can_visitor_renew(report) else why
        # A report whose link is over has failed, even if no job has recorded that yet.
        is_over = report.status in {ReportStatus.PENDING_CONSENT, ReportStatus.FAILED}
        return why if is_over else ""


consent_links = ConsentLinks()


@job
def expire_consents() -> None:
    """Close the consent links that nobody answered in time."""
    consent_links.expire_due()


@job
def remind_subjects() -> None:
    """Remind subjects who have not answered by half time."""
    consent_links.remind_due()
