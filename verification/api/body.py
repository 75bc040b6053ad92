"""Strict reading of bodies and query parameters.

JSON readers disagree about repeated members, NaN, numbers too large for a double, NUL
and half surrogate pairs, so the API refuses them all.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import orjson
from django.conf import settings
from django.http import HttpRequest
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from verification.api.problems import MemberError, Problem, pointer, validation_failed
from workspaces.models import ApiKey, Client

MAX_DIGITS = 100
# In one object; the largest shape has a few dozen.
MAX_MEMBERS = 1000
MAX_NUMBERS = 10_000
# Escapes that can produce a NUL or a lone surrogate. Unescaped ones never get this
# far: the bytes are UTF-8, and the JSON reader refuses control characters.
SUSPECT_ESCAPE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
INVALID_CHARACTERS = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class _Fault:
    """A mark in the parsed body at the place of a fault."""

    reason: str


class StrictJsonParser(BaseParser):
    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        if parser_context is not None:
            check_encoding(parser_context["request"]._request)
            check_content_length(
                parser_context["request"]._request, settings.MAX_BODY_BYTES
            )
        raw = read_limited(stream, settings.MAX_BODY_BYTES)
        return parse_json_object(raw) if raw else {}


def check_encoding(request: HttpRequest) -> None:
    charset = (request.content_params or {}).get("charset", "utf-8")
    if charset.lower() not in {"utf-8", "utf8"}:
        raise Problem("unsupported-media-type", "The body must be in UTF-8.")
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Problem("unsupported-media-type", "The body must not be compressed.")


def check_content_length(request: HttpRequest, limit: int) -> None:
    """Refuse a too large body by its Content-Length, before it is read."""
    if int(request.META.get("CONTENT_LENGTH") or 0) > limit:
        raise _too_large(limit)


def _too_large(limit: int) -> Problem:
    return Problem("body-too-large", f"The body is larger than {limit} bytes.")


def read_limited(stream: IO[bytes] | HttpRequest, limit: int) -> bytes:
    raw = stream.read(limit + 1)
    if len(raw) > limit:
        raise _too_large(limit)
    return raw


def parse_json_object(raw: bytes) -> dict[str, Any]:
    """Read a JSON object. Raises the problem `malformed-body`."""
    text = _decode(raw)
    reader = _Reader()
    try:
        value = reader.read(text)
        if reader.found_fault or (
            SUSPECT_ESCAPE.search(text) and not _is_valid_unicode(value)
        ):
            _refuse_first_fault(value)
    except json.JSONDecodeError as error:
        raise _malformed(
            f"{error.msg} at line {error.lineno}, column {error.colno}."
        ) from None
    except RecursionError:
        raise _malformed("Arrays and objects are nested too deeply.") from None
    if not isinstance(value, dict):
        raise _malformed("The body must be a JSON object.")
    return value


def _malformed(detail: str) -> Problem:
    return Problem("malformed-body", detail)


def _decode(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise _malformed(f"The body is not UTF-8 at byte {error.start}.") from None
    if text.startswith("\ufeff"):
        raise _malformed("The body starts with a byte order mark; leave it out.")
    return text


class _Reader:
    def __init__(self) -> None:
        self.found_fault = False
        self._numbers = 0
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_int=self._integer,
            parse_float=self._float,
            parse_constant=lambda name: self._fault(f"{name} is not JSON"),
        )

    def read(self, text: str) -> Any:
        return self._decoder.decode(text)

    def _fault(self, reason: str) -> _Fault:
        self.found_fault = True
        return _Fault(reason)

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Fault:
        if len(pairs) > MAX_MEMBERS:
            return self._fault(f"the object has more than {MAX_MEMBERS} members")
        members = dict(pairs)
        if len(members) == len(pairs):
            return members
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                members[name] = self._fault("the member is there twice")
            names.add(name)
        return members

    def _count_number(self) -> None:
        self._numbers += 1
        if self._numbers > MAX_NUMBERS:
            raise _malformed(f"The body has more than {MAX_NUMBERS} numbers.")

    def _integer(self, digits: str) -> int | _Fault:
        self._count_number()
        if len(digits) > MAX_DIGITS:
            return self._fault(f"the number has more than {MAX_DIGITS} digits")
        return int(digits)

    def _float(self, digits: str) -> float | _Fault:
        self._count_number()
        number = float(digits)
        if not math.isfinite(number):
            return self._fault("the number is too large")
        return number


def _is_valid_unicode(value: Any) -> bool:
    """Check quickly, as emoji are often escaped. False may be wrong."""
    try:
        return b"\\u0000" not in orjson.dumps(value)
    except TypeError:
        return False


def _refuse_first_fault(value: Any) -> None:
    for fault, steps in _find_faults(value, ()):
        raise _malformed(f"At {pointer(*steps)}: {fault.reason}.")


Steps = tuple[str | int, ...]


def _find_faults(value: Any, steps: Steps) -> Iterator[tuple[_Fault, Steps]]:
    if isinstance(value, _Fault):
        yield value, steps
    elif isinstance(value, str):
        if INVALID_CHARACTERS.search(value):
            yield _Fault("the text has a NUL or half of a surrogate pair"), steps
    elif isinstance(value, dict):
        for name, member in value.items():
            if INVALID_CHARACTERS.search(name):
                yield _Fault("the name has a NUL or half of a surrogate pair"), steps
            yield from _find_faults(member, (*steps, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_faults(item, (*steps, index))


def refuse_body(request: Request) -> None:
    """Refuse a body that is not empty and not an empty object."""
    if request.data:
        raise validation_failed(
            [
                MemberError(
                    "unknown-member",
                    "This operation takes no members.",
                    pointer=pointer(name),
                )
                for name in request.data
            ]
        )


def refuse_unknown_parameters(request: Request, allowed: Sequence[str]) -> None:
    """Refuse query parameters that are unknown, repeated, or have a NUL."""
    errors = [
        error
        for name, values in request.query_params.lists()
        for error in _parameter_errors(name, values, allowed)
    ]
    if errors:
        raise validation_failed(errors)


def _parameter_errors(
    name: str, values: list[Any], allowed: Sequence[str]
) -> Iterator[MemberError]:
    if name not in allowed:
        known = f"known here: {', '.join(allowed)}" if allowed else "none is known here"
        detail = f"The parameter is not known; {known}."
        yield MemberError("unknown-parameter", detail, parameter=name)
    elif len(values) > 1:
        yield MemberError("duplicate", "The parameter is repeated.", parameter=name)
    elif INVALID_CHARACTERS.search(values[0]):
        yield MemberError("invalid-format", "The value has a NUL.", parameter=name)


def client_of(request: Request) -> Client:
    """The client of an authenticated request."""
    key = request.auth
    if not isinstance(key, ApiKey):
        raise TypeError("only a request with an API key has a client")
    return Client(key.workspace, key.account, f"key {key}")


def body_of(request: Request) -> dict[str, Any]:
    """The body; the parser has checked that it is an object."""
    return dict(request.data)
