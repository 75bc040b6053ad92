"""The log: one JSON object for each line, in every process.

Each request has one line, with an id that other lines of the request repeat. No line
holds personal data or secrets: `RequestLogMiddleware` logs only ids and chosen fields,
such as the route's pattern in place of the path, and `SecretsFilter` masks keys,
webhook secrets, addresses and numbers in the lines of other code.
"""

import logging
import os
import re
import traceback
from typing import Any

from verification.web.request import current_request_id

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
      | \b(?:[0-9a-f]{64}){1,2}\b       # a SHA-256, or a signature of Ed25519
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
    return _PATTERN.sub(
        lambda found: found[0] if found["keep"] else f"[{found.lastgroup}]", text
    )


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


def error_name(error: BaseException) -> str:
    """Return the name of an error's type, with the system's or bucket's reason.

    An example is `OSError (No space left on device)`. It has no value of the message.
    """
    name = type(error).__qualname__
    if isinstance(error, OSError) and type(error).__module__ == "builtins":
        return f"{name} ({os.strerror(error.errno)})" if error.errno else name
    # Errors of a bucket have an answer with a code, such as AccessDenied.
    match getattr(error, "response", None):
        case {"Error": {"Code": str(code)}}:
            return f"{name} ({code})"
    return name


def _describe_error(error: BaseException) -> str:
    name = f"{type(error).__module__}.{error_name(error)}"
    diagnosis = getattr(error, "diag", None)
    known = [
        f"{part}={getattr(diagnosis, part)}"
        for part in ("sqlstate", "table_name", "constraint_name")
        if getattr(diagnosis, part, None)
    ]
    return f"{name} ({', '.join(known)})" if known else name
