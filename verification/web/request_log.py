"""The log: one JSON object for each line, in every process.

Each request has one line, with an id that other lines of the request repeat. No line
holds personal data or secrets: `RequestLogMiddleware` logs only ids and chosen fields,
such as the route's pattern in place of the path, and `SecretsFilter` masks keys,
webhook secrets, addresses and numbers in the lines of other code.
"""

from __future__ import annotations

import logging
import re
import time
import traceback
import uuid
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from django.http import HttpRequest, HttpResponse

FORMAT: dict[str, Any] = {
    "fmt": "%(levelname)s %(name)s %(message)s",
    "rename_fields": {"levelname": "level"},
    # Times are in UTC with their offset, in any time zone of the host.
    "timestamp": "time",
}


# Alternatives are tried in order at each place, so what `keep` matches is never cut.
_PATTERN = re.compile(
    r"""
    (?P<keep>
        \b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b      # a UUID
      | \b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?               # a moment
    )
    | (?P<key>vrf_(?:test|live)_[0-9A-Za-z]+)
    | (?P<secret>whsec_[0-9A-Za-z+/=_-]+)
    | (?P<link>(?<=/[bcpr]/)[0-9A-Za-z]{16,})
    | (?P<email>[\w.%+'-]+@[\w-]+(?:\.[\w-]+)*)
    | (?P<phone>\+\d(?:[\s()-]{0,2}\d){6,14})
    | (?P<number>\d{7,})
    """,
    re.VERBOSE,
)


def redact(text: str) -> str:
    return _PATTERN.sub(_mask, text)


def _mask(match: re.Match[str]) -> str:
    return match[0] if match.lastgroup == "keep" else f"[{match.lastgroup}]"


request_id: ContextVar[str] = ContextVar("request_id", default="")


def current_request_id() -> str:
    """Return the id of the current request, or "" outside of a request."""
    return request_id.get()


log = logging.getLogger("verification.request")

VALID_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
# A method is text of the client, unless it is one of these.
METHODS = frozenset(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
TEST_PREFIX = "vrf_test_"
PROBES = {"/healthz", "/readyz"}

GetResponse = Callable[[HttpRequest], HttpResponse]


def bearer_token(request: HttpRequest) -> str | None:
    """Return the token after `Bearer` in Authorization, or None without one."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    token = token.strip(" ")
    if scheme.lower() != "bearer" or not token or re.search(r"[\s,]", token):
        return None
    return token


class RequestLogMiddleware:
    """Log each request and its response. This middleware is the outermost."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        given = request.headers.get("X-Request-Id", "")
        id = given if VALID_REQUEST_ID.fullmatch(given) else str(uuid.uuid4())
        request.id = id  # type: ignore[attr-defined]
        token = request_id.set(id)
        try:
            response = self.get_response(request)
            response["X-Request-Id"] = id
            if _is_made_with_test_key(request):
                response["X-Service-Sandbox"] = "true"
            _log(request, response, time.perf_counter() - started)
            return response
        finally:
            request_id.reset(token)


def _is_made_with_test_key(request: HttpRequest) -> bool:
    # Read from the header, not from what authentication found: a wrong URL or a
    # refused key is answered before or without it.
    # Imported here: logging, and so this module, is set up before there are models.
    from workspaces import keys

    token = bearer_token(request) or ""
    return token.startswith(TEST_PREFIX) and keys.is_well_formed(token)


def _log(request: HttpRequest, response: HttpResponse, seconds: float) -> None:
    match = request.resolver_match
    key = getattr(request, "api_key", None)
    log.log(
        _level(request, response),
        "request",
        extra={
            "method": request.method if request.method in METHODS else "OTHER",
            "route": match.route if match else None,
            "status": response.status_code,
            "ms": round(seconds * 1000, 1),
            "workspace_id": str(key.workspace_id) if key else None,
            "key_id": str(key.id) if key else None,
            "user_id": _user_id(request),
        },
    )


def _user_id(request: HttpRequest) -> str | None:
    """Return the logged-in user's id if the response depended on it; make no query."""
    user = getattr(request, "_cached_user", None)
    return str(user.pk) if user and user.is_authenticated else None


def _level(request: HttpRequest, response: HttpResponse) -> int:
    if response.status_code >= 500:
        return logging.ERROR
    # Load balancers and the service itself request these every few seconds.
    return logging.DEBUG if request.path_info in PROBES else logging.INFO


class RequestIdFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = current_request_id() or None
        return True


_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"request_id"}


class SecretsFilter(logging.Filter):
    """Mask values that look personal or secret in messages, and shorten tracebacks.

    The message of an exception often quotes the values that caused it (a database
    error quotes the whole row), so a traceback keeps types, places and the code of a
    database error, and no message.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redact(record.getMessage()), None
        if record.exc_info and record.exc_info[1] is not None:
            record.exc_text = traceback_without_messages(record.exc_info[1])
            record.exc_info = None
        elif record.exc_text:
            record.exc_text = redact(record.exc_text)
        for name in record.__dict__.keys() - _STANDARD:
            value = record.__dict__[name]
            if value is not None and not isinstance(value, int | float):
                # Django adds the request, whose text holds the path.
                record.__dict__[name] = redact(str(value))
        return True


def traceback_without_messages(error: BaseException) -> str:
    lines: list[str] = []
    while True:
        stack = "".join(traceback.format_tb(error.__traceback__))
        lines.append(f"{stack}{_describe_error(error)}")
        cause = error.__cause__ or (
            None if error.__suppress_context__ else error.__context__
        )
        if cause is None:
            return "\n\nabove, the exception raised while handling:\n\n".join(lines)
        error = cause


def _describe_error(error: BaseException) -> str:
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    diagnosis = getattr(error, "diag", None)
    known = [
        f"{part}={getattr(diagnosis, part)}"
        for part in ("sqlstate", "table_name", "constraint_name")
        if getattr(diagnosis, part, None)
    ]
    return f"{name} ({', '.join(known)})" if known else name
