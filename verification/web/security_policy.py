"""The Content-Security-Policy of every answer."""

from __future__ import annotations

from csp.middleware import CSPMiddleware, PolicyParts
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase


def allow(response: HttpResponseBase, **sources: list[str]) -> None:
    """Let this answer have more: `form_action=["https://pay.example"]`."""
    more = {name.replace("_", "-"): these for name, these in sources.items()}
    before = getattr(response, "_csp_update", {})
    response._csp_update = {**before, **more}  # type: ignore[attr-defined]


class PolicyMiddleware(CSPMiddleware):
    """The strict one of the settings; for the admin, with what its files need."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        # The library makes the policy before it asks whether it is wanted.
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
