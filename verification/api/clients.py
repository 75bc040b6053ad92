from __future__ import annotations

from rest_framework.request import Request

from verification.ordering.client import Client


def client_of(request: Request) -> Client:
    """The client behind an authenticated request."""
    key = request.auth
    return Client(key.workspace, key.account, f"key {key}")
