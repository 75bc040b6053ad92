"""Links to the page of a reference; `reports.links` says how a link lives."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import QuerySet

from verification.jobs.queue import job
from verification.notifications.models import Kind
from verification.notifications.outbox import OutgoingMessage
from verification.references.answers import closed_status, is_awaited, require_open
from verification.references.models import Reference, ReferenceStatus
from verification.references.requests import (
    cancel_reference_requests,
    make_due,
    reference_message,
)
from verification.reports.links import HostedLinks
from verification.reports.models import Report

REMINDER_DELAY = timedelta(days=3)


class ReferenceLinks(HostedLinks[Reference]):
    """The links of references, which only staff renew."""

    model = Reference

    def waiting(self) -> QuerySet[Reference]:
        return Reference.objects.filter(status=ReferenceStatus.PENDING)

    def require_renewable(self, report: Report, row: Reference, at: datetime) -> None:
        """Raise ReferenceClosed if the present link takes no answer either."""
        require_open(row, report, row.generation)

    def cancel_messages(self, row: Reference) -> None:
        cancel_reference_requests(row)

    def reset(self, row: Reference) -> None:
        """Nothing else belongs to the old link."""

    def request(self, report: Report, row: Reference) -> list[OutgoingMessage]:
        return [reference_message(Kind.REFERENCE_REQUEST, report, row)]

    def due_reminders(self, at: datetime) -> QuerySet[Reference]:
        """Remind referees after three days, as their check is running."""
        made_before = at - REMINDER_DELAY
        unreminded = self.waiting().filter(reminded_at=None, expires_at__gt=at)
        return unreminded.filter(link_made_at__lte=made_before)

    def reminder(self, report: Report, row: Reference) -> list[OutgoingMessage]:
        if closed_status(row, report, row.generation):
            return []
        return [reference_message(Kind.REFERENCE_REMINDER, report, row)]

    def close(self, report: Report, row: Reference, at: datetime) -> None:
        """End the check, if it still waits for this reference."""
        if row.status != ReferenceStatus.PENDING:
            return
        row.status = ReferenceStatus.EXPIRED
        row.save(update_fields=["status"])
        cancel_reference_requests(row)
        if is_awaited(row):
            make_due(row.result_id, at)


reference_links = ReferenceLinks()


@job
def remind_and_expire_references() -> None:
    """Remind referees after three days, and close links that nobody answered."""
    reference_links.remind_due()
    reference_links.expire_due()
