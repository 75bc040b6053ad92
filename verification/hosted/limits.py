"""Forms that no person fills in are refused before anything reads them."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from verification.hosted.pages import answer, hosted

PATHS = ("/c/", "/r/")
MAX_BYTES = 64 * 1024


class FormSizeMiddleware:
    """Before the middleware that reads the form for its token."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        length = request.META.get("CONTENT_LENGTH") or ""
        is_large = length.isdigit() and int(length) > MAX_BYTES
        if is_large and request.path_info.startswith(PATHS):
            return too_large(request)
        return self.get_response(request)


@hosted
def too_large(request: HttpRequest) -> HttpResponse:
    return answer(request, "too_large", status=413)
