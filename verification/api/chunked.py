from __future__ import annotations

from io import BytesIO

from django.conf import settings
from django.http import HttpRequest


def receive_chunks(request: HttpRequest) -> None:
    """Give a chunked body its length; Django takes one without for empty."""
    if request.META.get("CONTENT_LENGTH"):
        return
    if request.META.get("HTTP_TRANSFER_ENCODING", "").lower() != "chunked":
        return
    # One byte more than is allowed is enough for the parser to refuse it.
    body = request.META["wsgi.input"].read(settings.MAX_BODY_BYTES + 1)
    request.META["CONTENT_LENGTH"] = str(len(body))
    request._stream = BytesIO(body)
