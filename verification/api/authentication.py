"""Authentication by API key, and the scope that an operation needs."""

from __future__ import annotations

from typing import Any, cast

from django.conf import settings
from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from verification.api import throttling
from verification.api.problems import Problem
from verification.backoffice import audit
from verification.payments.alerts import count_refused_access
from verification.web.client_address import client_address
from verification.web.request_log import bearer_token
from workspaces import keys, rate_limits
from workspaces.models import ApiKey, Environment, Workspace

INVALID_TOKEN = {"WWW-Authenticate": 'Bearer error="invalid_token"'}


class ApiKeyBearer(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[Workspace, ApiKey]:
        token = bearer_token(request._request)
        if token is None:
            raise Problem(
                "authentication-required", headers={"WWW-Authenticate": "Bearer"}
            )
        key = keys.find(token)
        if key is None:
            _count_failure(request._request)
            raise Problem("invalid-api-key", headers=INVALID_TOKEN)
        request._request.api_key = key  # type: ignore[attr-defined]
        try:
            _check_access(request._request, key)
        except Problem:
            throttling.count_request(request, request.parser_context["view"], key)
            raise
        keys.record_use(key, str(client_address(request._request)))
        return key.workspace, key

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def _check_access(request: HttpRequest, key: ApiKey) -> None:
    if _is_wrong_host(request, key):
        raise Problem("wrong-environment", headers=INVALID_TOKEN)
    if key.workspace.is_suspended:
        raise Problem("workspace-suspended")


def _is_wrong_host(request: HttpRequest, key: ApiKey) -> bool:
    is_sandbox = key.environment == Environment.SANDBOX
    other = settings.PRODUCTION_HOST if is_sandbox else settings.SANDBOX_HOST
    own = settings.SANDBOX_HOST if is_sandbox else settings.PRODUCTION_HOST
    here = request.get_host().lower()
    names = {here, here.rpartition(":")[0]}
    return bool(other) and other.lower() in names and own.lower() not in names


def _count_failure(request: HttpRequest) -> None:
    """Limit wrong keys by address; valid keys still work from that address."""
    audit.write_security_log("api-key", "refused", request)
    rate = rate_limits.count_failed_authentication(str(client_address(request)))
    if rate.exceeded:
        raise throttling.rate_limit_problem(rate)
    # After the limit, further failures of this address are not counted.
    count_refused_access("API keys")


def key_of(request: Request) -> ApiKey:
    """The API key of a request that passed `ApiKeyBearer`."""
    return cast(ApiKey, request.auth)


class HasScope(BasePermission):
    """The declared operation names the scope of its key, or None."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if not view.is_method_allowed:
            return True  # about to be answered with method-not-allowed
        declared = getattr(view, "operation", None)
        if declared is None:
            name = f"{type(view).__name__}.{view.action}"
            raise AssertionError(f"{name} declares no operation")
        key = key_of(request)
        if declared.scope is None or declared.scope in key.scopes:
            return True
        throttling.count_request(request, view, key)
        raise _insufficient_scope(declared.scope)


def _insufficient_scope(scope: str) -> Problem:
    challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
    return Problem(
        "insufficient-scope",
        f"This operation needs the scope {scope}, which the API key does not have.",
        headers={"WWW-Authenticate": challenge},
        requiredScope=scope,
    )
