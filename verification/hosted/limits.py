"""Forms that no person fills in are refused before anything reads them."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

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
    if "HTTP_TRANSFER_ENCODING" in request.META and not _take_chunks(request):
        return too_large(request)
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


def _take_chunks(request: HttpRequest) -> bool:
    """Have a body without a length read like any other; False if it is too large.

    No browser sends one. Django takes it for none at all, and the token for missing.
    """
    body = request.META["wsgi.input"].read(MAX_BYTES + 1)
    request.META["CONTENT_LENGTH"] = str(len(body))
    request._stream = BytesIO(body)
    return len(body) <= MAX_BYTES


@hosted
def too_large(request: HttpRequest) -> HttpResponse:
    return answer(request, "too_large", status=413)


@hosted
def unreadable(request: HttpRequest) -> HttpResponse:
    return answer(request, "unreadable", status=400)
