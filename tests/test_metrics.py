import pytest
from django.conf import settings as configured

from tests.sources.test_health import counted
from tests.sources.test_routing import rests
from tests.sources.two import two as two
from verification.payments.troubles import count_unopened

TOKEN = {"HTTP_AUTHORIZATION": "Bearer correct horse"}


@pytest.fixture
def token(settings):
    settings.METRICS_TOKEN = "correct horse"


def test_without_a_token_there_is_no_such_page(client, db):
    assert configured.METRICS_TOKEN == ""
    assert client.get("/metrics").status_code == 404


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", "Bearer ŵrong"])
def test_only_who_has_the_token_sees_them(client, token, db, given):
    answer = client.get("/metrics", HTTP_AUTHORIZATION=given.encode().decode("latin1"))

    assert answer.status_code == 401


def test_sources_and_their_last_hour_are_among_them(
    client, token, two, db, django_assert_max_num_queries
):
    counted("first", {"ANSWERED": 3, "UNAVAILABLE": 1}, milliseconds=9)
    rests("second")

    with django_assert_max_num_queries(5):
        lines = client.get("/metrics", **TOKEN).content.decode().splitlines()

    assert 'source_calls_last_hour{source="first",end="answered"} 3' in lines
    assert 'source_calls_last_hour{source="first",end="unavailable"} 1' in lines
    assert 'source_latency_seconds{source="first",quantile="0.5"} 0.01' in lines
    assert 'source_resting{source="first"} 0' in lines
    assert 'source_resting{source="second"} 1' in lines
    assert lines.count("# TYPE source_resting gauge") == 1


def test_checkouts_that_do_not_open_and_waiting_refunds_are_counted(client, token, db):
    for code in ("SOURCE_UNAVAILABLE", "SOURCE_REFUSED", "SOURCE_REFUSED"):
        count_unopened("stripe", code)

    lines = client.get("/metrics", **TOKEN).content.decode().splitlines()

    assert 'checkouts_not_opened{provider="stripe"} 3' in lines
    assert "refunds_waiting 0" in lines
