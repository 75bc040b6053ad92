"""Holds: staff keep a report beyond its retention, for a court or a dispute.

A hold has a reason and an end, so that a mistake keeps no report for ever. It exempts
the report from the retention, and refuses a request to erase its subject.
"""

from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from verification.privacy.erasure import waiting_erasure
from verification.privacy.models import Hold
from verification.privacy.retention import is_claimed
from verification.reports.models import Report
from verification.reports.status import lock_person, locked_reports
from verification.values.clock import now

MAX_DAYS = 5 * 365


class HoldRefused(Exception):
    """The report cannot be held, or the hold is over; the text says why."""


@transaction.atomic
def hold(report_id: UUID, reason: str, ends_at: datetime, *, by: str) -> Hold:
    """Keep a report until `ends_at`. Raises HoldRefused.

    The locks wait for the retention, and for a request to erase the person.
    """
    lock_person(*Report.objects.get(pk=report_id).subject_ids)
    report = locked_reports().get(pk=report_id)
    at = now()
    if report.erased_at is not None:
        raise HoldRefused("The report is erased: there is nothing to hold.")
    if waiting_erasure(report):
        raise HoldRefused("The subject is being erased, so it is too late to hold it.")
    if is_claimed(report):
        raise HoldRefused("The retention is erasing it, so it is too late to hold it.")
    if not at < ends_at <= at + timedelta(days=MAX_DAYS + 1):
        raise HoldRefused("A hold ends in the future, within five years.")
    if report.holds.open(at).exists():
        raise HoldRefused("The report is held already. Release that hold first.")
    return Hold.objects.create(
        report=report, reason=reason, ends_at=ends_at, held_by=by, created_at=at
    )


@transaction.atomic
def release(hold_id: UUID, *, by: str) -> Hold:
    """End a hold now, so that the next retention erases the report. Raises HoldRefused.

    The retention erases it only if its time is over.
    """
    held = Hold.objects.select_for_update().get(pk=hold_id)
    if not held.is_open:
        raise HoldRefused("The hold is over.")
    held.released_at, held.released_by = now(), by
    held.save(update_fields=["released_at", "released_by"])
    return held
