"""Limits on guessed passwords: a lock for one network, and a pause for an account.

django-axes locks an account only for the network that guesses. Guesses from many
networks slow the account down for browsers in which its owner never logged in: more
wrong passwords in an hour mean a longer pause, which these browsers share. A guesser
cannot lock the owner out: the owner's browsers have no pause, and the link for a new
password makes another browser known. Counts are stored under a keyed hash of the typed
e-mail, because people type passwords into that field, too.

Wrong codes of the second factor slow all further codes down, as their guesser knows the
password already: each one doubles the pause of unknown browsers, or of known ones.

A signed cookie marks browsers in which a person has logged in before; OWASP calls it a
device cookie. It names accounts by a keyed hash of their address. A login in such a
browser sends no mail.
"""

import math
from datetime import timedelta
from ipaddress import IPv6Address
from typing import Any

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.models import User
from django.core import signing
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import CharField, Max, QuerySet, Sum, Value
from django.db.models.functions import Cast, Concat
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.translation import gettext as _

from verification.accounts.models import WrongCodes
from verification.backoffice import audit
from verification.db.encryption import keyed_hash
from verification.values.clock import now
from verification.web.pages import minutes_until, private_page
from verification.web.request import client_address
from workspaces import rate_limits

# Wrong passwords for one account, from all networks, before a pause begins.
FREE_FAILURES, COUNTED_PERIOD = 10, timedelta(hours=1)
# The path of attempts whose lock has ended
ENDED = "ended"
# Seconds. `rate_limits` keeps its counts for five minutes.
MAX_PAUSE = 240
# Wrong codes before a pause begins, and the time without one that ends their series
FREE_CODES, QUIET_TIME = 5, timedelta(days=1)
MAX_CODE_PAUSE = timedelta(hours=1)
DEVICE_SALT = "device"
DEVICE_COOKIE_LIFETIME = timedelta(days=365)
# Accounts that one browser remembers; the least recent one is dropped.
MAX_ACCOUNTS = 5


class AttemptHandler(AxesDatabaseHandler):
    """Keeps the wrong passwords of locks that have ended, as a pause counts them."""

    def clean_expired_user_attempts(
        self,
        request: HttpRequest | None = None,
        credentials: dict[str, Any] | None = None,
    ) -> int:
        rows, ended = AccessAttempt.objects.all(), get_cool_off_threshold(request)
        counted = min(ended, now() - COUNTED_PERIOD)
        deleted: int = rows.filter(attempt_time__lte=counted).delete()[0]
        # Under another name, so that the client's next failure begins a new row.
        old = rows.filter(attempt_time__lte=ended).exclude(path_info=ENDED)
        name = Concat(Value(f"{ENDED} "), Cast("pk", CharField()))
        old.update(user_agent=name, path_info=ENDED)
        return deleted


def hashed_username(request: HttpRequest, credentials: dict[str, Any] | None) -> str:
    email = typed_email(request, credentials)
    return keyed_hash("login", email.strip().casefold()).hex()


def typed_email(request: HttpRequest, credentials: dict[str, Any] | None) -> str:
    """Return the e-mail address of a login attempt, or an empty text."""
    given = credentials or {}
    email = given.get("email") or request.POST.get("login")
    if not email and (name := given.get("username") or given.get("login")):
        email = User.objects.filter(username=name).values_list("email", flat=True)[:1]
        email = next(iter(email), "")
    return str(email or "")


def client_network(request: HttpRequest) -> str | None:
    """Return the client's IPv4 address, or the first address of its IPv6 /64."""
    address = client_address(request)
    if isinstance(address, IPv6Address):
        return str(IPv6Address(address.packed[:8] + bytes(8)))
    return str(address) if address else None


@transaction.atomic
def count_code(request: HttpRequest, user: User) -> int:
    """Count a code before it is checked; return the codes of its series.

    Concurrent codes count one after another. Raises ValidationError during a pause.
    """
    moment, series = now(), _series_of(request, user)
    # The lock of the user's row also covers a series without a row.
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    found = series.first()
    if found is None or found.last_at + QUIET_TIME < moment:
        count = 1
    else:
        count = found.count + 1
        wait = found.last_at + _code_pause(found.count) - moment
        if wait > timedelta(0):
            minutes = math.ceil(wait / timedelta(minutes=1))
            message = _("Too many wrong codes. Try again in %(minutes)s min")
            raise ValidationError(message % {"minutes": minutes}, "slowed")
    WrongCodes.objects.update_or_create(
        user=user,
        in_known_browser=is_known_browser(request, user.email),
        defaults={"count": count, "last_at": moment},
    )
    return count


