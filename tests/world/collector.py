"""A collector of OpenTelemetry traces on a socket: POST /v1/traces in protobuf."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.db import connection
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)

from tests.world.waiting import until
from verification import tracing

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class Collector:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def __enter__(self) -> Collector:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                collector.bodies.append(self.rfile.read(length))
                found = self.path == "/v1/traces"
                self.send_response(200 if found else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(
            target=self._server.serve_forever, args=[0.01], daemon=True
        ).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def resources(self) -> list[Any]:
        return [
            resource
            for body in list(self.bodies)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        ]

    def spans(self) -> list[Any]:
        return [
            span
            for resource in self.resources()
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans() if span.name == name]

    def wait_for(self, *names: str) -> None:
        until(lambda: not self._missing(names), lambda: self._missing(names))

    def _missing(self, names: tuple[str, ...]) -> set[str]:
        return set(names) - {span.name for span in self.spans()}


def attributes(span: Any) -> dict[str, Any]:
    """Return the attributes of a span as plain values."""
    return {pair.key: _plain(pair.value) for pair in span.attributes}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(one) for one in value.array_value.values]
    return getattr(value, kind)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """Send the traces of this process to a collector."""
    with Collector() as collector:
        monkeypatch.setenv(ENDPOINT, collector.url)
        _forget()
        with connection.execute_wrapper(tracing.trace_statement):
            yield collector
        tracing._provider().shutdown()
        monkeypatch.delenv(ENDPOINT)
        _forget()


def _forget() -> None:
    for cached in (tracing._is_on, tracing._provider, tracing._tracer):
        cached.cache_clear()
