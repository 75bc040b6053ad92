"""The Content-Security-Policy of every answer."""

from __future__ import annotations

from csp.middleware import CSPMiddleware, PolicyParts
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase


def allow(response: HttpResponseBase, **sources: list[str]) -> None:
    """Allow more sources for this response: `form_action=["https://pay.example"]`."""
    more = {name.replace("_", "-"): these for name, these in sources.items()}
    before = getattr(response, "_csp_update", {})
    response._csp_update = {**before, **more}  # type: ignore[attr-defined]


class PolicyMiddleware(CSPMiddleware):
    """Send the strict policy of the settings, and the admin's own on its pages."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        # The library builds the policy before it looks at the exclusions.
        excluded = settings.CONTENT_SECURITY_POLICY["EXCLUDE_URL_PREFIXES"]
        if request.path_info.startswith(tuple(excluded)):
            return response
        return super().process_response(request, response)

    def get_policy_parts(
        self,
        request: HttpRequest,
        response: HttpResponseBase,
        report_only: bool = False,
    ) -> PolicyParts:
        parts = super().get_policy_parts(request, response, report_only)
        if request.path_info.startswith("/admin/") and not report_only:
            parts.replace = {**settings.ADMIN_POLICY, **(parts.replace or {})}
        return parts
