from datetime import timedelta

import pytest
from django.core.cache import cache
from django.utils.timezone import now

from tests.checks.source import DOWN
from tests.sources.test_crashes import asked_by_a_worker_that_dies
from tests.sources.test_routes import rests
from tests.sources.two import orders
from tests.world.staff import change_url, list_url, read_page, run_action
from verification.providers import registry
from verification.sources.health import (
    BOUNDS,
    Health,
    Tally,
    health_by_source,
    purge_old_minutes,
)
from verification.sources.models import Call, Source, SourceMinute

DEFINITION = "/checks/definitions/IDENTITY"


@pytest.fixture(autouse=True)
def nothing_cached():
    cache.clear()
    yield
    cache.clear()


def counted(source, ends, at=None, milliseconds=100):
    """As if a worker had seen so many calls of this source end so."""
    tally = Tally()
    for end, count in ends.items():
        for _ in range(count):
            tally.note(source, end, milliseconds / 1000)
    tally.flush(at_last=True)
    if at:
        minute = at.replace(second=0, microsecond=0)
        SourceMinute.objects.filter(source=source).update(minute=minute)


def test_what_a_source_does_is_counted_by_the_minute(paying_api, two):
    two.first.answers(DOWN)
    two.second.answers((422, {}), (200, {"score": 5}))
    paying_api.create(*orders(3))

    paying_api.work()

    found = health_by_source()
    assert found["first"].unavailable == 3
    assert (found["second"].answered, found["second"].refused) == (2, 1)
    assert SourceMinute.objects.count() <= 4


def test_counts_of_several_workers_add_up(db):
    for _ in range(3):
        counted("first", {"ANSWERED": 10, "UNAVAILABLE": 2})

    health = health_by_source()["first"]

    assert (health.answered, health.unavailable, health.calls) == (30, 6, 36)
    assert health.success_rate == round(30 / 36, 4)


def test_percentiles_are_right_within_a_step(db):
    tally = Tally()
    for milliseconds in range(1, 1001):
        tally.note("first", "ANSWERED", milliseconds / 1000)
    tally.flush(at_last=True)

    health = health_by_source()["first"]

    assert 500 <= health.median_ms <= 500 * 1.25
    assert 950 <= health.slow_ms <= 950 * 1.25


@pytest.mark.parametrize("seconds", [0.0, 3_600.0])
def test_what_is_beyond_the_steps_is_told_as_the_nearest(db, seconds):
    counted("first", {"ANSWERED": 1}, milliseconds=seconds * 1000)

    assert health_by_source()["first"].median_ms == (
        BOUNDS[-1] if seconds else BOUNDS[0]
    )


def test_only_the_last_hour_is_told_and_two_days_are_kept(db):
    counted("first", {"ANSWERED": 1}, at=now() - timedelta(days=3))
    counted("second", {"ANSWERED": 1}, at=now() - timedelta(minutes=61))
    assert health_by_source() == {}

    purge_old_minutes()

    assert SourceMinute.objects.count() == 1


def available(api):
    cache.clear()
    return api.get(DEFINITION).json()["availability"]


NOTHING = {"successRate": None, "medianMs": None, "p95Ms": None}


def test_the_sandbox_is_always_there(api, two):
    rests("first")
    rests("second")
    assert available(api) == {"status": "AVAILABLE", **NOTHING}


def test_a_check_is_as_available_as_its_sources(live_api, two):
    assert available(live_api) == {"status": "AVAILABLE", **NOTHING}

    counted("first", {"ANSWERED": 99, "UNAVAILABLE": 1})
    well = available(live_api)
    assert (well["status"], well["successRate"]) == ("AVAILABLE", 0.99)
    assert 100 <= well["medianMs"] <= 125

    counted("first", {"ANSWERED": 1, "UNAVAILABLE": 9})
    assert available(live_api)["status"] == "DEGRADED"

    rests("first")
    assert available(live_api)["status"] == "DEGRADED"

    rests("second")
    assert available(live_api)["status"] == "UNAVAILABLE"


def test_a_check_without_a_source_is_unavailable_and_referees_are_not(live_api):
    registry.configure({}, {})
    content = live_api.get("/checks/definitions").json()["content"]

    found = {each["name"]: each["availability"]["status"] for each in content}
    assert found.pop("EMPLOYER_VERIFICATION") == "AVAILABLE"
    assert set(found.values()) == {"UNAVAILABLE"}


def test_one_refusal_of_few_calls_says_little(live_api, two):
    counted("first", {"ANSWERED": 4, "UNAVAILABLE": 1})

    assert available(live_api)["status"] == "AVAILABLE"


def test_staff_see_how_every_source_does_at_the_cost_of_few_queries(
    superuser, two, django_assert_max_num_queries
):
    for number in range(20):
        counted(f"source-{number}", {"ANSWERED": 19, "UNAVAILABLE": 1})
    counted("first", {"ANSWERED": 1_000, "UNAVAILABLE": 500})
    Source.objects.bulk_create([Source(name="first"), Source(name="elsewhere")])
    rests("second")
    cache.clear()

    with django_assert_max_num_queries(12):
        page = read_page(superuser, list_url(Source))

    assert "1,500, 500 without an answer" in page
    assert "66.7 %" in page
    assert "rests until" in page
    assert "not configured" in page


@pytest.fixture
def doubt(paying_api, two):
    two.routed("second")
    paying_api.create(*orders(1))
    called, _ = asked_by_a_worker_that_dies()
    Call.objects.filter(pk=called.call_id).update(end="IN_DOUBT", ended_at=now())
    return Call.objects.get()


def test_a_doubt_waits_on_the_first_page_until_staff_settle_it(superuser, doubt):
    assert "Source calls in doubt" in read_page(superuser, "/admin/")
    page = read_page(superuser, list_url(Call), doubt="open")
    assert "no end was recorded; in doubt" in page

    run_action(superuser, "settle_as_paid", doubt)

    doubt.refresh_from_db()
    assert doubt.settled_at is not None
    assert doubt.was_paid is True
    assert str(doubt.pk) not in read_page(superuser, list_url(Call), doubt="open")


def test_what_was_not_asked_and_why_is_seen_by_staff(superuser, paying_api, two):
    rests("first")
    paying_api.create(*orders(1))
    paying_api.work()

    call = Call.objects.get()
    page = read_page(superuser, change_url(call))

    assert "first: RESTING" in page
    assert call.reference in page


def test_nothing_is_known_of_a_source_without_calls():
    assert (Health().calls, Health().success_rate, Health().median_ms) == (
        0,
        None,
        None,
    )
