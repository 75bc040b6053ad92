"""The forked processes of web server and job cluster send their traces."""

import pytest

from tests.world.clients import person
from tests.world.collector import ENDPOINT, Collector, attributes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def collector(service):
    with Collector() as collector:
        variables = {ENDPOINT: collector.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        with service.changed(**variables):
            yield collector


def test_processes_of_web_and_jobs_send_traces(client, collector):
    # A result of another test would be reused.
    (made,) = client.order({**person(), "reuse": False})

    collector.wait_for("POST api/v1/reports", "job run_due_checks", "check IDENTITY")

    (order,) = collector.named("POST api/v1/reports")
    assert attributes(order)["verification.report_id"] == [made["id"]]
    jobs = {span.trace_id for span in collector.named("job run_due_checks")}
    statements = [s for s in collector.spans() if s.name.startswith("UPDATE ")]
    assert jobs & {span.trace_id for span in statements}
    assert b"Wanjiku" not in b"".join(collector.bodies)
