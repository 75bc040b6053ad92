import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.core.cache import caches
from django.db import connection
from fakeredis import TcpFakeServer

from tests.world.threads import run_at_once
from workspaces import rate_limits
from workspaces.models import RateCount

pytestmark = pytest.mark.django_db

QUARTER_PAST = datetime(2026, 11, 21, 8, 15, 40, tzinfo=UTC)


@pytest.fixture(autouse=True)
def clock(time_machine):
    time_machine.move_to(QUARTER_PAST, tick=False)
    return time_machine


@pytest.fixture
def redis(settings, monkeypatch):
    server = TcpFakeServer(("127.0.0.1", 0))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=[0.02], daemon=True)
    thread.start()
    settings.REDIS_URL = f"redis://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setattr(rate_limits, "_rested_at", 0.0)
    settings.CACHES = settings.CACHES | {
        "rates": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": settings.REDIS_URL,
        }
    }
    yield server
    caches["rates"]._cache.get_client().connection_pool.disconnect()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(params=["database", "redis"])
def store(request):
    return request.param == "redis" and request.getfixturevalue("redis")


def test_each_call_counts_until_the_limit_is_exceeded(store):
    seen = [rate_limits.count("create:k", 2) for _ in range(4)]

    assert [rate.remaining for rate in seen] == [1, 0, 0, 0]
    assert [rate.exceeded for rate in seen] == [False, False, True, True]


def test_new_minute_starts_a_new_count(store, clock):
    for _ in range(3):
        rate_limits.count("create:k", 1)

    clock.shift(timedelta(seconds=20))

    assert rate_limits.count("create:k", 1) == rate_limits.Rate(
        1, 0, 60, exceeded=False
    )


def test_windows_are_the_minutes_of_the_clock(store, clock):
    assert rate_limits.count("create:k", 1).resets_in == 20
    clock.shift(timedelta(seconds=19, milliseconds=999))
    assert rate_limits.count("create:k", 1).resets_in == 1


def test_each_subject_has_its_own_count(store):
    rate_limits.count("create:k", 1)

    assert not rate_limits.count("rest:k", 1).exceeded


def test_limit_of_0_allows_nothing(store):
    assert rate_limits.count("create:k", 0).exceeded


def test_count_is_one_statement(django_assert_num_queries):
    with django_assert_num_queries(1):
        rate_limits.count("create:k", 1)


def test_redis_spares_the_database(redis, django_assert_num_queries):
    with django_assert_num_queries(0):
        rate_limits.count("create:k", 1)


def test_database_counts_while_redis_is_unavailable(redis, settings, caplog):
    redis.shutdown()
    redis.server_close()

    assert not rate_limits.count("create:k", 1).exceeded
    assert rate_limits.count("create:k", 1).exceeded
    # Another call for each count would take until its timeout.
    assert caplog.text.count("Redis is unavailable") == 1


@pytest.mark.django_db(transaction=True)
def test_no_count_is_lost_between_processes():
    run_at_once(40, lambda _: rate_limits.count("create:k", 100))

    assert rate_limits.count("create:k", 100).remaining == 100 - 41


def test_table_of_counts_is_unlogged():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relpersistence FROM pg_class WHERE relname = %s",
            [RateCount._meta.db_table],
        )
        assert cursor.fetchone() == ("u",)


def test_purge_deletes_counts_of_past_minutes(clock):
    rate_limits.count("old", 1)
    clock.shift(timedelta(minutes=10))
    rate_limits.count("new", 1)

    rate_limits.purge_counts()

    assert RateCount.objects.get().subject == "new"


def test_failed_authentications_are_limited_by_address(settings):
    settings.FAILED_AUTHENTICATIONS_PER_MINUTE = 1

    assert not rate_limits.count_failed_authentication("203.0.113.7").exceeded
    assert rate_limits.count_failed_authentication("203.0.113.7").exceeded
    assert not rate_limits.count_failed_authentication("203.0.113.8").exceeded


def test_subject_of_a_count_hides_the_address():
    rate_limits.count_failed_authentication("203.0.113.7")

    subject = RateCount.objects.get().subject
    assert "203.0.113.7" not in subject
    assert len(subject.rpartition(":")[2]) == 64


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::9"),
        ("203.0.113.7", "::ffff:203.0.113.7"),
        ("None", "None"),
    ],
)
def test_addresses_of_one_client_count_as_one(one, same):
    rate_limits.count_failed_authentication(one)

    assert rate_limits.count_failed_authentication(same).remaining == 58


def test_another_network_of_ipv6_is_another_address():
    rate_limits.count_failed_authentication("2001:db8:0:1::1")

    assert rate_limits.count_failed_authentication("2001:db8:0:2::1").remaining == 59
