"""Reminding referees who have not answered, and closing links that nobody did."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import QuerySet
from django.utils.timezone import now

from verification.jobs.sweeping import sweep
from verification.ordering.referring import expire, remind
from verification.references.models import Reference, ReferenceStatus

REMINDED_AFTER = timedelta(days=3)


def remind_referees() -> None:
    due = _waiting().filter(
        reminded_at=None,
        link_made_at__lte=now() - REMINDED_AFTER,
        expires_at__gt=now(),
    )
    sweep(due, remind)


def expire_references() -> None:
    """Those whose check waits are closed by it; the others had their report stopped."""
    sweep(_waiting().filter(expires_at__lte=now()), expire)


def _waiting() -> QuerySet[Reference]:
    return Reference.objects.filter(status=ReferenceStatus.PENDING)
