"""Rate limits of API keys by minute, and the headers that state them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from verification.api import problems
from verification.reports.request import MAX_CHECKS, MAX_REPORTS
from workspaces import rate_limits
from workspaces.models import ApiKey

if TYPE_CHECKING:
    from rest_framework.views import APIView


# A request that orders more checks than this counts as several requests.
CHECKS_PER_REQUEST = 100


class ApiKeyThrottle(BaseThrottle):
    """Counts a request in the bucket that its operation declares."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        if isinstance(request.auth, ApiKey):
            count_request(request, view, request.auth)
        return True


def count_request(request: Request, view: APIView, key: ApiKey) -> None:
    """Count this request against its key, and refuse it when over the limit."""
    rate = _count_in_bucket(request, view, key, 1)
    if rate.exceeded:
        raise rate_limit_problem(rate)


def count_checks(request: Request, view: APIView, reports: object) -> None:
    """Count a request once more for each CHECKS_PER_REQUEST checks beyond the first.

    The request that crosses the limit is served. Otherwise a request that alone counts
    for more than the limit could never succeed.
    """
    items = reports[:MAX_REPORTS] if isinstance(reports, list) else []
    requested = [i.get("checksRequested") for i in items if isinstance(i, dict)]
    lengths = [len(names) for names in requested if isinstance(names, list)]
    checks = sum(min(length, MAX_CHECKS) for length in lengths)
    more = max(checks - 1, 0) // CHECKS_PER_REQUEST
    if more and isinstance(request.auth, ApiKey):
        _count_in_bucket(request, view, request.auth, more)


def _count_in_bucket(
    request: Request, view: APIView, key: ApiKey, by: int
) -> rate_limits.Rate:
    declared = getattr(view, "operation", None)
    bucket = declared.rate_bucket if declared else "rest"
    limit = key.creates_per_minute if bucket == "create" else key.requests_per_minute
    rate = rate_limits.count(f"{bucket}:{key.id}", limit, by)
    # ProblemMiddleware adds these headers to the answer, whatever it is.
    request._request.api_headers = _headers(bucket, rate)  # type: ignore[attr-defined]
    return rate


def rate_limit_problem(rate: rate_limits.Rate) -> problems.Problem:
    return problems.Problem(
        "rate-limited",
        f"More than {rate.limit} requests were made in a minute.",
        headers={"Retry-After": str(rate.resets_in)},
    )


def _headers(bucket: str, rate: rate_limits.Rate) -> dict[str, str]:
    """Headers of draft-ietf-httpapi-ratelimit-headers."""
    return {
        "RateLimit-Policy": f'"{bucket}";q={rate.limit};w={rate_limits.WINDOW_SECONDS}',
        "RateLimit": f'"{bucket}";r={rate.remaining};t={rate.resets_in}',
    }
