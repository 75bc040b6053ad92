"""The content of requests and answers: strict reading, rendering, and media types.

JSON readers disagree about repeated members, NaN, numbers too large for a double, NUL
and half surrogate pairs, so the API refuses them all.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import IO, Annotated, Any, TypeVar

import orjson
from django.conf import settings
from django.http import HttpRequest
from django.utils.http import parse_header_parameters
from pydantic import BeforeValidator, Field, ValidationError
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from verification.api.problems import MemberError, Problem, pointer, validation_failed
from verification.reports.request import shape_faults
from verification.values import formats
from verification.values.shapes import Shape

MAX_DIGITS = 100
# The members of one object. The largest shape has a few dozen.
MAX_MEMBERS = 1000
MAX_NUMBERS = 10_000
# Escapes that can produce a NUL or a lone surrogate. Unescaped ones never get this
# far: the bytes are UTF-8, and the JSON reader refuses control characters.
SUSPECT_ESCAPE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
INVALID_CHARACTERS = re.compile("[\x00\ud800-\udfff]")
JSON_LINES = "application/x-ndjson"
ANSWER_MEDIA_TYPES = ("application/json", "application/problem+json")


Query = TypeVar("Query", bound=Shape)


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
            request = parser_context["request"]
            check_encoding(request)
            check_content_length(request, settings.MAX_BODY_BYTES)
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
        value = reader.decode(text)
        if reader.found_fault or (
            SUSPECT_ESCAPE.search(text) and not _is_valid_unicode(value)
        ):
            for fault, steps in _find_faults(value, ()):
                raise _malformed(f"At {pointer(*steps)}: {fault.reason}.")
    except json.JSONDecodeError as error:
        raise _malformed(
            f"The body is not JSON from line {error.lineno}, column {error.colno} on: "
            "look for a missing or wrong quote, comma or bracket there."
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


class _Reader(json.JSONDecoder):
    def __init__(self) -> None:
        self.found_fault = False
        self._numbers = 0
        super().__init__(
            object_pairs_hook=self._object,
            parse_int=self._integer,
            parse_float=self._float,
            parse_constant=lambda name: self._fault(f"{name} is not JSON"),
        )

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
    """Refuse a body that has members."""
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
        detail = f"This is not known; {known}."
        yield MemberError("unknown-parameter", detail, parameter=name)
    elif len(values) > 1:
        yield MemberError("duplicate", "This is repeated.", parameter=name)
    elif INVALID_CHARACTERS.search(values[0]):
        yield MemberError("invalid-format", "The value has a NUL.", parameter=name)


def _digits(value: Any) -> Any:
    """Refuse integers that only Python reads, such as `1_0`."""
    if isinstance(value, str) and not re.fullmatch("-?[0-9]+", value):
        raise formats.format_error("invalid-type", "This must be an integer")
    return value


PageSize = Annotated[int, Field(ge=1, le=200), BeforeValidator(_digits)]


class PageQuery(Shape):
    """Pages start at 0."""

    page: Annotated[int, Field(ge=0, le=1_000_000_000), BeforeValidator(_digits)] = 0
    """Zero-based."""
    size: PageSize = 20
    """The most items on a page."""


@cache
def parameter_names(query: type[Shape] | None) -> list[str]:
    """Return the names of the query parameters, sorted."""
    fields = query.model_fields if query else {}
    return sorted(field.alias or name for name, field in fields.items())


def read_query(request: Request, query: type[Query]) -> Query:
    """Read the query parameters, all of them known, as this shape."""
    values: dict[str, Any] = request.query_params.dict()
    try:
        return query.model_validate(values)
    except ValidationError as e:
        raise validation_failed(
            [
                MemberError(fault.code, fault.detail, parameter=str(fault.path[0]))
                for fault in shape_faults(e)
            ]
        ) from e


class JsonRenderer(BaseRenderer):
    media_type = "application/json"
    format = "json"
    charset = None  # JSON is UTF-8 and takes no charset

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        return b"" if data is None else to_json(data)


def to_json(data: Shape | dict[str, Any]) -> bytes:
    """Render a shape, or an object whose members are plain."""
    if isinstance(data, Shape):
        return data.__pydantic_serializer__.to_json(data, by_alias=True)
    return orjson.dumps(data)


class JsonOnlyNegotiation(BaseContentNegotiation):
    # The media types of the answers, problems included.
    sent: tuple[str, ...] = ANSWER_MEDIA_TYPES

    def select_parser(  # type: ignore[override]
        self, request: Request, parsers: Sequence[BaseParser]
    ) -> BaseParser | None:
        sent = (request.content_type or "").partition(";")[0].strip().lower()
        return next((p for p in parsers if p.media_type == sent), None)

    def select_renderer(  # type: ignore[override]
        self,
        request: Request,
        renderers: Sequence[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        accept = request.headers.get("Accept", "").strip() or "*/*"
        if not any(_quality(accept, media_type) > 0 for media_type in self.sent):
            raise Problem("not-acceptable")
        return renderers[0], renderers[0].media_type or ANSWER_MEDIA_TYPES[0]


class PdfNegotiation(JsonOnlyNegotiation):
    sent = ("application/pdf", *ANSWER_MEDIA_TYPES)


def _quality(accept: str, media_type: str) -> float:
    """Return the weight of the most specific range that matches (RFC 9110, 12.5.1)."""
    ranges = [media_type, f"{media_type.partition('/')[0]}/*", "*/*"]
    weights: dict[str, float] = {}
    for entry in accept.split(","):
        range_, parameters = parse_header_parameters(entry.strip())
        weights[range_.lower()] = _weight(parameters.get("q", "1"))
    return next((weights[range_] for range_ in ranges if range_ in weights), 0)


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1
