"""Personal details as hosted pages show them."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from verification.masking import DOTS, address, end
from verification.wire import one_line


def details_of(subject: dict[str, Any]) -> list[tuple[str, str]]:
    """Label and masked value of what would be looked up, and of who would be asked;
    names stay whole."""
    referee = (subject.get("refereeName"), address(subject.get("refereeEmail", "")))
    details = [
        (_("Name"), subject.get("fullName", "")),
        (_("ID number"), end(subject.get("idNumber", ""))),
        (_("Registration number"), end(subject.get("registrationNumber", ""))),
        (_("KRA PIN"), end(subject.get("kraPin", ""))),
        (_("Telephone"), end(subject.get("phone", ""), 3)),
        (_("E-mail"), address(subject.get("email", ""))),
        (_("Employer"), subject.get("employerName", "")),
        (_("Referee"), ", ".join(filter(None, referee))),
    ]
    return [(label, value) for label, value in details if value]


def initials(name: str) -> str:
    """Enough to recognise whom one knows, not to learn a name by."""
    return " ".join(f"{part[:1].upper()}{DOTS}" for part in one_line(name).split())
