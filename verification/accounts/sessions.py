"""How long a session lives: idle, and from its login, shorter for staff."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.conf import settings
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse

BEGAN, SEEN = "session.began", "session.seen"
# So that not every page writes the session.
RESOLUTION = 30

GetResponse = Callable[[HttpRequest], HttpResponse]


def begin(request: HttpRequest) -> None:
    request.session[BEGAN] = request.session[SEEN] = int(time.time())


class SessionLimitsMiddleware:
    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        # Pages and the API that need no login do not read the session for this.
        if settings.SESSION_COOKIE_NAME in request.COOKIES and _counts(request):
            _end_or_go_on(request)
        return self.get_response(request)


def _counts(request: HttpRequest) -> bool:
    return request.path_info.startswith(("/admin/", "/console/", "/accounts/"))


def _end_or_go_on(request: HttpRequest) -> None:
    if not request.user.is_authenticated:
        return
    is_staff = request.user.is_staff
    idle, whole = settings.STAFF_SESSION if is_staff else settings.MEMBER_SESSION
    moment = int(time.time())
    began, seen = request.session.get(BEGAN, 0), request.session.get(SEEN, 0)
    if moment - began > whole.total_seconds() or moment - seen > idle.total_seconds():
        logout(request)
    elif moment - seen > RESOLUTION:
        request.session[SEEN] = moment
