"""Requests of a key a minute, counted once each, and told in the response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from verification.api import problems
from workspaces import rates
from workspaces.models import ApiKey

if TYPE_CHECKING:
    from rest_framework.views import APIView


class KeyRate(BaseThrottle):
    """Counts in the bucket of the view's action.

    `rate_buckets` of the view says which actions count as `create`; all others are
    `rest`.
    """

    def allow_request(self, request: Request, view: APIView) -> bool:
        if isinstance(request.auth, ApiKey):
            count(request, view, request.auth)
        return True


def count(request: Request, view: APIView, key: ApiKey) -> None:
    """Count this request against its key, and refuse it when over the limit."""
    buckets = getattr(view, "rate_buckets", {})
    bucket = buckets.get(getattr(view, "action", None), "rest")
    limit = key.creates_per_minute if bucket == "create" else key.requests_per_minute
    rate = rates.count(f"{bucket}:{key.id}", limit)
    # Told by the middleware, in whatever response it comes to.
    request._request.api_headers = _headers(bucket, rate)  # type: ignore[attr-defined]
    if rate.exceeded:
        raise exceeded(rate)


def exceeded(rate: rates.Rate) -> problems.Problem:
    return problems.Problem(
        "rate-limited",
        f"More than {rate.limit} requests were made in a minute.",
        headers={"Retry-After": str(rate.resets_in)},
    )


def _headers(bucket: str, rate: rates.Rate) -> dict[str, str]:
    """As in draft-ietf-httpapi-ratelimit-headers."""
    return {
        "RateLimit-Policy": f'"{bucket}";q={rate.limit};w={rates.WINDOW_SECONDS}',
        "RateLimit": f'"{bucket}";r={rate.remaining};t={rate.resets_in}',
    }
