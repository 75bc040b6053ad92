"""The forms of Stripe's requests and answers."""

import time
from typing import Any

from tests.fakes.server import Answer


def expiry(asked: dict[str, Any]) -> int | None:
    now = int(time.time())
    expires_at = int(asked.get("expires_at", now + 86400))
    return expires_at if now + 1800 <= expires_at <= now + 86400 else None


def public(one: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in one.items() if not name.startswith("_")}


def is_asked_for(one: dict[str, Any], query: dict[str, str]) -> bool:
    intent = query.get("payment_intent")
    return (
        int(query.get("created[gte]", 0)) <= one["created"]
        and one["created"] < int(query.get("created[lt]", 2**40))
        and intent in (None, one.get("payment_intent"))
    )


def nested(form: dict[str, str]) -> dict[str, Any]:
    """a[b][c]=d as Stripe reads it; lists stay objects with numbers for names."""
    nested: dict[str, Any] = {}
    for name, value in form.items():
        *path, last = name.replace("]", "").split("[")
        at = nested
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    return nested


def error(
    status: int, told: str, code: str = "", type: str = "invalid_request_error"
) -> Answer:
    error = {"type": type, "message": told, **({"code": code} if code else {})}
    return Answer(status, {"error": error})
