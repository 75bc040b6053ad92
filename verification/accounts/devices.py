"""Browsers in which a person has logged in before, known by a signed cookie.

Such a browser is not slowed when others guess the account's password
(`verification.accounts.lockout`), and its logins send no mail. OWASP calls these
device cookies. The cookie names accounts by a keyed hash of their address.
"""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.core import signing
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from verification.db.encryption import keyed_hash

SALT = "device"
COOKIE_LIFETIME = timedelta(days=365)
# Accounts that one browser remembers; the least recent one is dropped.
MAX_ACCOUNTS = 5


def is_known(request: HttpRequest, email: str) -> bool:
    return _account_hash(email) in _read_cookie(request)


def remember(request: HttpRequest, email: str) -> None:
    """Add the account to the cookie, which `set_cookie` writes to the response."""
    names = [_account_hash(email), *_read_cookie(request)]
    request.device_names = list(dict.fromkeys(names))[:MAX_ACCOUNTS]  # type: ignore[attr-defined]


def set_cookie(request: HttpRequest, response: HttpResponseBase) -> None:
    names = getattr(request, "device_names", None)
    if names is None:
        return
    response.set_cookie(
        settings.DEVICE_COOKIE_NAME,
        signing.dumps(names, salt=SALT),
        max_age=COOKIE_LIFETIME,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _read_cookie(request: HttpRequest) -> list[str]:
    cookie = request.COOKIES.get(settings.DEVICE_COOKIE_NAME, "")
    try:
        return [
            str(name)
            for name in signing.loads(cookie, salt=SALT, max_age=COOKIE_LIFETIME)
        ]
    except signing.BadSignature:
        return []


def _account_hash(email: str) -> str:
    return keyed_hash("device", email.strip().casefold()).hex()[:32]
