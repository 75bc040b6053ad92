"""Bodies without a length, which Django takes for none at all."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from verification.api.problems import Problem
from verification.pages import is_api


def accept_chunks(request: HttpRequest) -> None:
    """Let a chunked body be read, by whoever reads it, as far as is allowed.

    Nothing is read here: who has no key is not waited for.
    """
    coding = request.META.get("HTTP_TRANSFER_ENCODING")
    if coding is None:
        return
    if coding.strip().lower() != "chunked":
        raise Problem("unsupported-media-type", "The body must not be compressed.")
    if request.META.get("CONTENT_LENGTH"):
        raise Problem("malformed-body", "A chunked body has no Content-Length.")
    # The most it can be; the parser reads one byte more and refuses that.
    request.META["CONTENT_LENGTH"] = str(settings.MAX_BODY_BYTES)
    request._stream = request.META["wsgi.input"]


class ChunkedBodyMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if is_api(request):
            try:
                accept_chunks(request)
            except Problem as problem:
                return problem.response(request)
        return self.get_response(request)
