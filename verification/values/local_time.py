"""Times as people read them: Nairobi's, labelled EAT. The API tells UTC.

Patterns are those of Django's `date` filter; `T` is the label.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.dateformat import format as formatted
from django.utils.timezone import override

from verification.values.wire import NAIROBI

# Of a receipt.
FULL_FORMAT = "j F Y, H:i:s T"

GetResponse = Callable[[HttpRequest], HttpResponse]


class LocalTimeMiddleware:
    """Pages are in Nairobi's time; what the API answers stays in UTC."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith("/api/"):
            return self.get_response(request)
        with override(NAIROBI):
            return self.get_response(request)


def format_nairobi(moment: datetime, pattern: str = "") -> str:
    """`21 Nov 2026, 11:15 EAT`, in the language of the moment."""
    pattern = pattern or settings.SHORT_DATETIME_FORMAT
    return formatted(moment.astimezone(NAIROBI), pattern)
