"""The feed of events: its order, its races, its end."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils.timezone import now

from tests.world.clients import Api
from tests.world.deliveries import record_events
from tests.world.threads import count_waiting, start, uncommitted
from tests.world.waiting import until
from verification.db.ids import uuid7
from webhooks import feed
from webhooks.feed import Cursor, CursorExpired, EventPage, Place, read_events
from webhooks.models import Event
from workspaces.models import Workspace


def read(workspace: Workspace, cursor: Cursor | None = None, **query: Any) -> EventPage:
    query = {"names": None, "since": None, "size": 100, **query}
    return read_events(workspace.pk, "sandbox", cursor=cursor, **query)


def ids(page: EventPage) -> list[Any]:
    return [event.pk for event in page.events]


@pytest.mark.django_db(transaction=True)
def test_event_that_commits_late_is_not_missed(api: Api):
    workspace = api.workspace
    with uncommitted(lambda: record_events(workspace)) as late:
        later = record_events(workspace)
        first = read(workspace)
        assert ids(first) == later
        assert late[0] < later[0]

    assert ids(read(workspace, first.cursor)) == late


@pytest.mark.django_db(transaction=True)
def test_open_transaction_of_another_workspace_delays_nothing(
    api: Api, another_api: Api
):
    with uncommitted(lambda: record_events(another_api.workspace)):
        mine = record_events(api.workspace)
        assert ids(read(api.workspace)) == mine


@pytest.mark.django_db(transaction=True)
def test_readers_at_once_miss_nothing(api: Api):
    """A reader waits while another one gives earlier events their places."""
    workspace = api.workspace
    made = record_events(workspace, 2)
    key = {"workspace": workspace.pk, "environment": "sandbox"}

    with uncommitted(lambda: feed._list_events(key)) as listed:
        assert listed == 2
        made += record_events(workspace)
        reading = start(lambda: read(workspace))
        until(lambda: count_waiting() or reading.done())
    page = reading.result()

    assert ids(page) + ids(read(workspace, page.cursor)) == made


@pytest.mark.django_db(transaction=True)
def test_locked_event_is_listed_later(api: Api):
    workspace = api.workspace
    locked, free = record_events(workspace, 2)
    rows = Event.objects.select_for_update(no_key=True)

    with uncommitted(lambda: rows.get(pk=locked)):
        first = read(workspace)

    assert (ids(first), first.has_more) == ([free], False)
    assert ids(read(workspace, first.cursor)) == [locked]


def test_place_is_later_than_any_before_when_the_clock_is_set_back(
    workspace: Workspace,
):
    (earlier,) = record_events(workspace)
    Event.objects.update(listed_at=now() + timedelta(days=1))
    first = read(workspace)
    later = record_events(workspace)

    assert ids(first) == [earlier]
    assert ids(read(workspace, first.cursor)) == later


def test_many_events_are_listed_in_several_requests(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(feed, "LIST_SIZE", 3)
    made = record_events(workspace, 7)

    found, cursor = [], None
    while True:
        page = read(workspace, cursor, size=2)
        found += ids(page)
        cursor = page.cursor
        if not page.has_more:
            break

    assert found == made


def test_page_reads_past_events_of_other_names(workspace: Workspace):
    record_events(workspace, 3)

    page = read(workspace, names=["report.failed"])

    assert (page.events, page.has_more) == ([], False)
    assert ids(read(workspace, page.cursor)) == []


@pytest.mark.parametrize(
    "fields", [{"payload": None}, {"restricted_at": datetime(2026, 1, 1, tzinfo=UTC)}]
)
def test_erased_and_restricted_events_are_left_out(
    workspace: Workspace, fields: dict[str, Any]
):
    listed, kept = record_events(workspace, 2)
    read(workspace)
    unlisted = record_events(workspace)
    Event.objects.filter(pk__in=[listed, *unlisted]).update(**fields)

    assert ids(read(workspace)) == [kept]


def test_events_are_served_for_30_days(workspace: Workspace):
    old, kept = record_events(workspace, 2)
    Event.objects.filter(pk=old).update(created_at=now() - timedelta(days=30, hours=1))
    Event.objects.filter(pk=kept).update(created_at=now() - timedelta(days=29))

    assert ids(read(workspace)) == [kept]


@pytest.mark.parametrize(("days", "is_kept"), [(29, True), (31, False)])
def test_cursor_expires_after_30_days(workspace: Workspace, days: int, is_kept: bool):
    cursor = Cursor(Place(now(), uuid7()), now() - timedelta(days=days))
    if is_kept:
        assert read(workspace, cursor).events == []
    else:
        with pytest.raises(CursorExpired):
            read(workspace, cursor)


def test_follower_of_a_quiet_feed_keeps_its_cursor_fresh(workspace: Workspace):
    record_events(workspace)
    old = now() - timedelta(days=29)
    Event.objects.update(created_at=old, listed_at=old)

    first = read(workspace)
    assert first.cursor.place.listed_at == old
    assert now() - first.cursor.read_until < timedelta(minutes=1)


def test_reader_of_the_oldest_events_has_time_for_the_next_page(workspace: Workspace):
    record_events(workspace, 2)
    Event.objects.update(created_at=now() - timedelta(days=30) + timedelta(minutes=1))

    cursor = read(workspace, size=1).cursor

    left = cursor.read_until - (now() - timedelta(days=30))
    assert timedelta(minutes=59) < left <= timedelta(hours=1)


def test_cursor_reads_its_own_text(workspace: Workspace):
    cursor = Cursor(Place(now(), uuid7()), now())

    assert Cursor.of(str(cursor)) == cursor
    assert str(cursor).replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize("text", ["", "x", "é", "A" * 42, "A" * 44, "_" * 43])
def test_text_that_is_no_cursor_is_refused(text: str):
    with pytest.raises(ValueError, match="not a cursor"):
        Cursor.of(text)
