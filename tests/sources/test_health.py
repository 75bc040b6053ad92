from datetime import timedelta

import pytest
from django.core.cache import cache
from django.utils.timezone import now

from tests.checks.source import DOWN
from tests.sources.test_crashes import call_without_recording
from tests.sources.test_routes import rests
from tests.sources.two import orders
from tests.world.staff import change_url, list_url, read_page, run_action
from verification.backoffice.widgets import NOT_OFFERED
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


def count_calls(source, ends, at=None, milliseconds=100):
    """Count calls of this source by outcome, as a worker does."""
    tally = Tally()
    for end, count in ends.items():
        for _ in range(count):
            tally.note(source, end, milliseconds / 1000)
    tally.flush(at_last=True)
    if at:
        minute = at.replace(second=0, microsecond=0)
        SourceMinute.objects.filter(source=source).update(minute=minute)


def test_calls_are_counted_by_the_minute(paying_api, two):
    two.first.answers(DOWN)
    two.second.answers((422, {}), (200, {"score": 5}))
    paying_api.create(*orders(3))

    paying_api.work()

    found = health_by_source()
    assert found["first"].unavailable == 3
    assert (found["second"].answered, found["second"].refused) == (2, 1)
    assert SourceMinute.objects.count() <= 4


def test_call_keeps_the_cause_and_the_admin_shows_it(paying_api, two, superuser):
    two.first.answers(DOWN)
    paying_api.create(*orders(1))

    paying_api.work()

    assert Call.objects.get(source="first").cause == "HTTP_503"
    assert Call.objects.get(source="second").cause == ""
    assert "HTTP_503" in read_page(superuser, list_url(Call))
    assert "HTTP_503" in read_page(superuser, change_url(Source(name="first")))


def fail(cause, times=1):
    """Let a worker of any machine write failures of the source."""
    tally = Tally()
    for _ in range(times):
        tally.note("first", "UNAVAILABLE", 0.1, cause)
    tally.flush(at_last=True)


def test_outage_is_logged_once_for_each_cause_over_all_workers(db, caplog):
    Source.objects.create(name="first")

    for _ in range(5):
        fail("DNS")
        fail("TIMEOUT")

    assert caplog.messages == [
        "source first does not answer: DNS",
        "source first does not answer: TIMEOUT",
    ]
    caplog.clear()
    Source.objects.update(failing_since=now() - timedelta(seconds=90))
    for _ in range(2):
        count_calls("first", {"ANSWERED": 1})
    assert caplog.messages == ["source first answers again after 90 s: DNS, TIMEOUT"]
    fail("DNS")
    assert caplog.messages[1:] == ["source first does not answer: DNS"]


def test_source_that_fails_now_and_then_is_logged_once(db, caplog):
    Source.objects.create(name="first")

    for _ in range(3):
        fail("TIMEOUT")
        count_calls("first", {"ANSWERED": 1})

    assert caplog.messages == ["source first does not answer: TIMEOUT"]
    Source.objects.update(failed_at=now() - timedelta(seconds=61))
    count_calls("first", {"ANSWERED": 1})
    assert "answers again" in caplog.messages[1]


def test_counts_of_several_workers_add_up(db):
    for _ in range(3):
        count_calls("first", {"ANSWERED": 10, "UNAVAILABLE": 2})

    health = health_by_source()["first"]

    assert (health.answered, health.unavailable, health.calls) == (30, 6, 36)
    assert health.success_rate == round(30 / 36, 4)


def test_percentile_is_right_within_a_step(db):
    tally = Tally()
    for milliseconds in range(1, 1001):
        tally.note("first", "ANSWERED", milliseconds / 1000)
    tally.flush(at_last=True)

    health = health_by_source()["first"]

    assert 500 <= health.median_ms <= 500 * 1.25
    assert 950 <= health.slow_ms <= 950 * 1.25


