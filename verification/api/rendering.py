"""Rendering of answers as JSON, and negotiation of their media type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import orjson
from django.utils.http import parse_header_parameters
from pydantic import BaseModel
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from verification.api.problems import Problem
from verification.values.wire import utc_text

ANSWER_MEDIA_TYPES = ("application/json", "application/problem+json")


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


def to_json(data: Any) -> bytes:
    """Render a shape or a plain value; bytes are JSON already."""
    if isinstance(data, bytes):
        return data
    if isinstance(data, BaseModel):
        return data.__pydantic_serializer__.to_json(data, by_alias=True)
    return orjson.dumps(data, default=_to_plain, option=orjson.OPT_PASSTHROUGH_DATETIME)


def _to_plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, datetime):
        return utc_text(value)
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


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
    """The weight of the most specific range that matches (RFC 9110, 12.5.1)."""
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
