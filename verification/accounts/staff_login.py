"""Access to the admin: the login that members use, plus a second factor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allauth.account.adapter import get_adapter
from allauth.account.internal.flows.login import get_authentication_records
from allauth.mfa.utils import is_mfa_enabled
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme, urlencode

# Django's page of the admin: the view that replaces it.
REPLACED_PAGES = {
    "login": "account_login",
    "password_change": "account_change_password",
}

GetResponse = Callable[[HttpRequest], HttpResponse]


def has_second_factor(request: HttpRequest) -> bool:
    """Return whether the user has a second factor and used it in this session."""
    if not (request.user.is_authenticated and is_mfa_enabled(request.user)):
        return False
    return _has_proved_factor(request)


def second_factor_url(user: Any) -> str:
    """Return the URL of the page that asks for a second factor, or an empty text."""
    if not is_mfa_enabled(user):
        return ""
    methods = get_adapter().get_reauthentication_methods(user)
    return str(methods[0]["url"])


def _has_proved_factor(request: HttpRequest) -> bool:
    """Return whether a code or passkey was used in this session."""
    records = get_authentication_records(request, request.user)
    return any(record.get("method") == "mfa" for record in records)


class StaffMiddleware:
    """Let only staff with a proven second factor reach views of the admin."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if _is_admin(request):
            response["Cache-Control"] = "no-store"
        return response

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: Any
    ) -> HttpResponse | None:
        if not _is_admin(request):
            return None
        match = request.resolver_match
        name = match.url_name if match else None
        if name == "login":
            return _redirect_to_view("account_login", _next(request))
        if not request.user.is_authenticated:
            return _redirect_to_view("account_login", request.get_full_path())
        if not request.user.is_staff:
            # Members get the answer of a page that does not exist.
            raise Http404
        if not is_mfa_enabled(request.user):
            return _redirect_to_view("mfa_activate_totp", request.get_full_path())
        if not _has_proved_factor(request):
            return _redirect_with_next(
                second_factor_url(request.user), request.get_full_path()
            )
        if name in REPLACED_PAGES:
            return HttpResponseRedirect(reverse(REPLACED_PAGES[name]))
        return None


def _is_admin(request: HttpRequest) -> bool:
    match = request.resolver_match
    return bool(match and "admin" in match.app_names)


def _next(request: HttpRequest) -> str:
    url = request.GET.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(url, allowed_hosts=None)
    return url if is_ours and url.startswith("/") else reverse("admin:index")


def _redirect_to_view(name: str, after: str) -> HttpResponse:
    return _redirect_with_next(reverse(name), after)


def _redirect_with_next(url: str, after: str) -> HttpResponse:
    return HttpResponseRedirect(f"{url}?{urlencode({'next': after})}")
