"""Traces have routes, ids and figures, and nothing personal; off, they cost nothing."""

import subprocess
import sys
from typing import Any

import pytest
import requests
from django.conf import settings as configured
from django.test import Client

from tests.world.clients import HOSTED, Api, person
from tests.world.collector import Collector, attributes
from tests.world.collector import collector as collector
from tests.world.receiver import HOST, Authority, Receiver, Script
from tests.world.receiver import authority as authority
from verification import tracing
from verification.outbound import client as outbound
from webhooks.sender import Sender, WebhookRequest

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SUBJECT = {"email": "wanjiku@kamau.test", "phone": "+254712345678"}
PERSONAL = ["Wanjiku", "Kamau", "12345678", "kamau.test", "712345678"]


def order(api: Api, **item: Any) -> dict[str, Any]:
    """Order a report by a request, which has a trace; return the report."""
    body = {"reports": [{**person(**SUBJECT), **item}]}
    made: dict[str, Any] = api.post("/reports", body).json()["reports"][0]
    return made


def test_order_and_its_checks_name_the_report(api: Api, collector: Collector):
    made = order(api)
    api.work()
    tracing.flush()

    (posted,) = collector.named("POST api/v1/reports")
    said = attributes(posted)
    assert said["http.route"] == "api/v1/reports"
    assert said["http.response.status_code"] == 201
    assert said["verification.workspace_id"] == str(api.workspace.pk)
    assert said["verification.report_id"] == [made["id"]]
    checks = [span for span in collector.spans() if span.name.startswith("check ")]
    assert {attributes(span)["verification.report_id"] for span in checks} == {
        made["id"]
    }
    assert {attributes(span)["verification.outcome"] for span in checks} == {
        "Completed"
    }


def test_statements_are_children_without_values(api: Api, collector: Collector):
    order(api)
    tracing.flush()

    (posted,) = collector.named("POST api/v1/reports")
    statements = [s for s in collector.spans() if s.parent_span_id == posted.span_id]
    assert statements
    assert {attributes(s)["db.system.name"] for s in statements} == {"postgresql"}
    assert all(s.trace_id == posted.trace_id for s in statements)
    allowed = {"db.system.name", "db.operation.name", "db.collection.name"}
    assert all(attributes(s).keys() <= allowed for s in statements)


def test_traces_hold_no_personal_data_and_no_token(
    api: Api, collector: Collector, client: Client
):
    made = order(api, consent=HOSTED)
    api.get(f"/reports/{made['id']}")
    url = made["consentState"]["consentUrl"]
    token = url.rsplit("/", 1)[-1]
    client.get(f"/c/{token}", follow=True)
    client.get(f"/c/{token}?name=Wanjiku", HTTP_USER_AGENT="Wanjiku's phone")
    api.get("/reports", search="Kamau")
    api.work()
    tracing.flush()

    routes = {attributes(s).get("http.route") for s in collector.spans()}
    assert any(route and route.startswith("c/<") for route in routes)
    sent = b"".join(collector.bodies)
    for text in (*PERSONAL, token, api.text, "phone"):
        assert text.encode() not in sent, text


def test_failure_has_its_type_and_no_message(collector: Collector):
    with (
        pytest.raises(ValueError, match="Wanjiku"),
        tracing.span("a", {"verification.report_id": "1"}),
    ):
        raise ValueError("Wanjiku is unknown")
    tracing.flush()

    (span,) = collector.spans()
    assert attributes(span)["error.type"] == "ValueError"
    assert span.status.code == 2
    assert (list(span.events), span.status.message) == ([], "")


def test_request_joins_the_callers_trace(collector: Collector, client: Client, db: Any):
    client.get("/", headers={"traceparent": f"00-{TRACE}-{CALLER}-01"})
    tracing.flush()

    (request,) = [s for s in collector.spans() if s.name.startswith("GET ")]
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, CALLER)


def test_probes_leave_no_span(collector: Collector, client: Client, db: Any):
    for path in ("/healthz", "/readyz", "/metrics"):
        client.get(path)
    tracing.flush()

    assert collector.spans() == []


def test_calls_name_the_host_and_not_the_address(
    collector: Collector, authority: Authority, settings: Any
):
    settings.OUTBOUND_CA_FILE = str(authority.file)
    with Receiver(authority.context("localhost")) as server:
        session = outbound.create_session(["localhost"])
        session.get(f"https://localhost:{server.port}/pin/12345678?name=Wanjiku")
        server.scripts["/slow"] = Script(hangs=True)
        with pytest.raises(requests.RequestException):
            session.get(f"https://localhost:{server.port}/slow", timeout=0.2)
    tracing.flush()

    good, bad = collector.named("GET localhost")
    assert attributes(good) == {
        "http.request.method": "GET",
        "server.address": "localhost",
        "http.response.status_code": 200,
    }
    assert attributes(bad)["error.type"] == "ReadTimeout"
    assert not any(text.encode() in b"".join(collector.bodies) for text in PERSONAL)


def test_webhooks_name_no_receiver(
    collector: Collector, authority: Authority, settings: Any
):
    settings.WEBHOOK_CA_FILE = str(authority.file)
    settings.WEBHOOK_DEV_HOSTS = frozenset({"localhost"})
    with Receiver(authority.context("localhost", HOST)) as server, Sender() as post:
        url = f"https://localhost:{server.port}/hook?key=Wanjiku"
        post.send([(1, WebhookRequest(url, b"{}", {}))])
        assert post.answers(10)
    tracing.flush()

    (sent,) = collector.named("webhook")
    assert attributes(sent) == {"http.response.status_code": 200}


def test_resource_names_service_and_version(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=acacia")

    with tracing.span("a"):
        pass
    tracing.flush()

    (resource,) = collector.resources()
    said = attributes(resource.resource)
    assert said["service.name"] == "verification"
    assert said["service.version"] == configured.VERSION
    assert said["deployment.environment"] == "acacia"


@pytest.mark.slow
def test_nothing_is_imported_without_a_collector():
    code = (
        "import sys, verification.asgi, verification.jobs.cluster;"
        "from verification import tracing;"
        "span = tracing.span('a'); span.__enter__(); tracing.flush();"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=configured.BASE_DIR,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
