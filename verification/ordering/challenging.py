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
REGISTRATION_NUMBER = "REGISTRATION_NUMBER"
# In the record of a consent whose report knows nothing to ask for.
NO_CHALLENGE = "NO_CHALLENGE"


class Locked(Exception):
    """Too many wrong answers; none is taken before `until`."""

    def __init__(self, until: datetime) -> None:
        super().__init__(f"locked until {until:%H:%M}")
        self.until = until


def challenge_of(consent: Consent) -> str | None:
    """DATE_OF_BIRTH, ID_NUMBER_END or REGISTRATION_NUMBER (of a company); None if the
    report knows none of them."""
    return next(iter(_expected(consent)), None)


def answer_challenge(consent_id: UUID, generation: int, answer: str) -> bool:
    """Whether the answer is right: a date as `1990-01-31`, four characters, or a
    company's whole registration number.

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
    for kind, expected in _expected(consent).items():
        given = answer.strip() if kind == DATE_OF_BIRTH else normalised(answer)
        return hmac.compare_digest(expected.encode(), given.encode())
    return False


def _expected(consent: Consent) -> dict[str, str]:
    """The right answer to each challenge that the report knows one to; the first is
    the one that is asked."""
    subject = consent.report.subject or {}
    number = normalised(subject.get("idNumber", ""))
    answers = {
        DATE_OF_BIRTH: subject.get("dateOfBirth", ""),
        ID_NUMBER_END: number[-DIGITS:] if len(number) > DIGITS else "",
        REGISTRATION_NUMBER: normalised(subject.get("registrationNumber", "")),
    }
    return {kind: answer for kind, answer in answers.items() if answer}
