"""Limits of requests' bodies, by route and by client.

The gate asks before it reads (`gateway.py`). A key or session counts if the database
knows it: anybody can make up a key with a right checksum. Anybody can sign up, so keys
and subjects of the sandbox, and members before their workspace is live, have a room of
their own. The body of an unknown client has the
limit of a hosted form, even where a known client may send more.
"""

import re
import time
from collections.abc import Callable
from uuid import UUID

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.core.handlers.wsgi import WSGIRequest
from django.db import Error, close_old_connections
from django.db.models import Q
from django.http import HttpRequest
from django.urls.converters import UUIDConverter

from verification.accounts.sessions import SessionStore
from verification.api.provider_callbacks import MAX_CALLBACK_BYTES, MAX_EVENT_BYTES
from verification.consents.models import Consent
from verification.hosted.subject_data import subject_pages
from verification.web.gateway import BodyLimit, Environ, Room
from verification.web.request import bearer_token, client_address, is_api
from workspaces import keys
from workspaces.models import Environment, Workspace
from workspaces.rate_limits import network_of

EVENT_PATH = "/api/v1/webhooks/payment-provider"
CALLBACK_PATHS = "/callbacks/"
HOSTED_PATHS = ("/b/", "/c/", "/my-data", "/p/", "/r/", "/sandbox/checkout/", "/t/")
FIRST_PATHS = (*HOSTED_PATHS, "/v/", CALLBACK_PATHS, EVENT_PATH)
LOGIN_PATH = "/accounts/login/"
USER_PATHS = ("/admin/", "/console/", "/accounts/")
MAX_FORM_BYTES = 64 * 1024
# The one hosted form that takes documents
UPLOAD_PATH = re.compile(
    f"/c/v/({UUIDConverter.regex})/data/wrong/{UUIDConverter.regex}"
)
# A key that the database knows is not looked up again for this long.
KNOWN_SECONDS = 60
MAX_KNOWN = 10_000
# The digest of a known key, and until when it counts.
_known: dict[bytes, float] = {}


def goes_first(path: str) -> bool:
    """Return whether a subject, a payer, a referee or a provider waits for this."""
    return path.startswith(FIRST_PATHS)


def calls_identity_provider(path: str) -> bool:
    """Return whether the path begins or ends a login by an identity provider."""
    return path.startswith(LOGIN_PATH) and path != LOGIN_PATH


def page_limit(path: str) -> int | None:
    """Return the bytes that a form of this page may have, or None for other paths."""
    if path.startswith(USER_PATHS) or UPLOAD_PATH.fullmatch(path):
        return settings.MAX_UPLOAD_BYTES
    return MAX_FORM_BYTES if path.startswith(HOSTED_PATHS) else None


def limit_body(environ: Environ) -> BodyLimit | Callable[[], BodyLimit]:
    """Return the limit, or the function that finds it in the database."""
    # A request changes its environ.
    request = WSGIRequest({**environ})
    path = request.path_info
    if path == EVENT_PATH:
        return BodyLimit(MAX_EVENT_BYTES, Room.PROVIDERS, _network(request))
    if path.startswith(CALLBACK_PATHS):
        return BodyLimit(MAX_CALLBACK_BYTES, Room.PROVIDERS, _network(request))
    if is_api(request):
        return _limit_by_key(request)
    if path.startswith(USER_PATHS) and settings.SESSION_COOKIE_NAME in request.COOKIES:
        return lambda: _ask_database(request, _limit_by_session)
    upload = UPLOAD_PATH.fullmatch(path)
    if upload and subject_pages.cookie.value_of(request, UUID(upload[1])) is not None:
        return lambda: _ask_database(request, lambda _: _limit_of_subject(upload[1]))
    return _stranger(request)


def _limit_by_key(request: HttpRequest) -> BodyLimit | Callable[[], BodyLimit]:
    token = bearer_token(request) or ""
    if not keys.is_well_formed(token):
        return _stranger(request)
    digest = keys.digest(token)
    is_test = token.startswith(keys.PREFIXES[Environment.SANDBOX])
    room = Room.SANDBOX if is_test else Room.KEYS
    known = BodyLimit(settings.MAX_BODY_BYTES, room, digest.hex())
    if _known.get(digest, 0) > time.monotonic():
        return known

    def find_key(request: HttpRequest) -> BodyLimit:
        if keys.find(token) is None:
            return _stranger(request)
        if len(_known) >= MAX_KNOWN:
            _known.clear()
        _known[digest] = time.monotonic() + KNOWN_SECONDS
        return known

    return lambda: _ask_database(request, find_key)


def _limit_by_session(request: HttpRequest) -> BodyLimit:
    key = request.COOKIES[settings.SESSION_COOKIE_NAME]
    user = SessionStore(key).get(SESSION_KEY)
    if not user:
        return _stranger(request)
    live = Q(memberships__workspace__go_live=Workspace.GoLive.APPROVED)
    known = User.objects.filter(live | Q(is_staff=True), pk=user)
    return _person(user, is_known=known.exists())


def _limit_of_subject(row: str) -> BodyLimit:
    real = Consent.objects.filter(pk=row, report__environment=Environment.PRODUCTION)
    return _person(row, is_known=real.exists())


def _person(holder: str, *, is_known: bool) -> BodyLimit:
    room = Room.PEOPLE if is_known else Room.SANDBOX
    return BodyLimit(settings.MAX_UPLOAD_BYTES, room, holder)


def _stranger(request: HttpRequest) -> BodyLimit:
    return BodyLimit(MAX_FORM_BYTES, Room.STRANGERS, _network(request))


def _network(request: HttpRequest) -> str:
    return network_of(str(client_address(request)))


def _ask_database(
    request: HttpRequest, find: Callable[[HttpRequest], BodyLimit]
) -> BodyLimit:
    try:
        return find(request)
    except Error:
        # The database is away, which the view says, or the cookie is no text.
        return _stranger(request)
    finally:
        # Django does so at the end of a request; the thread serves others next.
        close_old_connections()
