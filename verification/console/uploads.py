"""Bodies that no form of ours has are refused before anything reads them."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from verification.pages import private

PATHS = ("/console/", "/accounts/", "/admin/")


class UploadMiddleware:
    """Before the middleware that reads the form for its token."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        length = request.META.get("CONTENT_LENGTH") or ""
        is_large = length.isdigit() and int(length) > settings.MAX_UPLOAD_BYTES
        if is_large and request.path_info.startswith(PATHS):
            return too_large(request)
        return self.get_response(request)


@private
def too_large(request: HttpRequest) -> HttpResponse:
    return render(request, "console/too_large.html", status=413)
