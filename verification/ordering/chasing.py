"""Reminding referees who have not answered, and closing links that nobody did."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from django.db.models import QuerySet
from django.utils.timezone import now

from verification.jobs.heartbeat import beat
from verification.ordering.referring import expire, remind
from verification.references.models import Reference, ReferenceStatus

AT_ONCE = 200
REMINDED_AFTER = timedelta(days=3)


def remind_referees() -> None:
    due = _waiting().filter(
        reminded_at=None,
        link_made_at__lte=now() - REMINDED_AFTER,
        expires_at__gt=now(),
    )
    _each(due, remind)


def expire_references() -> None:
    """Those whose check waits are closed by it; the others had their report stopped."""
    _each(_waiting().filter(expires_at__lte=now()), expire)


def _waiting() -> QuerySet[Reference]:
    return Reference.objects.filter(status=ReferenceStatus.PENDING).order_by(
        "expires_at"
    )


def _each(due: QuerySet[Reference], verb: Callable[[UUID], None]) -> None:
    """In a transaction of its own; what is left when we must stop comes next time."""
    while beat() and (ids := list(due.values_list("pk", flat=True)[:AT_ONCE])):
        for reference_id in ids:
            verb(reference_id)
