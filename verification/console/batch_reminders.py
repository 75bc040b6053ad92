"""New links for all subjects of a file who have not answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from enum import StrEnum, auto
from time import monotonic
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from verification.consents.links import REMINDABLE_STATUSES, consent_links
from verification.consents.models import Consent
from verification.consents.subject_messages import reaches_subject
from verification.console.base import Place
from verification.reports.hosted_links import NotRenewable, ResendTooSoon
from verification.values.clock import now
from workspaces.members import Permission, require_present

# Nobody gets a further link by this page within this time.
INTERVAL = timedelta(days=1)
# A request takes no longer; the member goes on with another one.
MAX_SECONDS = 10
# So often a workspace may press the button, which takes a third of a process at most.
REMINDERS_PER_MINUTE = 2


class Outcome(StrEnum):
    SENT = auto()
    # A link or a reminder went out within INTERVAL.
    RECENT = auto()
    UNREACHED = auto()
    # Answered, or over, since the page was shown
    CHANGED = auto()
    # The time of the request was over.
    LEFT = auto()


def unanswered(report_ids: Sequence[UUID]) -> QuerySet[Consent]:
    """Return the consents of these reports whose subjects can still answer."""
    return consent_links.waiting().filter(
        report__in=report_ids,
        report__status__in=REMINDABLE_STATUSES,
        expires_at__gt=now(),
    )


def recent() -> Q:
    since = now() - INTERVAL
    return Q(link_made_at__gt=since) | Q(reminded_at__gt=since)


def remind_all(place: Place, report_ids: Sequence[UUID]) -> Counter[Outcome]:
    """Send each subject a new link in a transaction of its own; count the outcomes."""
    return Counter(_remind_each(place, report_ids))


def _remind_each(place: Place, report_ids: Sequence[UUID]) -> Iterator[Outcome]:
    waiting = unanswered(report_ids)
    yield from [Outcome.RECENT] * waiting.filter(recent()).count()
    end = monotonic() + MAX_SECONDS
    for consent in waiting.exclude(recent()).select_related("report__workspace"):
        yield _remind(place, consent) if monotonic() < end else Outcome.LEFT


def _remind(place: Place, consent: Consent) -> Outcome:
    report = consent.report
    if not reaches_subject(report):
        return Outcome.UNREACHED
    try:
        with transaction.atomic():
            require_present(place.member, Permission.ORDER)
            consent_links.resend(place.client, report.pk)
            place.record("report.consent-resent", report)
    except NotRenewable:
        return Outcome.CHANGED
    except ResendTooSoon:
        return Outcome.RECENT
    return Outcome.SENT
