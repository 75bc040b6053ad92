"""The id of the request that is being answered, for whoever writes it down."""

from __future__ import annotations

from contextvars import ContextVar

request_id: ContextVar[str] = ContextVar("request_id", default="")


def current_id() -> str:
    """Empty outside of a request."""
    return request_id.get()
