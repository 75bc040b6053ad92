"""Language, headers, errors of fields and error pages, and the front page."""

import math
from collections.abc import Callable
from datetime import datetime
from email.utils import parseaddr
from functools import wraps
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.cache import patch_vary_headers
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from verification.values.clock import now
from verification.values.networks import Address
from verification.web.request import current_request_id

View = Callable[..., HttpResponse]

ONE_YEAR = 365 * 24 * 3600
RETRY_AFTER_SECONDS = "60"
# Statement timeouts, lock timeouts and deadlocks are OperationalErrors, too.
DATABASE_ERRORS = (OperationalError, InterfaceError)
# The errors of fields of members and of people who log in
REQUIRED_ERROR = {"required": _("Fill this in")}
INVALID_EMAIL = _("Enter an e-mail address, such as name@example.com")


def page(view: View) -> View:
    """Show a view in the reader's language, and remember one chosen on the page."""

    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        language = language_of(request)
        with translation.override(language):
            response = view(request, *args, **kwargs)
        response["Content-Language"] = language
        patch_vary_headers(response, ["Accept-Language", "Cookie"])
        if request.GET.get("lang") == language:
            remember_language(response, language)
        return response

    return shown


def private_page(view: View) -> View:
    """Like `page()`, with `no-store` and `noindex`."""

    @page
    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response = view(request, *args, **kwargs)
        response["Cache-Control"] = "no-store"
        response["X-Robots-Tag"] = "noindex, nofollow"
        return response

    return shown


def language_of(request: HttpRequest) -> str:
    """Return the chosen language (`?lang=sw`, then a cookie), or the browser's."""
    chosen = request.GET.get("lang")
    if chosen in dict(settings.LANGUAGES):
        return chosen
    return translation.get_language_from_request(request)


def remember_language(response: HttpResponse, language: str) -> None:
    response.set_cookie(
        settings.LANGUAGE_COOKIE_NAME,
        language,
        max_age=ONE_YEAR,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def allow_sources(response: HttpResponseBase, **sources: list[str]) -> None:
    """Add sources to this response's policy: `form_action=["https://pay.example"]`."""
    more = {name.replace("_", "-"): these for name, these in sources.items()}
    before = getattr(response, "allowed_sources", {})
    response.allowed_sources = {**before, **more}  # type: ignore[attr-defined]


def attachment(
    content: bytes, name: str, content_type: str = "application/pdf"
) -> HttpResponse:
    """Return a file that the browser saves."""
    return HttpResponse(
        content,
        content_type=content_type,
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def read_id(text: str) -> UUID | None:
    """Return the id that an address names, or None if it names no id."""
    try:
        return UUID(text)
    except ValueError:
        return None


def minutes_until(moment: datetime | None) -> int:
    """Return the minutes until then, rounded up, at least 1; 0 if `moment` is None."""
    if moment is None:
        return 0
    return max(1, math.ceil((moment - now()).total_seconds() / 60))


@require_safe
@page
def landing(request: HttpRequest) -> HttpResponse:
    context = {
        "address": settings.BASE_URL,
        "sender": parseaddr(settings.DEFAULT_FROM_EMAIL)[1],
    }
    return render(request, "landing.html", context)


def operator_context(request: HttpRequest | None = None) -> dict[str, Any]:
    """Return the operator's name, contact and privacy notice for every page."""
    return {
        "operator": settings.OPERATOR_NAME,
        "contact": settings.OPERATOR_CONTACT,
        "privacy_notice": settings.PRIVACY_NOTICE_URL,
    }


def _render_error(name: str, status: int, **context: Any) -> HttpResponse:
    """Render an error page without context processors, and so without queries."""
    return HttpResponse(
        render_to_string(f"{name}.html", operator_context() | context), status=status
    )


@private_page
def bad_request(
    request: HttpRequest, exception: Exception | None = None
) -> HttpResponse:
    return _render_error("400", 400)


@private_page
def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _render_error("403", 403)


@private_page
def wrong_network(request: HttpRequest, address: Address | None) -> HttpResponse:
    """Refuse a page of the admin to a visitor from outside of ADMIN_NETWORKS."""
    return _render_error("403_network", 403, address=address or "?")


@private_page
def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Refuse a form without its cookie, which the browser lost or another site sent."""
    return _render_error("403_csrf", 403)


@private_page
def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _render_error("404", 404)


@private_page
def file_missing(request: HttpRequest) -> HttpResponse:
    return _render_error("404_file", 404)


def raise_not_found(request: HttpRequest) -> HttpResponse:
    raise Http404


@private_page
def server_error(request: HttpRequest) -> HttpResponse:
    return _render_error("500", 500, request_id=current_request_id())


@private_page
def unavailable(request: HttpRequest) -> HttpResponse:
    response = _render_error("503", 503)
    response["Retry-After"] = RETRY_AFTER_SECONDS
    return response


@private_page
def request_refused(request: HttpRequest, status: int) -> HttpResponse:
    """Answer a request that the server refused: too slow, unreadable, or too much."""
    return _render_error("503_overloaded" if status == 503 else "400", status)
