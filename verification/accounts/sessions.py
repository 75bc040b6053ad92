"""Sessions: sealed rows that belong to a user, and the rules of when they end.

A session ends when it is idle, and some hours after its login (sooner for staff). A
change of password, address or second factor ends the user's other sessions. Only staff
whose session has a proven second factor reach the admin.
"""

import base64
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from allauth.account.adapter import get_adapter
from allauth.account.internal.flows.login import (
    get_authentication_records,
    record_authentication,
)
from allauth.mfa.utils import is_mfa_enabled
from cryptography.exceptions import InvalidTag
from django.conf import settings
from django.contrib.auth import SESSION_KEY, logout
from django.contrib.auth.models import User
from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme, urlencode

from verification.accounts import lockout
from verification.accounts.models import Session
from verification.backoffice import audit
from verification.db.encryption import UnknownKey, keyed_hash, seal, unseal
from verification.jobs.queue import job
from verification.values.clock import now
from verification.values.networks import is_within
from verification.web import pages
from verification.web.request import client_address

BEGAN, SEEN = "session.began", "session.seen"
# The page of the identity provider that ends the session there, and the provider's name
PROVIDER_PAGE = "session.provider"
# The type of a second factor that an identity provider has asked for
PROVIDER_FACTOR = "provider"
ADDRESS, BROWSER = "session.address", "session.browser"
# Seconds between two writes of the time of last use.
SEEN_RESOLUTION = 30
# The header of requests that a page makes by itself, at intervals.
REFRESH = "X-Refresh"
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

# Django's page of the admin: the view that replaces it.
REPLACED_PAGES = {
    "login": "account_login",
    "password_change": "account_change_password",
}


class SessionStore(db.SessionStore):
    """Django's database sessions, with a column for the user and sealed data.

    A row has the keyed hash of the key in the cookie, so the rows log nobody in.
    """

    @classmethod
    def get_model_class(cls) -> type[AbstractBaseSession]:
        return Session

    def create_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        row = super().create_model_instance(data)
        row.session_key = row_key(str(row.session_key))
        row.user_id = data.get(SESSION_KEY)  # type: ignore[attr-defined]
        return row

    def load(self) -> dict[str, Any]:
        found = self.model.objects.filter(
            session_key=row_key(self.session_key or ""), expire_date__gt=now()
        )
        if row := found.first():
            return open_data(row)
        self._session_key = None
        return {}

    def exists(self, session_key: str) -> bool:
        return super().exists(row_key(session_key))

    def delete(self, session_key: str | None = None) -> None:
        if key := session_key or self.session_key:
            super().delete(row_key(key))

    def save(self, must_create: bool = False) -> None:
        """Let a lost connection be one: it has ended no session."""
        try:
            super().save(must_create)
        except UpdateError as e:
            if isinstance(e.__context__, OperationalError):
                raise e.__context__ from None
            raise

    def encode(self, session_dict: dict[str, Any]) -> str:
        text = orjson.dumps(session_dict)
        key = row_key(self.session_key or "")
        sealed = seal(text, column="accounts_session", row=key)
        return base64.b64encode(sealed).decode()


def row_key(session_key: str) -> str:
    """Return the keyed hash of the key in a cookie, as long as the column."""
    return keyed_hash("session", session_key).hex()[:40]


def open_data(row: AbstractBaseSession) -> dict[str, Any]:
    """Return the session's data, or an empty dict if it cannot be opened."""
    try:
        sealed = base64.b64decode(row.session_data)
        text = unseal(sealed, column="accounts_session", row=row.session_key)
    except (InvalidTag, UnknownKey, ValueError):
        return {}
    opened: dict[str, Any] = orjson.loads(text)
    return opened


@dataclass(frozen=True, slots=True)
class OpenSession:
    # The key of its row
    name: str
    address: str
    browser: str
    began: datetime
    seen: datetime
    is_this: bool


def begin_session(request: HttpRequest) -> None:
    request.session[BEGAN] = request.session[SEEN] = int(now().timestamp())
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
    sessions, this = [], row_key(str(request.session.session_key))
    for row in _sessions_of(request.user):
        data = open_data(row)
        if not _is_expired(data, is_staff=request.user.is_staff):
            sessions.append(
                OpenSession(
                    name=row.session_key,
                    address=data.get(ADDRESS, ""),
                    browser=data.get(BROWSER, ""),
                    began=datetime.fromtimestamp(data[BEGAN], UTC),
                    seen=datetime.fromtimestamp(data[SEEN], UTC),
                    is_this=row.session_key == this,
                )
            )
    return sorted(sessions, key=lambda s: s.seen, reverse=True)


