"""Who may sign a consent, and which typed names count as a signature."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from verification.providers.likeness import (
    names_alike,
    person_words,
    spelt,
    without_particles,
)
from verification.reports.models import Report, SubjectType
from verification.wire import NAIROBI

ADULT_AGE = 18
# The likenesses that are enough.
ALIKE = {"MATCH", "PARTIAL_MATCH"}


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

    A person signs with a name like the one in the report. Who decides for a company
    signs with their own name, of two words or more.
    """
    # The matcher reads a star as letters that a register hides.
    if "*" in name:
        return False
    if report.subject_type == SubjectType.COMPANY:
        return len(person_words(name)) > 1
    known = (report.subject or {}).get("fullName") or report.subject_name
    words = without_particles(person_words(known))
    if len(words) > 1:
        return names_alike(known, name) in ALIKE
    # The matcher takes one name in common for nothing, and here no more is known.
    return not words or spelt(words[0]) in map(spelt, person_words(name))
