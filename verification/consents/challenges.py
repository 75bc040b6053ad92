"""Rules of the consent page: the age and signature of a subject, challenges and codes.

A challenge asks for a detail that the report knows of the subject. A code shows that
the visitor reads the subject's messages.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

from verification.consents.models import Consent
from verification.db.encryption import keyed_hash
from verification.providers.name_comparison import (
    names_alike,
    normalize_spelling,
    person_words,
    without_particles,
)
from verification.reports.models import Report, SubjectType
from verification.values.identifiers import normalise_identifier
from verification.values.wire import NAIROBI

ADULT_AGE = 18
ACCEPTED_LIKENESSES = {"MATCH", "PARTIAL_MATCH"}


def is_under_age(subject: Mapping[str, Any] | None, at: datetime) -> bool:
    """Return whether the subject is under 18 at this moment, by the date in Nairobi.

    False if no birthday is known.
    """
    text = (subject or {}).get("dateOfBirth")
    if not text:
        return False
    born, today = date.fromisoformat(text), at.astimezone(NAIROBI).date()
    had_birthday = (today.month, today.day) >= (born.month, born.day)
    return today.year - born.year - (not had_birthday) < ADULT_AGE


def is_signature(report: Report, name: str) -> bool:
    """Return whether `name` signs for the subject of the report.

    A person signs with a name like the one in the report. For a company a person signs
    with their own name, of two words or more.
    """
    # The matcher reads a star as hidden letters of a register.
    if "*" in name:
        return False
    if report.subject_type == SubjectType.COMPANY:
        return len(person_words(name)) > 1
    known = (report.subject or {}).get("fullName") or report.subject_name
    words = without_particles(person_words(known))
    if len(words) > 1:
        return names_alike(known, name) in ACCEPTED_LIKENESSES
    # The report knows one name only, and the matcher does not accept one common name.
    return not words or normalize_spelling(words[0]) in map(
        normalize_spelling, person_words(name)
    )


ID_NUMBER_DIGITS = 4
DATE_OF_BIRTH = "DATE_OF_BIRTH"
ID_NUMBER_END = "ID_NUMBER_END"
REGISTRATION_NUMBER = "REGISTRATION_NUMBER"
KRA_PIN = "KRA_PIN"
# In the record of a consent whose report has no detail for a challenge.
NO_CHALLENGE = "NO_CHALLENGE"

CODE_DIGITS = 6
CODE_LIFETIME = timedelta(minutes=15)


def challenge_for_consent(consent: Consent) -> str | None:
    """Return the challenge of the page, or None if the report has no detail for one.

    It is DATE_OF_BIRTH, ID_NUMBER_END, REGISTRATION_NUMBER (of a company) or KRA_PIN.
    """
    return challenge_for_subject(consent.report.subject or {})


def challenge_for_subject(subject: Mapping[str, Any]) -> str | None:
    """Return the challenge for the subject of an order."""
    return next(iter(_expected_answers(subject)), None)


def is_correct_answer(consent: Consent, answer: str) -> bool:
    """Compare a date as `1990-01-31`, or a number, with the report's detail."""
    for kind, expected in _expected_answers(consent.report.subject or {}).items():
        given = (
            answer.strip() if kind == DATE_OF_BIRTH else normalise_identifier(answer)
        )
        return hmac.compare_digest(expected.encode(), given.encode())
    return False


def derive_code(consent: Consent) -> str:
    """Derive the six digits of the last code from the row; no column holds them."""
    row = consent.pk, consent.generation, consent.codes_sent, consent.code_channel
    number = int.from_bytes(keyed_hash("consent-code", *row)) % 10**CODE_DIGITS
    return f"{number:0{CODE_DIGITS}}"


def is_code_valid(consent: Consent, at: datetime) -> bool:
    """Return whether the last code is unused and less than 15 minutes old."""
    sent_at = consent.code_sent_at
    return sent_at is not None and sent_at + CODE_LIFETIME > at


def is_correct_code(consent: Consent, answer: str) -> bool:
    given = "".join(answer.split())
    return hmac.compare_digest(derive_code(consent).encode(), given.encode())


def _expected_answers(subject: Mapping[str, Any]) -> dict[str, str]:
    """Return challenge -> right answer; the page asks the first of them."""
    number = _number(subject, "idNumber")
    answers = {
        DATE_OF_BIRTH: subject.get("dateOfBirth") or "",
        ID_NUMBER_END: number[-ID_NUMBER_DIGITS:]
        if len(number) > ID_NUMBER_DIGITS
        else "",
        REGISTRATION_NUMBER: _number(subject, "registrationNumber"),
        KRA_PIN: _number(subject, "kraPin"),
    }
    return {kind: answer for kind, answer in answers.items() if answer}


def _number(subject: Mapping[str, Any], member: str) -> str:
    value = subject.get(member)
    return normalise_identifier(value) if isinstance(value, str) else ""
