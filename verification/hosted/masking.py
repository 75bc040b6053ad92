"""Personal details as pages show them: enough to recognise, not enough to use."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from verification.wire import one_line

DOTS = "••••"


def details_of(subject: dict[str, Any]) -> list[tuple[str, str]]:
    """Label and masked value of what would be looked up; the name stays whole."""
    details = [
        (_("Name"), subject.get("fullName", "")),
        (_("ID number"), _end(subject.get("idNumber", ""))),
        (_("Registration number"), _end(subject.get("registrationNumber", ""))),
        (_("KRA PIN"), _end(subject.get("kraPin", ""))),
        (_("Telephone"), _end(subject.get("phone", ""), 3)),
        (_("E-mail"), _address(subject.get("email", ""))),
    ]
    return [(label, value) for label, value in details if value]


def initials(name: str) -> str:
    """Enough to recognise whom one knows, not to learn a name by."""
    return " ".join(f"{part[:1].upper()}{DOTS}" for part in one_line(name).split())


def _end(value: str, characters: int = 4) -> str:
    if not value:
        return ""
    # Of a short one, never more than half.
    return DOTS + value[-min(characters, len(value) // 2) :]


def _address(value: str) -> str:
    name, at, host = value.partition("@")
    return f"{name[:1]}{DOTS}@{host}" if at else ""
