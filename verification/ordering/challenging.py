"""Asking who opens a consent link something that the report knows."""

from __future__ import annotations

import hmac
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.utils.timezone import now

from verification.consents.models import Consent
from verification.identifiers import normalised

TRIES = 5
LOCKED_FOR = timedelta(minutes=15)
DIGITS = 4
DATE_OF_BIRTH = "DATE_OF_BIRTH"
ID_NUMBER_END = "ID_NUMBER_END"


class Locked(Exception):
    """Too many wrong answers; none is taken before `until`."""

    def __init__(self, until: datetime) -> None:
        super().__init__(f"locked until {until:%H:%M}")
        self.until = until


def challenge_of(consent: Consent) -> str | None:
    """DATE_OF_BIRTH, ID_NUMBER_END, or None where the report knows neither."""
    subject = consent.report.subject or {}
    if subject.get("dateOfBirth"):
        return DATE_OF_BIRTH
    return ID_NUMBER_END if _number_end(subject) else None


def answer_challenge(consent_id: UUID, generation: int, answer: str) -> bool:
    """Whether the answer is right: a date as `1990-01-31`, or four characters.

    The fifth wrong one in a row locks the link for 15 minutes. Raises Locked, and
    Consent.DoesNotExist for a link that was replaced.
    """
    right, locked_until = _answer(consent_id, generation, answer)
    if locked_until:
        raise Locked(locked_until)
    return right


@transaction.atomic
def _answer(
    consent_id: UUID, generation: int, answer: str
) -> tuple[bool, datetime | None]:
    """Whether it is right, and until when the link is locked if it is."""
    consent = (
        Consent.objects.select_for_update(of=("self",), no_key=True)
        .select_related("report")
        .get(pk=consent_id, generation=generation)
    )
    at = now()
    if consent.locked_until and consent.locked_until > at:
        return False, consent.locked_until
    right = _is_right(consent, answer)
    consent.wrong_answers = 0 if right else consent.wrong_answers + 1
    consent.locked_until = None
    if consent.wrong_answers >= TRIES:
        consent.wrong_answers, consent.locked_until = 0, at + LOCKED_FOR
    consent.save(update_fields=["wrong_answers", "locked_until"])
    return right, consent.locked_until


def _is_right(consent: Consent, answer: str) -> bool:
    subject = consent.report.subject or {}
    if challenge_of(consent) == DATE_OF_BIRTH:
        expected, given = subject["dateOfBirth"], answer.strip()
    else:
        expected, given = _number_end(subject), normalised(answer)
    return bool(expected) and hmac.compare_digest(expected.encode(), given.encode())


def _number_end(subject: dict[str, str]) -> str:
    number = normalised(subject.get("idNumber", ""))
    return number[-DIGITS:] if len(number) > DIGITS else ""
