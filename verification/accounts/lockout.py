"""Guessed passwords: an account is locked for the address that guesses, and no other.

So nobody can lock somebody else out. What is counted is kept under a keyed hash of the
e-mail that was typed, as people type passwords there, too.
"""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Any

from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from verification.addresses import client_address
from verification.encryption import keyed_hash
from verification.pages import minutes_until, private


def username(request: HttpRequest, credentials: dict[str, Any] | None) -> str:
    email = typed_account(request, credentials)
    return keyed_hash("login", email.strip().casefold()).hex()


def typed_account(request: HttpRequest, credentials: dict[str, Any] | None) -> str:
    """Return the e-mail of the account that somebody tries to log in to."""
    given = credentials or {}
    email = given.get("email") or request.POST.get("login")
    if not email and (name := given.get("username") or given.get("login")):
        email = User.objects.filter(username=name).values_list("email", flat=True)[:1]
        email = next(iter(email), "")
    return str(email or "")


def address(request: HttpRequest) -> str | None:
    """An IPv4 address, or the first of the /64 that whoever has IPv6 is given."""
    found = client_address(request)
    if isinstance(found, IPv6Address):
        return str(IPv6Address(found.packed[:8] + bytes(8)))
    return str(found) if found else None


@private
def locked(
    request: HttpRequest, credentials: dict[str, Any] | None = None
) -> HttpResponse:
    """That it is locked, and for how long."""
    attempt = (
        AccessAttempt.objects.filter(
            username=username(request, credentials), ip_address=address(request)
        )
        .order_by("-attempt_time")
        .first()
    )
    until = attempt.attempt_time + settings.AXES_COOLOFF_TIME if attempt else None
    return render(
        request, "account/locked.html", {"minutes": minutes_until(until)}, status=429
    )
