"""Reminding subjects who have not answered, once, when half of their time is over."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils.timezone import now

from verification.consents.models import Consent, ConsentStatus
from verification.jobs.sweeping import sweep
from verification.notifications.notifying import notify
from verification.ordering.telling import consent_reminder
from verification.reports.models import Report, ReportStatus

ASKED = {ReportStatus.DRAFT, ReportStatus.PENDING_CONSENT}


def remind_due() -> None:
    due = Consent.objects.filter(
        status=ConsentStatus.PENDING,
        mode=Consent.Mode.SERVICE_HOSTED,
        reminded_at=None,
        # A link that is locked for good takes no answer.
        locks__lte=len(Consent.LOCKS),
        # Half of the time that was given for this link.
        expires_at__lte=now() + (F("expires_at") - F("link_made_at")) / 2,
    )
    sweep(due, _remind)


@transaction.atomic
def _remind(consent_id: UUID) -> None:
    consent = Consent.objects.select_for_update(no_key=True).filter(
        pk=consent_id, status=ConsentStatus.PENDING, reminded_at=None
    )
    if not (found := consent.first()):
        return
    found.reminded_at = now()
    found.save(update_fields=["reminded_at"])
    report = Report.objects.select_related("workspace").get(pk=found.report_id)
    if report.status in ASKED:
        notify(*consent_reminder(report, found))
