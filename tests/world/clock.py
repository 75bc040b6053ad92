"""Make rows due that wait for a time, a lease or a rest; fix the pauses of retries."""

import random
from datetime import timedelta

import pytest
from django.db.models import F
from django.utils.timezone import now

from verification.checks.models import CheckResult
from verification.notifications.models import Notification
from verification.references.models import Reference
from verification.sources.models import Call
from webhooks.models import Configuration, Delivery

HOUR = timedelta(hours=1)


@pytest.fixture
def longest_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each retry wait for its longest pause: full jitter may leave none."""
    monkeypatch.setattr(random, "uniform", lambda shortest, longest: longest)


def let_time_pass() -> None:
    """Make every waiting check, notification and delivery due, and end all leases."""
    checks = CheckResult.objects.filter(next_attempt_at__isnull=False)
    Call.objects.filter(result__in=checks).update(begun_at=F("begun_at") - HOUR)
    checks.update(
        next_attempt_at=now(), turn_at=now(), started_at=F("started_at") - HOUR
    )
    Notification.objects.filter(next_attempt_at__isnull=False).update(
        next_attempt_at=now() - timedelta(seconds=1)
    )
    deliveries = Delivery.objects.filter(next_attempt_at__isnull=False)
    deliveries.update(next_attempt_at=now())
    deliveries.filter(leased_until__isnull=False).update(leased_until=now())
    Configuration.objects.filter(resting_until__isnull=False).update(
        resting_until=now()
    )


def let_days_pass(days: int) -> None:
    """Move references and waiting checks so many days into the past."""
    back = timedelta(days=days)
    for reference in Reference.objects.all():
        reference.expires_at -= back
        reference.link_made_at -= back
        reference.save()
    for result in CheckResult.objects.filter(next_attempt_at__isnull=False):
        due = max(result.next_attempt_at - back, now() - timedelta(seconds=1))
        CheckResult.objects.filter(pk=result.pk).update(
            next_attempt_at=due, turn_at=due
        )
