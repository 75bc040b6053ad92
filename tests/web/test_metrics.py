import pytest
from django.conf import settings as configured
from prometheus_client.parser import text_string_to_metric_families

from tests.sources.test_health import count_calls
from tests.sources.test_routes import rests
from tests.sources.two import two as two
from tests.world.clients import person
from verification.payments.alerts import count_failed_opening
from verification.payments.audit import audit_nightly

TOKEN = {"HTTP_AUTHORIZATION": "Bearer correct horse"}


@pytest.fixture
def token(settings):
    settings.METRICS_TOKEN = "correct horse"


def samples(text):
    """{(name, sorted labels): value} of what Prometheus reads."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_are_not_found_without_a_token(client, db):
    assert configured.METRICS_TOKEN == ""
    assert client.get("/metrics").status_code == 404


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", "Bearer ŵrong"])
def test_metrics_need_the_token(client, token, db, given):
    answer = client.get("/metrics", HTTP_AUTHORIZATION=given.encode().decode("latin1"))

    assert answer.status_code == 401


def test_metrics_show_the_last_hour_of_each_source(
    client, token, two, db, django_assert_max_num_queries
):
    count_calls("first", {"ANSWERED": 3, "UNAVAILABLE": 1}, milliseconds=9)
    rests("second")

    with django_assert_max_num_queries(14):
        answer = client.get("/metrics", **TOKEN)

    text = answer.content.decode()
    read = samples(text)
    calls, first = "verification_source_calls_last_hour", ("source", "first")
    latency = ("verification_source_latency_seconds", ("quantile", "0.5"), first)
    assert answer["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert read[calls, ("end", "answered"), first] == 3
    assert read[calls, ("end", "unavailable"), first] == 1
    assert read[latency] == 0.01
    assert read["verification_source_resting", first] == 0
    assert read["verification_source_resting", ("source", "second")] == 1
    assert text.splitlines().count("# TYPE verification_source_resting gauge") == 1


def test_metrics_count_failed_openings_and_flagged_refunds(client, token, db):
    for code in ("SOURCE_UNAVAILABLE", "SOURCE_REFUSED", "SOURCE_REFUSED"):
        count_failed_opening("stripe", code)

    read = samples(client.get("/metrics", **TOKEN).content.decode())

    assert read["verification_checkouts_not_opened", ("provider", "stripe")] == 3
    assert read["verification_refunds_waiting",] == 0


def test_metrics_escape_the_values_of_labels(client, token, db):
    name = 'a "quoted" \\ name\nof two lines'
    count_failed_opening(name, "SOURCE_REFUSED")

    read = samples(client.get("/metrics", **TOKEN).content.decode())

    assert read["verification_checkouts_not_opened", ("provider", name)] == 1


def test_metrics_count_requests_by_route(client, token, db):
    name = "verification_http_requests_total"
    labels = [("method", "GET"), ("route", "healthz"), ("status", "200")]
    before = samples(client.get("/metrics", **TOKEN).content.decode())
    client.get("/healthz")

    after = samples(client.get("/metrics", **TOKEN).content.decode())

    assert after[name, *labels] == before.get((name, *labels), 0) + 1


def test_metrics_show_what_waits_in_the_queues(api, client, token):
    api.create(person())

    read = samples(client.get("/metrics", **TOKEN).content.decode())

    assert read["verification_queue_due", ("queue", "checks")] == 3
    assert read["verification_queue_age_seconds", ("queue", "checks")] >= 0
    api.work()
    read = samples(client.get("/metrics", **TOKEN).content.decode())
    assert read["verification_queue_due", ("queue", "checks")] == 0


def test_metrics_show_the_last_audit_of_the_ledger(api, client, token):
    audit_nightly()

    read = samples(client.get("/metrics", **TOKEN).content.decode())

    assert read["verification_ledger_differences",] == 0
    assert read["verification_ledger_audit_age_seconds",] < 60
