"""What Django's own error page may show while DEBUG is on."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.views.debug import SafeExceptionReporterFilter


class ReporterFilter(SafeExceptionReporterFilter):
    """Leaves out the settings and the environment, and of the request all secrets."""

    def get_safe_settings(self) -> dict[str, Any]:
        return {}

    def get_safe_request_meta(self, request: HttpRequest) -> dict[str, Any]:
        meta = super().get_safe_request_meta(request)
        named = ("HTTP_", "REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "CONTENT_")
        return {name: value for name, value in meta.items() if name.startswith(named)}
