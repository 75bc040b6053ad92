"""How every answer is protected on its way: HTTPS, and its Content-Security-Policy."""

from __future__ import annotations

from csp.middleware import CSPMiddleware, PolicyParts
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.security import SecurityMiddleware

from verification.api.problems import Problem
from verification.pages import is_api


def allow(response: HttpResponseBase, **sources: list[str]) -> None:
    """Let this answer have more: `form_action=["https://pay.example"]`."""
    more = {name.replace("_", "-"): these for name, these in sources.items()}
    before = getattr(response, "_csp_update", {})
    response._csp_update = {**before, **more}  # type: ignore[attr-defined]


class TransportMiddleware(SecurityMiddleware):
    """Leads pages to HTTPS and refuses the API without it.

    A client that was led would go on sending its key in the clear, and not know."""

    def process_request(self, request: HttpRequest) -> HttpResponseBase | None:  # type: ignore[override]
        redirect = super().process_request(request)
        if redirect is not None and is_api(request):
            return Problem("https-required").response(request)
        return redirect


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
