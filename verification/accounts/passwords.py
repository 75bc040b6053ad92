"""How long a password has to be."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _


class LengthByRole:
    """Staff see everybody's data, so theirs are longer."""

    def __init__(self, members: int = 12, staff: int = 15) -> None:
        self.members, self.staff = members, staff

    def validate(self, password: str, user: Any = None) -> None:
        least = self.staff if getattr(user, "is_staff", False) else self.members
        if len(password) < least:
            told = _("Choose a password of at least %(least)d characters")
            raise ValidationError(told, "password_too_short", {"least": least})

    def get_help_text(self) -> str:
        return _("At least %(members)d characters; for staff %(staff)d.") % {
            "members": self.members,
            "staff": self.staff,
        }
