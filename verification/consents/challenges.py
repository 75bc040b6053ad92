"""What the page of a consent asks its visitor, to be sure that it is the subject."""

from __future__ import annotations

import hmac

from verification.consents.models import Consent
from verification.identifiers import normalised

DIGITS = 4
DATE_OF_BIRTH = "DATE_OF_BIRTH"
ID_NUMBER_END = "ID_NUMBER_END"
REGISTRATION_NUMBER = "REGISTRATION_NUMBER"
# In the record of a consent whose report knows nothing to ask for.
NO_CHALLENGE = "NO_CHALLENGE"


def challenge_of(consent: Consent) -> str | None:
    """DATE_OF_BIRTH, ID_NUMBER_END or REGISTRATION_NUMBER (of a company); None if the
    report knows none of them."""
    return next(iter(_expected(consent)), None)


def is_right(consent: Consent, answer: str) -> bool:
    """Whether the report knows this answer: a date as `1990-01-31`, or a number."""
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
