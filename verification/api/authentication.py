"""Authentication by API key: its scopes, and its rate limits by minute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django.conf import settings
from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from verification.api.problems import Problem, rate_limited
from verification.backoffice import audit
from verification.checks.packages import Packages
from verification.payments.alerts import count_refused_access
from verification.reports.request import MAX_CHECKS, MAX_REPORTS
from verification.values.networks import Address, is_within
from verification.web.request import (
    API_HEADERS,
    API_KEY,
    bearer_token,
    client_address,
)
from workspaces import keys, rate_limits
from workspaces.models import ApiKey, Client, Environment, Workspace

if TYPE_CHECKING:
    from rest_framework.views import APIView


INVALID_TOKEN = {"WWW-Authenticate": 'Bearer error="invalid_token"'}


class ApiKeyBearer(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[Workspace, ApiKey]:
        token = bearer_token(request)
        if token is None:
            raise Problem(
                "authentication-required",
                _missing_token_detail(request.headers.get("Authorization", "")),
                headers={"WWW-Authenticate": "Bearer"},
            )
        key = keys.find_issued(token)
        # The workspace sees in its console that an ended key is still in use.
        request.META[API_KEY] = key
        if key is None or not key.is_usable:
            _count_failure(request)
            raise Problem("invalid-api-key", headers=INVALID_TOKEN)
        address = client_address(request)
        _check_network(request, key, address)
        try:
            if _is_wrong_host(request, key):
                raise Problem("wrong-environment", headers=INVALID_TOKEN)
            if key.workspace.is_suspended:
                raise Problem("workspace-suspended")
        except Problem:
            count_request(request, request.parser_context["view"], key)
            raise
        keys.record_use(key, str(address))
        return key.workspace, key

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def _missing_token_detail(header: str) -> str:
    if not header.strip():
        found = "The request has no Authorization header."
    elif header.startswith(tuple(keys.PREFIXES.values())):
        found = "The Authorization header has the key without the word Bearer."
    else:
        found = "The Authorization header has another form."
    return f"{found} Send “Authorization: Bearer” followed by a space and your API key."


def _is_wrong_host(request: HttpRequest, key: ApiKey) -> bool:
    is_sandbox = key.environment == Environment.SANDBOX
    other = settings.PRODUCTION_HOST if is_sandbox else settings.SANDBOX_HOST
    own = settings.SANDBOX_HOST if is_sandbox else settings.PRODUCTION_HOST
    if not other:
        return False
    here = request.get_host().lower()
    names = {here, here.rpartition(":")[0]}
    return other.lower() in names and own.lower() not in names


def _check_network(request: HttpRequest, key: ApiKey, address: Address | None) -> None:
    if is_within(address, key.networks):
        return
    # Somebody may have stolen the key: they cannot use up the rate of its client.
    _count_failure(request, "api-key-network", key_id=str(key.pk))
    raise Problem(
        "network-not-allowed",
        f"The request came from {address or 'no address'}, where this API key does "
        "not work.",
    )


def _count_failure(request: HttpRequest, event: str = "api-key", **about: str) -> None:
    """Limit wrong keys by address; valid keys still work from that address."""
    audit.write_security_log(event, "refused", request, **about)
    rate = rate_limits.count_failed_authentication(str(client_address(request)))
    if rate.exceeded:
        raise rate_limit_problem(rate)
    # After the limit, further failures of this address are not counted.
    count_refused_access("API keys")


def key_of(request: Request) -> ApiKey:
    """Return the API key of a request that passed `ApiKeyBearer`."""
    return cast(ApiKey, request.auth)


def client_of(request: Request) -> Client:
    """Return the client of an authenticated request."""
    key = request.auth
    if not isinstance(key, ApiKey):
        raise TypeError("only a request with an API key has a client")
    return Client(key.workspace, key.account, f"key {key}")


class HasScope(BasePermission):
    """Requires the scope that the operation declares, if any."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if not view.is_method_allowed:
            # The framework answers with method-not-allowed.
            return True
        declared = getattr(view, "operation", None)
        if declared is None:
            name = f"{type(view).__name__}.{view.action}"
            raise AssertionError(f"{name} declares no operation")
        key = key_of(request)
        if declared.scope is None or declared.scope in key.scopes:
            return True
        count_request(request, view, key)
        scope = declared.scope
        challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
        raise Problem(
            "insufficient-scope",
            f"This operation needs the scope {scope}, which the API key does not have.",
            headers={"WWW-Authenticate": challenge},
            requiredScope=scope,
        )


# A request that orders more checks than this counts as several requests.
CHECKS_PER_REQUEST = 100
EXPORTS_PER_MINUTE = 10


class ApiKeyThrottle(BaseThrottle):
    """Counts a request in the bucket that its operation declares."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        if isinstance(request.auth, ApiKey):
            count_request(request, view, request.auth)
        return True


def count_request(request: Request, view: APIView, key: ApiKey) -> None:
    """Count the request for its key, and refuse it above the limit."""
    rate = _count_in_bucket(request, view, key, 1)
    if rate.exceeded:
        raise rate_limit_problem(rate)


def count_checks(
    request: Request, view: APIView, reports: object, packages: Packages
) -> None:
    """Count a request once more for each CHECKS_PER_REQUEST checks beyond the first.

    The request that crosses the limit is served. Otherwise a request that alone counts
    for more than the limit could never succeed.
    """
    items = reports[:MAX_REPORTS] if isinstance(reports, list) else []
    checks = sum(_checks_of(i, packages) for i in items if isinstance(i, dict))
    more = max(checks - 1, 0) // CHECKS_PER_REQUEST
    if more and isinstance(request.auth, ApiKey):
        _count_in_bucket(request, view, request.auth, more)


def _checks_of(item: dict[str, Any], packages: Packages) -> int:
    name, names = item.get("package"), item.get("checksRequested")
    if isinstance(name, str) and name in packages:
        names = packages[name].checks
    return min(len(names), MAX_CHECKS) if isinstance(names, list) else 0


def _count_in_bucket(
    request: Request, view: APIView, key: ApiKey, by: int
) -> rate_limits.Rate:
    declared = getattr(view, "operation", None)
    bucket = declared.rate_bucket if declared else "rest"
    limit = key.creates_per_minute if bucket == "create" else key.requests_per_minute
    if bucket == "exports":
        limit = min(limit, EXPORTS_PER_MINUTE)
    rate = rate_limits.count(f"{bucket}:{key.id}", limit, by)
    # ProblemMiddleware adds these headers to the answer, whatever it is
    # (draft-ietf-httpapi-ratelimit-headers).
    request.META[API_HEADERS] = {
        "RateLimit-Policy": f'"{bucket}";q={limit};w={rate_limits.WINDOW_SECONDS}',
        "RateLimit": f'"{bucket}";r={rate.remaining};t={rate.resets_in}',
    }
    return rate


def rate_limit_problem(rate: rate_limits.Rate) -> Problem:
    detail = f"More than {rate.limit} requests were made in a minute."
    return rate_limited(detail, rate.resets_in)
