"""Events that clients without a receiver pull over HTTP."""

from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import AfterValidator, StringConstraints, WithJsonSchema
from rest_framework.request import Request

from verification.api.content import PageSize
from verification.api.operations import OperationViewSet, operation
from verification.api.webhooks import EVENT_NAMES, EventName
from verification.privacy.disclosures import record_disclosures
from verification.privacy.models import Channel
from verification.values import formats
from verification.values.shapes import Shape, Timestamp
from webhooks.events import envelope_members
from webhooks.feed import CURSOR_PATTERN, Cursor, read_events
from webhooks.models import Event
from workspaces.models import Scope


def _validate_types(value: str) -> str:
    if unknown := [name for name in value.split(",") if name not in EVENT_NAMES]:
        raise formats.format_error(
            "invalid-choice",
            f"{unknown[0] or 'An empty name'} is not an event. "
            f"The events are {', '.join(EVENT_NAMES)}",
        )
    return value


def _validate_cursor(value: str) -> str:
    try:
        Cursor.of(value)
    except ValueError as e:
        raise formats.format_error(
            "invalid-format", "Send the nextCursor of an earlier answer"
        ) from e
    return value


class PulledEventQuery(Shape):
    """Send `types` and `since` with each cursor: a cursor does not hold them."""

    cursor: (
        Annotated[
            str,
            AfterValidator(_validate_cursor),
            WithJsonSchema({"type": "string", "pattern": f"^{CURSOR_PATTERN}$"}),
        ]
        | None
    ) = None
    """The `nextCursor` of an earlier answer: only events that follow it. Without it the
    page begins with the oldest event."""
    types: (
        Annotated[
            str,
            StringConstraints(max_length=1000),
            AfterValidator(_validate_types),
            WithJsonSchema(
                {
                    "type": "string",
                    "maxLength": 1000,
                    "pattern": "^[a-z.]+(,[a-z.]+)*$",
                    "examples": ["report.ready,report.failed"],
                }
            ),
        ]
        | None
    ) = None
    """Only these events, with commas between their names."""
    since: formats.PastMoment | None = None
    """Only events that were raised at this time or later."""
    size: PageSize = 20
    """The most events on a page."""

    @property
    def names(self) -> list[str] | None:
        return self.types.split(",") if self.types else None


class PulledEvent(Shape):
    """An event as it is delivered to a receiver, and its id."""

    id: UUID
    """The `webhook-id` of its delivery."""
    event: EventName
    timestamp: Timestamp
    """When the event was raised."""
    data: dict[str, Any]
    """As in the webhook of this event."""

    @classmethod
    def of(cls, event: Event) -> Self:
        return cls(id=event.pk, **envelope_members(event))


class EventPage(Shape):
    """Events in the order in which to read them."""

    content: list[PulledEvent]
    next_cursor: str
    """The place after these events. Every page has one: store it, and send it to get
    the events that follow."""
    has_more: bool
    """Whether more events can be read at once, even if `content` is empty."""


class PulledEventViewSet(OperationViewSet):
    """Events of the key's workspace, in the key's environment."""

    @operation(
        "listEvents",
        "Pull events",
        scope=Scope.WEBHOOKS_MANAGE,
        query=PulledEventQuery,
        problems=("cursor-expired",),
    )
    def list(self, request: Request) -> EventPage:
        """Read the events of the last 30 days, whether or not a receiver gets them.

        Read a page, process it, store `nextCursor`, and send it with the next request:
        you miss no event. If `hasMore` is true, ask at once. The same cursor gets the
        same events, until they are deleted or new ones follow.
        """
        query: PulledEventQuery = self.query
        page = read_events(
            *self.client.where,
            cursor=Cursor.of(query.cursor) if query.cursor else None,
            names=query.names,
            since=datetime.fromisoformat(query.since) if query.since else None,
            size=query.size,
        )
        read = [
            event.report_id
            for event in page.events
            if event.report_id and event.name not in Event.IMPERSONAL_NAMES
        ]
        record_disclosures(read, Channel.API, self.client.actor)
        return EventPage(
            content=[PulledEvent.of(event) for event in page.events],
            next_cursor=str(page.cursor),
            has_more=page.has_more,
        )