def end_session(user: Any, name: str) -> bool:
    """End the user's session of this name. Returns whether there is one."""
    ended: int = _sessions_of(user).filter(session_key=name).delete()[0]
    return ended > 0


def end_other_sessions(request: HttpRequest, user: Any) -> int:
    """End all sessions of the user but this one. Returns how many.

    A new address that waits for its confirmation ends with them: a thief may have asked
    for it.
    """
    waiting = user.emailaddress_set.filter(verified=False)
    waiting.exclude(email__iexact=user.email).delete()
    this = row_key(str(request.session.session_key))
    others = user.sessions.exclude(session_key=this)
    ended: int = others.delete()[0]
    return ended


def _sessions_of(user: Any) -> Any:
    return user.sessions.filter(expire_date__gt=now())


def end_or_extend(request: HttpRequest) -> None:
    """End the session if it is idle or old; otherwise note that it is in use.

    A page that refreshes itself, with nobody before it, keeps no session alive.
    """
    if not isinstance(request.user, User):
        return
    if _is_expired(request.session, is_staff=request.user.is_staff):
        logout(request)
        return
    unnoted = int(now().timestamp()) - request.session[SEEN]
    if unnoted > SEEN_RESOLUTION and REFRESH not in request.headers:
        request.session[SEEN] = int(now().timestamp())


def _is_expired(session: Any, *, is_staff: bool) -> bool:
    idle, whole = settings.STAFF_SESSION if is_staff else settings.MEMBER_SESSION
    moment = int(now().timestamp())
    began, seen = session.get(BEGAN, 0), session.get(SEEN, 0)
    return bool(
        moment - began > whole.total_seconds() or moment - seen > idle.total_seconds()
    )


def has_second_factor(request: HttpRequest) -> bool:
    """Return whether a second factor, of the user or the provider, was used here."""
    if not request.user.is_authenticated:
        return False
    used = _used_factors(request, request.user)
    return PROVIDER_FACTOR in used or (bool(used) and is_mfa_enabled(request.user))


def has_provider_factor(request: HttpRequest, user: Any) -> bool:
    """Return whether the provider has asked this user for a second factor."""
    return PROVIDER_FACTOR in _used_factors(request, user)


def note_provider(
    request: HttpRequest, user: Any, *, name: str, url: str, has_factor: bool
) -> None:
    """Note a login by a provider: the page that ends it there, and its factor."""
    if has_factor:
        record_authentication(request, user, "mfa", type=PROVIDER_FACTOR)
    if url:
        request.session[PROVIDER_PAGE] = {"name": name, "url": url}


def second_factor_url(user: Any) -> str:
    """Return the URL of the page that asks for a second factor, or an empty text."""
    if not is_mfa_enabled(user):
        return ""
    methods = get_adapter().get_reauthentication_methods(user)
    return str(methods[0]["url"])


def _used_factors(request: HttpRequest, user: Any) -> set[str]:
    """Return the types of the second factors that were used in this session."""
    records = get_authentication_records(request, user)
    return {str(r.get("type")) for r in records if r.get("method") == "mfa"}


def refuse_admin(request: HttpRequest) -> HttpResponse | None:
    """Answer a request for the admin, or None for staff with a proven second factor."""
    address = client_address(request)
    if not is_within(address, settings.ADMIN_NETWORKS):
        audit.write_security_log("admin-network", "refused", request)
        return pages.wrong_network(request, address)
    match = request.resolver_match
    name = match.url_name if match else None
    if name == "login":
        return _redirect_with_next(reverse("account_login"), _next(request))
    if not request.user.is_authenticated:
        return _redirect_with_next(reverse("account_login"), request.get_full_path())
    if not request.user.is_staff:
        # Members get the answer of a page that does not exist.
        raise Http404
    if not has_second_factor(request):
        proof = second_factor_url(request.user) or reverse("mfa_activate_totp")
        return _redirect_with_next(proof, request.get_full_path())
    if name in REPLACED_PAGES:
        return HttpResponseRedirect(reverse(REPLACED_PAGES[name]))
    return None


def _next(request: HttpRequest) -> str:
    url = request.GET.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(url, allowed_hosts=None)
    return url if is_ours and url.startswith("/") else reverse("admin:index")


def _redirect_with_next(url: str, after: str) -> HttpResponse:
    return HttpResponseRedirect(f"{url}?{urlencode({'next': after})}")


@job
def purge_sessions() -> None:
    """Delete the sessions that have expired."""
    SessionStore.clear_expired()
