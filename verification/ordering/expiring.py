"""Closing consent links whose time is up."""

from __future__ import annotations

from django.utils.timezone import now

from verification.consents.models import Consent, ConsentStatus
from verification.jobs.heartbeat import beat
from verification.ordering.consenting import expire

AT_ONCE = 200


def expire_due() -> None:
    """Each in a transaction of its own; what is left when we must stop comes next."""
    due = Consent.objects.filter(
        status=ConsentStatus.PENDING,
        mode=Consent.Mode.SERVICE_HOSTED,
        expires_at__lte=now(),
    ).order_by("expires_at")
    while beat() and (ids := list(due.values_list("pk", flat=True)[:AT_ONCE])):
        for consent_id in ids:
            try:
                expire(consent_id)
            except Consent.DoesNotExist:
                # The draft was edited meanwhile, and asks anew.
                continue
