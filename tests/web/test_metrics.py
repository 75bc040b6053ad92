import pytest
from django.conf import settings as configured
from prometheus_client.parser import text_string_to_metric_families

from tests.sources.test_health import count_calls
from tests.sources.test_routes import rests
from tests.sources.two import two as two
from verification.payments.alerts import count_failed_opening

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

    with django_assert_max_num_queries(6):
        answer = client.get("/metrics", **TOKEN)

    text = answer.content.decode()
    read = samples(text)
    calls, first = "source_calls_last_hour", ("source", "first")
    latency = ("source_latency_seconds", ("quantile", "0.5"), first)
    assert answer["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert read[calls, ("end", "answered"), first] == 3
    assert read[calls, ("end", "unavailable"), first] == 1
    assert read[latency] == 0.01
    assert read["source_resting", first] == 0
    assert read["source_resting", ("source", "second")] == 1
    assert text.splitlines().count("# TYPE source_resting gauge") == 1


def test_metrics_count_failed_openings_and_flagged_refunds(client, token, db):
    for code in ("SOURCE_UNAVAILABLE", "SOURCE_REFUSED", "SOURCE_REFUSED"):
        count_failed_opening("stripe", code)

    read = samples(client.get("/metrics", **TOKEN).content.decode())

    assert read["checkouts_not_opened", ("provider", "stripe")] == 3
    assert read["with_flagged_refunds",] == 0


def test_metrics_escape_the_values_of_labels(client, token, db):
    name = 'a "quoted" \\ name\nof two lines'
    count_failed_opening(name, "SOURCE_REFUSED")

    read = samples(client.get("/metrics", **TOKEN).content.decode())

    assert read["checkouts_not_opened", ("provider", name)] == 1