@pytest.mark.parametrize("seconds", [0.0, 3_600.0])
def test_percentile_of_slow_answers_is_the_last_bound(db, seconds):
    count_calls("first", {"ANSWERED": 1}, milliseconds=seconds * 1000)

    assert health_by_source()["first"].median_ms == (
        BOUNDS[-1] if seconds else BOUNDS[0]
    )


def test_health_covers_an_hour_and_counts_stay_two_days(db):
    count_calls("first", {"ANSWERED": 1}, at=now() - timedelta(days=3))
    count_calls("second", {"ANSWERED": 1}, at=now() - timedelta(minutes=61))
    assert health_by_source() == {}

    purge_old_minutes()

    assert SourceMinute.objects.count() == 1


def available(api):
    cache.clear()
    return api.get(DEFINITION).json()["availability"]


NOTHING = {"successRate": None, "medianMs": None, "p95Ms": None}


def test_sandbox_is_always_available(api, two):
    rests("first")
    rests("second")
    assert available(api) == {"status": "AVAILABLE", **NOTHING}


def test_check_is_as_available_as_its_sources(live_api, two):
    assert available(live_api) == {"status": "AVAILABLE", **NOTHING}

    count_calls("first", {"ANSWERED": 99, "UNAVAILABLE": 1})
    well = available(live_api)
    assert (well["status"], well["successRate"]) == ("AVAILABLE", 0.99)
    assert 100 <= well["medianMs"] <= 125

    count_calls("first", {"ANSWERED": 1, "UNAVAILABLE": 9})
    assert available(live_api)["status"] == "DEGRADED"

    # The rest has ended, and no call has succeeded since.
    SourceMinute.objects.all().delete()
    rests("first", -1)
    assert available(live_api)["status"] == "DEGRADED"

    rests("first")
    assert available(live_api)["status"] == "DEGRADED"

    rests("second")
    assert available(live_api)["status"] == "UNAVAILABLE"


def test_check_without_a_source_is_unavailable(live_api):
    registry.configure({}, {})
    content = live_api.get("/checks/definitions").json()["content"]

    found = {each["name"]: each["availability"]["status"] for each in content}
    assert found.pop("EMPLOYER_VERIFICATION") == "AVAILABLE"
    assert set(found.values()) == {"UNAVAILABLE"}


def test_few_calls_do_not_make_a_check_degraded(live_api, two):
    count_calls("first", {"ANSWERED": 4, "UNAVAILABLE": 1})

    assert available(live_api)["status"] == "AVAILABLE"


def test_admin_shows_all_sources_with_few_queries(
    superuser, two, django_assert_max_num_queries
):
    for number in range(20):
        count_calls(f"source-{number}", {"ANSWERED": 19, "UNAVAILABLE": 1})
    count_calls("first", {"ANSWERED": 1_000, "UNAVAILABLE": 500})
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
    two.set_route("second")
    paying_api.create(*orders(1))
    called, _ = call_without_recording()
    Call.objects.filter(pk=called.call_id).update(end="IN_DOUBT", ended_at=now())
    return Call.objects.get()


def test_dashboard_shows_a_doubt_until_staff_settle_it(superuser, doubt):
    assert "Source calls in doubt" in read_page(superuser, "/admin/")
    page = read_page(superuser, list_url(Call), doubt="open")
    assert "no end was recorded; in doubt" in page

    run_action(superuser, "settle_as_paid", doubt)

    doubt.refresh_from_db()
    assert doubt.settled_at is not None
    assert doubt.was_paid is True
    assert str(doubt.pk) not in read_page(superuser, list_url(Call), doubt="open")
    assert run_action(superuser, "settle_as_unpaid", doubt) == [NOT_OFFERED]


def test_admin_shows_skipped_sources_with_reasons(superuser, paying_api, two):
    rests("first")
    paying_api.create(*orders(1))
    paying_api.work()

    call = Call.objects.get()
    page = read_page(superuser, change_url(call))

    assert "first: RESTING" in page
    assert call.reference in page


def test_source_without_calls_has_no_figures():
    assert (Health().calls, Health().success_rate, Health().median_ms) == (
        0,
        None,
        None,
    )
