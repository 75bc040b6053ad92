"""Times as people read them: in Nairobi's time, labelled EAT. The API uses UTC.

Patterns are those of Django's `date` filter, where `T` is the label.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.dateformat import format as formatted
from django.utils.timezone import override

from verification.values.wire import NAIROBI

# The format of times in receipts
FULL_FORMAT = "j F Y, H:i:s T"

GetResponse = Callable[[HttpRequest], HttpResponse]


class LocalTimeMiddleware:
    """Show times in Nairobi's time on all pages; the API stays in UTC."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith("/api/"):
            return self.get_response(request)
        with override(NAIROBI):
            return self.get_response(request)


def format_nairobi(moment: datetime, pattern: str = "") -> str:
    """Format like `21 Nov 2026, 11:15 EAT`, in the active language."""
    pattern = pattern or settings.SHORT_DATETIME_FORMAT
    return formatted(moment.astimezone(NAIROBI), pattern)
