"""Closing consent links whose time is up."""

from __future__ import annotations

from django.utils.timezone import now

from verification.consents.models import Consent, ConsentStatus
from verification.jobs.sweeping import sweep
from verification.ordering.consenting import expire


def expire_due() -> None:
    due = Consent.objects.filter(
        status=ConsentStatus.PENDING,
        mode=Consent.Mode.SERVICE_HOSTED,
        expires_at__lte=now(),
    )
    sweep(due, expire)
