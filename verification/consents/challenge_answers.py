"""Answers to the challenge and codes of a consent, and the locks after wrong ones."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.utils.timezone import now

from verification.consents.challenges import (
    derive_code,
    is_code_valid,
    is_correct_answer,
    is_correct_code,
)
from verification.consents.messages import (
    cancel_consent_requests,
    code_cause,
    code_channels,
    consent_code,
    consent_lock_message,
)
from verification.consents.models import Consent, ConsentStatus
from verification.notifications.outbox import (
    MessageWithheld,
    cancel,
    notify,
    notify_within_limits,
)
from verification.reports.links import require_resend_interval
from verification.reports.status import SUBJECT_ACTOR, record_note

TRIES = 5
# For one link. A right answer to the challenge does not reset the count.
MAX_WRONG_CODES = 15


class LinkLocked(Exception):
    """Too many answers were wrong. The lock ends at `until`; if that is None, never."""

    def __init__(self, until: datetime | None) -> None:
        super().__init__(f"locked until {until:%H:%M}" if until else "locked for good")
        self.until = until


class CodeNotSent(Exception):
    """The subject has blocked the client, or got as many codes as a day allows."""


@transaction.atomic
def send_code(consent_id: UUID, generation: int, channel: str, language: str) -> None:
    """Send the subject a code; the code before it stops working.

    Raises ResendTooSoon within a minute of the last code, CodeNotSent if the message
    cannot go out, and Consent.DoesNotExist for a replaced link.
    """
    consent = _get_consent_for_update(consent_id, generation)
    is_asked = consent.status == ConsentStatus.PENDING
    if not is_asked or consent.is_locked_for_good:
        raise CodeNotSent
    if channel not in code_channels(consent):
        raise CodeNotSent
    at = now()
    if consent.code_sent_at:
        require_resend_interval(consent.code_sent_at, at)
    cancel(code_cause(consent))
    consent.codes_sent += 1
    consent.code_channel, consent.code_sent_at = channel, at
    consent.save(update_fields=["codes_sent", "code_channel", "code_sent_at"])
    (message,) = consent_code(consent, derive_code(consent), language)
    try:
        # The limit counts here, before the message goes out: of many simultaneous
        # requests, those over the limit must not make codes that could be guessed.
        notify_within_limits(message)
    except MessageWithheld:
        raise CodeNotSent from None


@transaction.atomic
def answer_code(consent_id: UUID, generation: int, answer: str) -> str:
    """Return the channel of the code, or "" if the answer is wrong or too late.

    A code works once. Five wrong answers void it, and MAX_WRONG_CODES lock the link for
    good. Raises LinkLocked.
    """
    consent = _get_consent_for_update(consent_id, generation)
    at = now()
    if consent.is_locked_for_good:
        raise LinkLocked(None)
    # The link of an answered consent is never locked for good.
    if consent.status != ConsentStatus.PENDING or not is_code_valid(consent, at):
        return ""
    right = is_correct_code(consent, answer)
    consent.wrong_codes += not right
    if right or consent.wrong_codes % TRIES == 0:
        consent.code_sent_at = None
    if consent.wrong_codes >= MAX_WRONG_CODES:
        consent.locks, consent.locked_until = len(Consent.LOCK_DURATIONS) + 1, None
        _notify_of_lock(consent, at)
    consent.save(update_fields=["wrong_codes", "code_sent_at", "locks", "locked_until"])
    return consent.code_channel if right else ""


def answer_challenge(consent_id: UUID, generation: int, answer: str) -> bool:
    """Return whether the answer is right.

    It is a date as `1990-01-31`, four characters, a registration number or a KRA PIN.
    The fifth wrong answer in a row locks the link, each time for longer, and in the end
    for good. Raises LinkLocked, and Consent.DoesNotExist for a replaced link.
    """
    right, locked = _answer(consent_id, generation, answer)
    if locked:
        raise locked
    return right


@transaction.atomic
def _answer(
    consent_id: UUID, generation: int, answer: str
) -> tuple[bool, LinkLocked | None]:
    """Return whether the answer is right, and the lock of the link afterwards."""
    consent = _get_consent_for_update(consent_id, generation)
    at = now()
    if consent.is_locked(at):
        return False, LinkLocked(consent.locked_until)
    right = is_correct_answer(consent, answer)
    consent.locked_until = None
    consent.wrong_answers = 0 if right else consent.wrong_answers + 1
    if right:
        consent.locks = 0
    elif consent.wrong_answers >= TRIES:
        _lock_link(consent, at)
    consent.save(update_fields=["wrong_answers", "locked_until", "locks"])
    return right, LinkLocked(consent.locked_until) if consent.is_locked(at) else None


def _get_consent_for_update(consent_id: UUID, generation: int) -> Consent:
    rows = Consent.objects.select_for_update(of=("self",), no_key=True)
    rows = rows.select_related("report__workspace")
    return rows.get(pk=consent_id, generation=generation)


def _lock_link(consent: Consent, at: datetime) -> None:
    """Lock the link for longer than the last time, and in the end for good.

    The link of an answered consent is never locked for good: its subject needs it to
    withdraw.
    """
    consent.wrong_answers = 0
    if consent.locks < len(Consent.LOCK_DURATIONS):
        consent.locks += 1
    elif consent.status == ConsentStatus.PENDING:
        consent.locks += 1
        _notify_of_lock(consent, at)
        return
    consent.locked_until = at + Consent.LOCK_DURATIONS[consent.locks - 1]


def _notify_of_lock(consent: Consent, at: datetime) -> None:
    """Tell the subject and the timeline that the link is locked for good."""
    cancel_consent_requests(consent)
    notify(*consent_lock_message(consent.report, consent))
    record_note(consent.report, "consent link locked for good", SUBJECT_ACTOR, at)
