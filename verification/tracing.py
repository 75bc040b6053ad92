"""Traces for OpenTelemetry, if OTEL_EXPORTER_OTLP_ENDPOINT names a collector.

    with tracing.span("source kra", {"verification.report_id": id}) as span:
        ...
        span.set({"verification.outcome": "ANSWERED"})

If that variable is missing, no library is imported, and a span is one empty call.

The libraries that instrument Django, psycopg and requests are not used: they write
addresses, statements and messages of exceptions into spans, and so tokens of links and
personal data. Here the caller names each attribute: ids, codes, routes and figures.

A request and the checks that it causes are traces of their own: one run of a job does
the work of many requests. `verification.report_id` is in both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any

import verification

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
NAME = "verification"
# The operation of a statement and its first table; neither holds a value.
STATEMENT = re.compile(
    r"\s*(?:WITH\b.*?\)\s*)?(SELECT|INSERT|UPDATE|DELETE|COPY)\b"
    r"(?:.*?\b(?:FROM|INTO|UPDATE)\s+\"?(\w+)|\s+\"?(\w+))?",
    re.IGNORECASE | re.DOTALL,
)
MAX_STATEMENT = 2_000
MAX_IDS = 100

Attribute = str | bool | int | float | Sequence[str]
Attributes = Mapping[str, Attribute | None]


def is_on() -> bool:
    return any(map(os.environ.get, ENDPOINTS)) and (
        os.environ.get("OTEL_SDK_DISABLED", "").lower() != "true"
    )


class Span:
    """The empty span of a service that has no collector."""

    def __enter__(self) -> Span:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def rename(self, name: str) -> None:
        pass

    def set(self, attributes: Attributes) -> None:
        """Add attributes; one that is None is left out."""

    def fail(self, why: str) -> None:
        """Mark the span as failed. `why` is a type or a code, never a message."""


class _Recorded(Span):
    def __init__(self, kind: str, name: str, given: Attributes, parent: str) -> None:
        from opentelemetry import context, trace

        self._context, self._trace = context, trace
        tracer = _tracer()
        self._span = tracer.start_span(
            name,
            context=_remote_context(parent) if parent else None,
            kind=trace.SpanKind[kind],
            attributes={key: v for key, v in given.items() if v is not None},
        )
        self._token: Any = None

    def __enter__(self) -> Span:
        self._token = self._context.attach(self._trace.set_span_in_context(self._span))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            # The message of an exception often quotes the values that caused it.
            self.fail(kind.__name__)
        self._context.detach(self._token)
        self._span.end()

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def set(self, attributes: Attributes) -> None:
        for key, value in attributes.items():
            if value is not None:
                self._span.set_attribute(key, value)

    def fail(self, why: str) -> None:
        self._span.set_attribute("error.type", why)
        self._span.set_status(self._trace.StatusCode.ERROR)


NOTHING = Span()


def span(
    name: str,
    attributes: Attributes | None = None,
    *,
    kind: str = "INTERNAL",
    parent: str = "",
) -> Span:
    """Return a span, to be used by `with`. `parent` is a `traceparent` header."""
    if not _is_on():
        return NOTHING
    return _Recorded(kind, name, attributes or {}, parent)


def note(key: str, ids: Iterable[str]) -> None:
    """Add ids to the current span, if there is one: the first MAX_IDS."""
    if _is_on():
        from opentelemetry import trace

        trace.get_current_span().set_attribute(key, list(islice(ids, MAX_IDS)))


def trace_statement(
    execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
) -> Any:
    """Execute a statement in a span, if it is part of a trace; a wrapper for Django."""
    from opentelemetry import trace

    if not trace.get_current_span().is_recording():
        return execute(sql, params, many, context)
    found = STATEMENT.match(str(sql)[:MAX_STATEMENT])
    operation, table = "statement", None
    if found:
        operation, table = found[1].upper(), found[2] or found[3]
    name = f"{operation} {table}" if table else operation
    given = {
        "db.system.name": "postgresql",
        "db.operation.name": operation,
        "db.collection.name": table,
    }
    with span(name, given, kind="CLIENT"):
        return execute(sql, params, many, context)


def preload() -> None:
    """Load the library, which takes a second, before processes are forked."""
    if _is_on():
        for module in (
            "exporter.otlp.proto.http.trace_exporter",
            "sdk.trace.export",
            "trace.propagation.tracecontext",
        ):
            import_module(f"opentelemetry.{module}")


def flush() -> None:
    """Send the recorded spans of this process."""
    if _is_on():
        _provider().force_flush()


# Read once: a span in each request must cost nothing without a collector.
_is_on = cache(is_on)


@cache
def _provider() -> TracerProvider:
    """Make the exporter, whose thread starts with the first span of a process.

    The SDK starts it again in processes that are forked later.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = {
        "service.name": os.environ.get("OTEL_SERVICE_NAME") or NAME,
        "service.version": verification.__version__,
    }
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


@cache
def _tracer() -> Tracer:
    return _provider().get_tracer(NAME)


def _remote_context(traceparent: str) -> Any:
    from opentelemetry.trace.propagation.tracecontext import (
        TraceContextTextMapPropagator,
    )

    return TraceContextTextMapPropagator().extract({"traceparent": traceparent})
