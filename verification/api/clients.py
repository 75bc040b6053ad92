from __future__ import annotations

from typing import Any

from rest_framework.request import Request

from verification.ordering.client import Client
from workspaces.models import ApiKey


def client_of(request: Request) -> Client:
    """The client behind an authenticated request."""
    key = request.auth
    if not isinstance(key, ApiKey):
        raise TypeError("only a request with an API key has a client")
    return Client(key.workspace, key.account, f"key {key}")


def body_of(request: Request) -> dict[str, Any]:
    """The body, which the parser has made sure is an object."""
    return dict(request.data)
