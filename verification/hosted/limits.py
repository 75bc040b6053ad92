"""Forms that no person fills in are refused before anything reads them."""

from __future__ import annotations

from collections.abc import Callable

from django.core.exceptions import BadRequest, SuspiciousOperation
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.http.multipartparser import MultiPartParserError

from verification.hosted.pages import answer, hosted

PATHS = ("/b/", "/c/", "/p/", "/r/", "/sandbox/checkout/", "/t/")
MAX_BYTES = 64 * 1024


class FormMiddleware:
    """Before the middleware that reads the form for its token."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path_info.startswith(PATHS):
            return self.get_response(request)
        return _refused(request) or self.get_response(request)


def _refused(request: HttpRequest) -> HttpResponse | None:
    length = request.META.get("CONTENT_LENGTH") or ""
    if length.isdigit() and int(length) > MAX_BYTES:
        return too_large(request)
    try:
        # Where it is first asked for, an error would be answered without a page.
        _ = request.POST
    except (MultiPartParserError, BadRequest):
        return unreadable(request)
    except SuspiciousOperation:
        # More fields than any form of ours has.
        return too_large(request)
    except UnreadablePostError:
        # Nobody waits for the answer; without its token the form is refused.
        pass
    return None


@hosted
def too_large(request: HttpRequest) -> HttpResponse:
    return answer(request, "too_large", status=413)


@hosted
def unreadable(request: HttpRequest) -> HttpResponse:
    return answer(request, "unreadable", status=400)
