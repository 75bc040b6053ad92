"""Who of the staff asks for something, and who decides about it."""

from __future__ import annotations

from typing import NamedTuple

from django.http import HttpRequest


class Staff(NamedTuple):
    """A name can be changed, the id of a user cannot."""

    user: int | None
    name: str


SERVICE = Staff(None, "service")


def staff_of(request: HttpRequest) -> Staff:
    return Staff(request.user.pk, f"staff {request.user.get_username()}"[:100])


def is_another(by: Staff, asked_by_user: int | None) -> bool:
    """Whether this is a second person, whatever either is called by now."""
    return by.user is not None and by.user != asked_by_user
