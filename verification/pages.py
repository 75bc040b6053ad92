"""What the pages for people share: language, headers, and the smallest of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import translation
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

View = Callable[..., HttpResponse]

ONE_YEAR = 365 * 24 * 3600


def page(view: View) -> View:
    """In the reader's language; one chosen on the page is remembered."""

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


def private(view: View) -> View:
    """The same, kept by nobody and found by nobody."""

    @page
    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response = view(request, *args, **kwargs)
        response["Cache-Control"] = "no-store"
        response["X-Robots-Tag"] = "noindex, nofollow"
        return response

    return shown


def language_of(request: HttpRequest) -> str:
    """The one chosen on a page (`?lang=sw`, then a cookie), or else the browser's."""
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


@require_safe
@page
def landing(request: HttpRequest) -> HttpResponse:
    return render(request, "landing.html")


@private
def bad_request(
    request: HttpRequest, exception: Exception | None = None
) -> HttpResponse:
    return render(request, "400.html", status=400)


@private
def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return render(request, "404.html", status=404)


@private
def server_error(request: HttpRequest) -> HttpResponse:
    return render(request, "500.html", status=500)


@private
def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without its cookie: the browser keeps none, or another site sent it."""
    return render(request, "403_csrf.html", status=403)
