"""Serve the events of a client in pages that it reads one after the other.

A follower that remembers its place must miss no event. Neither ids nor times of events
can be that place: both are made before the commit, so an event can appear behind a
follower that has read a later one. So an event gets its place, `listed_at`, after
its commit. A reader lists the events that are not listed yet, under a lock of
their feed, with a time that is later than all others of the feed. So a reader who sees
a place also sees every earlier place.

PostgreSQL's transaction ids as places would save the second write. But then a follower
would wait for the longest transaction of all workspaces, and a restored database begins
to count again. Events of clients that never read the feed get no place.
"""

import re
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self
from uuid import UUID

from django.db import connection, transaction

from verification.db.base import run_sql
from verification.values.clock import now
from webhooks.events import RETENTION
from webhooks.models import Event

# The most events that one request lists: a first request may find a month of them.
LIST_SIZE = 5_000
# A follower that reads old events has this long for the next page.
MIN_CURSOR_LIFE = timedelta(hours=1)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
CURSOR = struct.Struct(">Q16sQ")
# A packed cursor in base64, without padding
CURSOR_PATTERN = "[A-Za-z0-9_-]{43}"

# The condition of the index `events_to_pull`
FEED = """workspace_id = %(workspace)s AND environment = %(environment)s
    AND payload IS NOT NULL AND restricted_at IS NULL"""
# Each part is sorted as the index is. For EXISTS, PostgreSQL would read the whole table
# when it expects many rows and there are none.
STATE = f"""
SELECT (
    SELECT id FROM webhooks_event WHERE {FEED} AND listed_at IS NULL
    ORDER BY listed_at, id LIMIT 1
) IS NOT NULL, newest.listed_at, newest.id
FROM (VALUES (1)) one LEFT JOIN LATERAL (
    SELECT listed_at, id FROM webhooks_event WHERE {FEED} AND listed_at IS NOT NULL
    ORDER BY listed_at DESC, id DESC LIMIT 1
) newest ON true
"""  # noqa: S608
# Locks with two keys never meet the locks of jobs, which have one.
LOCK = """
SELECT pg_advisory_xact_lock(
    hashtext('events'), hashtext(%(workspace)s::text || %(environment)s)
)
"""
# The clock may have been set back, so a place is later than the last one.
LIST = f"""
WITH place AS (
    SELECT GREATEST(
        clock_timestamp(), max(listed_at) + interval '1 microsecond'
    ) AS at
    FROM webhooks_event WHERE {FEED} AND listed_at IS NOT NULL
), unlisted AS (
    SELECT id FROM webhooks_event WHERE {FEED} AND listed_at IS NULL
    ORDER BY listed_at, id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE webhooks_event e SET listed_at = place.at
FROM place, unlisted WHERE e.id = unlisted.id
"""  # noqa: S608
# The index alone finds the page; its last statement reads the payloads.
PAGE = f"""
WITH page AS MATERIALIZED (
    SELECT id FROM webhooks_event WHERE {FEED}
        AND (listed_at, id) > (%(after_at)s, %(after_id)s)
        AND (listed_at, id) <= (%(end_at)s, %(end_id)s)
        AND created_at >= %(since)s
        AND (%(names)s::text[] IS NULL OR name = ANY (%(names)s::text[]))
    ORDER BY listed_at, id LIMIT %(limit)s
)
SELECT e.id, e.name, e.created_at, e.report_id, e.payload, e.listed_at
FROM page JOIN webhooks_event e USING (id) ORDER BY e.listed_at, e.id
"""  # noqa: S608


class CursorExpired(Exception):
    """Events that follow the cursor are deleted, so a follower would miss them."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """The place of an event in its feed."""

    listed_at: datetime
    event_id: UUID

    @classmethod
    def of(cls, event: Event) -> Self:
        if event.listed_at is None:
            raise ValueError("the event has no place yet")
        return cls(event.listed_at, event.pk)


START = Place(EPOCH, UUID(int=0))


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place after which a client continues.

    The client has read all events that were recorded before `read_until`.
    """

    place: Place
    read_until: datetime

    def __str__(self) -> str:
        place = (self.place.listed_at - EPOCH) // MICROSECOND
        until = (self.read_until - EPOCH) // MICROSECOND
        packed = CURSOR.pack(place, self.place.event_id.bytes, until)
        return urlsafe_b64encode(packed).decode().rstrip("=")

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the cursor that has this text. Raises ValueError."""
        if not re.fullmatch(CURSOR_PATTERN, text):
            raise ValueError("not a cursor")
        place, event_id, until = CURSOR.unpack(urlsafe_b64decode(f"{text}="))
        try:
            times = [EPOCH + micros * MICROSECOND for micros in (place, until)]
        except OverflowError as e:
            raise ValueError("not a cursor") from e
        return cls(Place(times[0], UUID(bytes=event_id)), times[1])


@dataclass(frozen=True, slots=True)
class EventPage:
    events: list[Event]
    cursor: Cursor
    # True if more events can be read now.
    has_more: bool


def read_events(
    workspace_id: UUID,
    environment: str,
    *,
    cursor: Cursor | None,
    names: Sequence[str] | None,
    since: datetime | None,
    size: int,
) -> EventPage:
    """Return the events after the cursor, at most `size`, and its next cursor.

    Without a cursor the page begins with the oldest event that is kept. Events that are
    purged, erased or restricted are left out. Raises CursorExpired.
    """
    at = now()
    oldest = at - RETENTION
    if cursor and cursor.read_until < oldest:
        raise CursorExpired
    start = cursor.place if cursor else START
    feed = {"workspace": workspace_id, "environment": environment}
    has_unlisted, end = _read_state(feed)
    listed = 0
    if has_unlisted:
        listed = _list_events(feed)
        _, end = _read_state(feed)
    found: list[Event] = []
    if end > start:
        bounds = {"after_at": start.listed_at, "after_id": start.event_id}
        bounds |= {"end_at": end.listed_at, "end_id": end.event_id}
        values: dict[str, Any] = {
            **feed,
            **bounds,
            "since": max(since or oldest, oldest),
            "names": None if names is None else list(names),
            "limit": size + 1,
        }
        found = list(Event.objects.raw(PAGE, values))
    if len(found) > size:
        last = found[size - 1]
        until = max(last.created_at, oldest + MIN_CURSOR_LIFE)
        return EventPage(found[:size], Cursor(Place.of(last), until), has_more=True)
    # The place is also behind events of other names, which no later page reads.
    place = max(start, end)
    return EventPage(found, Cursor(place, at), has_more=listed == LIST_SIZE)


def _read_state(feed: dict[str, Any]) -> tuple[bool, Place]:
    """Return whether events wait for their place, and the last place that is taken."""
    [(has_unlisted, listed_at, event_id)] = run_sql(STATE, feed)
    return has_unlisted, Place(listed_at, event_id) if listed_at else START


@transaction.atomic
def _list_events(feed: dict[str, Any]) -> int:
    """Give events their places; return how many. Locked rows get theirs later."""
    with connection.cursor() as db:
        # A later statement, LIST sees what earlier holders of the lock have committed.
        db.execute(LOCK, feed)
        db.execute(LIST, {**feed, "limit": LIST_SIZE})
        return int(db.rowcount)
