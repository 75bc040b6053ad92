"""New links to the consent page; the one before leads nowhere from then on.

Reminding subjects who have not answered, once, when half of their time is over.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils.timezone import now

from verification import links
from verification.consents.messages import (
    cancel_consent_requests,
    consent_reminder,
    consent_request,
    is_reachable,
    new_link_request,
    request_cause,
)
from verification.consents.models import Consent, ConsentStatus
from verification.jobs.batches import sweep
from verification.notifications.models import Kind
from verification.notifications.outbox import notify
from verification.reports.locks import lock_report, locked_reports
from verification.reports.models import Report, ReportStatus
from verification.reports.status import SUBJECT_ACTOR, record_note
from workspaces.models import Client

RESEND_INTERVAL = timedelta(minutes=1)
UNANSWERED_STATUSES = {ConsentStatus.PENDING, ConsentStatus.EXPIRED}


class NotResendable(Exception):
    """No link can be sent: `status` is the consent's."""

    def __init__(self, status: str) -> None:
        super().__init__(f"A consent that is {status} needs no link.")
        self.status = status


class ResendTooSoon(Exception):
    """The last link is less than a minute old; `seconds` are left."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"A link was made within the last minute; wait {seconds} s.")
        self.seconds = seconds


@transaction.atomic
def resend_consent_link(client: Client, report_id: UUID) -> Report:
    """Give a hosted consent that waits, or a draft's that expired, another link."""
    report = lock_report(client, report_id)
    consents = Consent.objects.select_for_update(no_key=True)
    consent = consents.filter(report=report).first()
    if consent is None:
        raise NotResendable(ConsentStatus.NOT_REQUIRED)
    _renew(consent, report)
    return report


@transaction.atomic
def send_new_link(consent_id: UUID) -> None:
    """The same, asked for by staff, or by who opened a link that has expired."""
    report_id = Consent.objects.values_list("report_id", flat=True).get(pk=consent_id)
    report = locked_reports().get(pk=report_id)
    _renew(Consent.objects.select_for_update(no_key=True).get(pk=consent_id), report)


@transaction.atomic
def request_link(consent_id: UUID, generation: int) -> None:
    """Tell the client, once for each link, that the subject asks for another one.

    Changes nothing about the report: the client sends a link, or orders anew.
    """
    report_id = Consent.objects.values_list("report_id", flat=True).get(pk=consent_id)
    report = locked_reports().get(pk=report_id)
    consents = Consent.objects.select_for_update(no_key=True)
    consent = consents.get(pk=consent_id, generation=generation)
    at = now()
    if consent.link_requested_at or not needs_link_from_client(consent, report, at):
        return
    consent.link_requested_at = at
    consent.save(update_fields=["link_requested_at"])
    record_note(report, "subject asks for a new link", SUBJECT_ACTOR, at)
    why = "LOCKED" if consent.is_locked_for_good else "EXPIRED"
    notify(new_link_request(report, request_cause(consent), "subject", why))


def needs_link_from_client(consent: Consent, report: Report, at: datetime) -> bool:
    """Whether the present link takes no answer, and the client alone can send another:
    it is locked for good, or has expired and the subject cannot renew it."""
    if consent.status not in UNANSWERED_STATUSES:
        return False
    if consent.expires_at is None or consent.expires_at > at:
        return consent.is_locked_for_good and not report.is_ended
    if report.status == ReportStatus.DRAFT:
        return not can_subject_renew(report)
    # A report whose time is over has failed, whether or not that is written yet.
    return report.status in {ReportStatus.PENDING_CONSENT, ReportStatus.FAILED}


def can_subject_renew(report: Report) -> bool:
    """Whether the page of an expired link sends another one: of a draft, as any other
    report has failed, and where the message reaches the subject. Else the new link
    would be lost, and the old one with it."""
    is_draft = report.status == ReportStatus.DRAFT
    return is_draft and is_reachable(report, Kind.CONSENT_REQUEST, report.subject or {})


def _renew(consent: Consent, report: Report) -> None:
    at = now()
    _require_resendable(consent, report)
    if (left := consent.link_made_at + RESEND_INTERVAL - at) > timedelta():
        raise ResendTooSoon(math.ceil(left.total_seconds()))
    cancel_consent_requests(consent)
    consent.generation += 1
    consent.token_digest = links.digest(
        links.token("consent", consent.pk, consent.generation)
    )
    consent.status = ConsentStatus.PENDING
    consent.expires_at = at + timedelta(days=settings.CONSENT_LINK_DAYS)
    consent.link_made_at, consent.reminded_at = at, None
    consent.wrong_answers, consent.locks, consent.locked_until = 0, 0, None
    consent.code_sent_at, consent.wrong_codes = None, 0
    consent.link_requested_at = None
    consent.save()
    notify(*consent_request(report, consent))


def _require_resendable(consent: Consent, report: Report) -> None:
    is_draft = report.status == ReportStatus.DRAFT
    is_over = consent.expires_at is not None and consent.expires_at <= now()
    waits = consent.status == ConsentStatus.PENDING and not is_over
    # A report whose time is over has failed, whether or not that is written yet.
    asked = is_draft or (report.status == ReportStatus.PENDING_CONSENT and waits)
    is_hosted = consent.mode == Consent.Mode.SERVICE_HOSTED
    if not (is_hosted and asked and consent.status in UNANSWERED_STATUSES):
        raise NotResendable(ConsentStatus.EXPIRED if is_over else consent.status)


REMINDABLE_STATUSES = {ReportStatus.DRAFT, ReportStatus.PENDING_CONSENT}


def remind_due_subjects() -> None:
    due = Consent.objects.filter(
        status=ConsentStatus.PENDING,
        mode=Consent.Mode.SERVICE_HOSTED,
        reminded_at=None,
        # A link that is locked for good takes no answer.
        locks__lte=len(Consent.LOCK_DURATIONS),
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
    if report.status in REMINDABLE_STATUSES:
        notify(*consent_reminder(report, found))
