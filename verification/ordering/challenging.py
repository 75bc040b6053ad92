"""Answers to the challenge of a consent, and the locks of too many wrong ones."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.utils.timezone import now

from verification.consents.challenges import is_right
from verification.consents.models import Consent, ConsentStatus
from verification.notifications.notifying import notify
from verification.ordering.telling import consent_locked, stop_asking
from verification.reports.transitions import SUBJECT, note

TRIES = 5


class Locked(Exception):
    """Too many wrong answers; none is taken before `until`, or ever if it is None."""

    def __init__(self, until: datetime | None) -> None:
        super().__init__(f"locked until {until:%H:%M}" if until else "locked for good")
        self.until = until


def answer_challenge(consent_id: UUID, generation: int, answer: str) -> bool:
    """Whether the answer is right: a date as `1990-01-31`, four characters, or a
    company's whole registration number.

    The fifth wrong one in a row locks the link, each time for longer, and in the end
    for good. Raises Locked, and Consent.DoesNotExist for a link that was replaced.
    """
    right, locked = _answer(consent_id, generation, answer)
    if locked:
        raise locked
    return right


@transaction.atomic
def _answer(
    consent_id: UUID, generation: int, answer: str
) -> tuple[bool, Locked | None]:
    """Whether it is right, and the lock that the link is under afterwards."""
    consent = (
        Consent.objects.select_for_update(of=("self",), no_key=True)
        .select_related("report__workspace")
        .get(pk=consent_id, generation=generation)
    )
    at = now()
    if consent.is_locked(at):
        return False, Locked(consent.locked_until)
    right = is_right(consent, answer)
    consent.locked_until = None
    consent.wrong_answers = 0 if right else consent.wrong_answers + 1
    if right:
        consent.locks = 0
    elif consent.wrong_answers >= TRIES:
        _lock(consent, at)
    consent.save(update_fields=["wrong_answers", "locked_until", "locks"])
    return right, Locked(consent.locked_until) if consent.is_locked(at) else None


def _lock(consent: Consent, at: datetime) -> None:
    """Lock the link for longer than the last time, and in the end for good.

    The link of an answered consent is never locked for good: its subject needs it to
    withdraw.
    """
    consent.wrong_answers = 0
    if consent.locks < len(Consent.LOCKS):
        consent.locks += 1
    elif consent.status == ConsentStatus.PENDING:
        consent.locks += 1
        stop_asking(consent)
        notify(*consent_locked(consent.report, consent))
        note(consent.report, "consent link locked for good", SUBJECT, at)
        return
    consent.locked_until = at + Consent.LOCKS[consent.locks - 1]
