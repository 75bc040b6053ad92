"""Sessions: sealed rows that belong to a user, and the rules of when they end.

A session ends when it is idle, and some hours after its login (sooner for staff). A
change of password, address or second factor ends the user's other sessions.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from cryptography.exceptions import InvalidTag
from django.conf import settings
from django.contrib.auth import SESSION_KEY, logout
from django.contrib.auth.models import User
from django.contrib.sessions.backends import db
from django.contrib.sessions.base_session import AbstractBaseSession
from django.http import HttpRequest, HttpResponse
from django.utils.timezone import now

from verification.accounts import lockout
from verification.db.encryption import UnknownKey, keyed_hash, seal, unseal
from verification.jobs.queue import job

BEGAN, SEEN = "session.began", "session.seen"
ADDRESS, BROWSER = "session.address", "session.browser"
# Seconds between two writes of the time of last use.
SEEN_RESOLUTION = 30
# The browser clears these when a session ends. Cookies stay, such as the language.
CLEAR_SITE_DATA = '"cache", "storage"'
# Part of the User-Agent header: browser. The first match counts.
BROWSERS = {
    "Edg": "Edge",
    "OPR/": "Opera",
    "SamsungBrowser": "Samsung Internet",
    "Firefox": "Firefox",
    "FxiOS": "Firefox",
    "CriOS": "Chrome",
    "Chrome": "Chrome",
    "Safari": "Safari",
}
SYSTEMS = {
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Windows": "Windows",
    "CrOS": "ChromeOS",
    "Mac OS": "macOS",
    "Linux": "Linux",
}

GetResponse = Callable[[HttpRequest], HttpResponse]


class SessionStore(db.SessionStore):
    """Django's database sessions, with a column for the user and sealed data."""

    @classmethod
    def get_model_class(cls) -> type[AbstractBaseSession]:
        from verification.accounts.models import Session

        return Session

    def create_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        row = super().create_model_instance(data)
        row.user_id = data.get(SESSION_KEY)  # type: ignore[attr-defined]
        return row

    def encode(self, session_dict: dict[str, Any]) -> str:
        text = orjson.dumps(session_dict)
        sealed = seal(text, column="accounts_session", row=self.session_key)
        return base64.b64encode(sealed).decode()

    def decode(self, session_data: str | bytes) -> dict[str, Any]:
        """Return the session's data, or an empty dict if it cannot be opened."""
        try:
            sealed = base64.b64decode(session_data)
            text = unseal(sealed, column="accounts_session", row=self.session_key)
        except (InvalidTag, UnknownKey, ValueError):
            return {}
        opened: dict[str, Any] = orjson.loads(text)
        return opened


@dataclass(frozen=True, slots=True)
class OpenSession:
    # A keyed hash: the key itself would log in.
    name: str
    address: str
    browser: str
    began: datetime
    seen: datetime
    is_this: bool


def begin_session(request: HttpRequest) -> None:
    request.session[BEGAN] = request.session[SEEN] = int(time.time())
    request.session[ADDRESS] = lockout.client_network(request) or ""
    request.session[BROWSER] = browser_name(request)


def browser_name(request: HttpRequest) -> str:
    """Return browser and system, such as "Chrome, Android", as far as known."""
    agent = request.headers.get("User-Agent", "")
    known = (
        (n for k, n in names.items() if k in agent) for names in (BROWSERS, SYSTEMS)
    )
    return ", ".join(filter(None, (next(names, "") for names in known)))


def open_sessions(request: HttpRequest) -> list[OpenSession]:
    """Return the user's open sessions, the last used first."""
    sessions = []
    for row in _sessions_of(request.user):
        store = SessionStore(row.session_key)
        data = store.decode(row.session_data)
        if not _is_expired(data, is_staff=request.user.is_staff):
            sessions.append(
                OpenSession(
                    name=session_name(row.session_key),
                    address=data.get(ADDRESS, ""),
                    browser=data.get(BROWSER, ""),
                    began=datetime.fromtimestamp(data[BEGAN], UTC),
                    seen=datetime.fromtimestamp(data[SEEN], UTC),
                    is_this=row.session_key == request.session.session_key,
                )
            )
    return sorted(sessions, key=lambda s: s.seen, reverse=True)


def end_session(user: Any, name: str) -> bool:
    """End the user's session of this name. Returns whether there is one."""
    for row in _sessions_of(user):
        if session_name(row.session_key) == name:
            row.delete()
            return True
    return False


def end_other_sessions(request: HttpRequest, user: Any) -> int:
    """End all sessions of the user but this one. Returns how many."""
    others = user.sessions.exclude(session_key=request.session.session_key)
    ended: int = others.delete()[0]
    return ended


def session_name(session_key: str) -> str:
    return keyed_hash("session", session_key).hex()[:32]


def _sessions_of(user: Any) -> Any:
    return user.sessions.filter(expire_date__gt=now())


class SessionLimitsMiddleware:
    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        # Other pages and the API need no login, so they cost no query here.
        if not (
            settings.SESSION_COOKIE_NAME in request.COOKIES and _needs_session(request)
        ):
            return self.get_response(request)
        was_logged_in = request.user.is_authenticated
        _end_or_extend(request)
        response = self.get_response(request)
        if was_logged_in and not request.user.is_authenticated:
            response["Clear-Site-Data"] = CLEAR_SITE_DATA
        return response


def _needs_session(request: HttpRequest) -> bool:
    return request.path_info.startswith(("/admin/", "/console/", "/accounts/"))


def _end_or_extend(request: HttpRequest) -> None:
    if not isinstance(request.user, User):
        return
    if _is_expired(request.session, is_staff=request.user.is_staff):
        logout(request)
    elif int(time.time()) - request.session[SEEN] > SEEN_RESOLUTION:
        request.session[SEEN] = int(time.time())


def _is_expired(session: Any, *, is_staff: bool) -> bool:
    idle, whole = settings.STAFF_SESSION if is_staff else settings.MEMBER_SESSION
    moment = int(time.time())
    began, seen = session.get(BEGAN, 0), session.get(SEEN, 0)
    return bool(
        moment - began > whole.total_seconds() or moment - seen > idle.total_seconds()
    )


@job
def purge_sessions() -> None:
    """Delete the sessions that have expired."""
    SessionStore.clear_expired()
