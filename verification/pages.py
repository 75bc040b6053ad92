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

POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


def page(view: View) -> View:
    """In the reader's language, without anything from elsewhere."""

    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        language = language_of(request)
        with translation.override(language):
            response = view(request, *args, **kwargs)
        response["Content-Language"] = language
        response["Content-Security-Policy"] = POLICY
        patch_vary_headers(response, ["Accept-Language"])
        return response

    return shown


def language_of(request: HttpRequest) -> str:
    """The one chosen on the page (`?lang=sw`), or else the browser's."""
    chosen = request.GET.get("lang")
    if chosen in dict(settings.LANGUAGES):
        return chosen
    return translation.get_language_from_request(request)


@require_safe
@page
def landing(request: HttpRequest) -> HttpResponse:
    return render(request, "landing.html")


@page
def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return render(request, "404.html", status=404)


@page
def server_error(request: HttpRequest) -> HttpResponse:
    return render(request, "500.html", status=500)