def end_code_series(request: HttpRequest, user: User) -> None:
    """Forget the wrong codes of browsers like this one, after a right code."""
    _series_of(request, user).delete()


def _series_of(request: HttpRequest, user: User) -> QuerySet[WrongCodes]:
    known = is_known_browser(request, user.email)
    return WrongCodes.objects.filter(user=user, in_known_browser=known)


def _code_pause(count: int) -> timedelta:
    """Return the pause after this number of wrong codes: 1, 2, 4 ... 60 minutes."""
    if count < FREE_CODES:
        return timedelta(0)
    return min(timedelta(minutes=2 ** min(count - FREE_CODES, 6)), MAX_CODE_PAUSE)


def refuse_during_pause(request: HttpRequest, email: str) -> None:
    """Raise ValidationError while the account has a pause and this browser is new."""
    if request.user.is_authenticated or is_known_browser(request, email):
        return
    account = hashed_username(request, {"email": email})
    recent = AccessAttempt.objects.filter(
        username=account, attempt_time__gt=now() - COUNTED_PERIOD
    )
    failures = recent.aggregate(
        wrong=Sum("failures_since_start"), last=Max("attempt_time")
    )
    wrong = failures["wrong"] or 0
    if wrong < FREE_FAILURES:
        return
    pause = min(2 ** min(wrong - FREE_FAILURES + 1, 8), MAX_PAUSE)
    moment, last = int(now().timestamp()), int(failures["last"].timestamp())
    turn = (moment - last) // pause
    if turn and rate_limits.claim_once(f"password:{account}", last + turn * pause):
        return
    audit.write_security_log(
        "login", "slowed", request, account=audit.account_hash(email)
    )
    message = _(
        "Many wrong passwords were tried here. Try again in %(seconds)s seconds, use a browser that you have logged in with before, or ask for a new password"  # noqa: E501
    )
    seconds = last + (turn + 1) * pause - moment
    raise ValidationError(message % {"seconds": seconds}, "slowed")


@private_page
def locked_response(
    request: HttpRequest, credentials: dict[str, Any] | None = None
) -> HttpResponse:
    """Answer 429 with the time until the lock ends; django-axes calls it."""
    attempt = (
        AccessAttempt.objects.filter(
            username=hashed_username(request, credentials),
            ip_address=client_network(request),
        )
        .order_by("-attempt_time")
        .first()
    )
    until = attempt.attempt_time + settings.AXES_COOLOFF_TIME if attempt else None
    return render(
        request, "account/locked.html", {"minutes": minutes_until(until)}, status=429
    )


def is_known_browser(request: HttpRequest, email: str) -> bool:
    return _account_hash(email) in _read_cookie(request)


def remember_browser(request: HttpRequest, email: str) -> None:
    """Add the account to the cookie, which `set_cookie` writes to the response."""
    names = [_account_hash(email), *_read_cookie(request)]
    request.device_names = list(dict.fromkeys(names))[:MAX_ACCOUNTS]  # type: ignore[attr-defined]


def set_device_cookie(request: HttpRequest, response: HttpResponseBase) -> None:
    names = getattr(request, "device_names", None)
    if names is None:
        return
    response.set_cookie(
        settings.DEVICE_COOKIE_NAME,
        signing.dumps(names, salt=DEVICE_SALT),
        max_age=DEVICE_COOKIE_LIFETIME,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _read_cookie(request: HttpRequest) -> list[str]:
    cookie = request.COOKIES.get(settings.DEVICE_COOKIE_NAME, "")
    try:
        return [
            str(name)
            for name in signing.loads(
                cookie, salt=DEVICE_SALT, max_age=DEVICE_COOKIE_LIFETIME
            )
        ]
    except signing.BadSignature:
        return []


def _account_hash(email: str) -> str:
    return keyed_hash("device", email.strip().casefold()).hex()[:32]
