"""Webhooks over HTTP: the configuration, deliveries, and sending events again."""

import re
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Self
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.http import Http404
from pydantic import AfterValidator, BeforeValidator, StrictBool, WithJsonSchema
from rest_framework.decorators import action
from rest_framework.request import Request

from verification.api.content import PageQuery
from verification.api.operations import OperationViewSet, PageEnvelope, operation
from verification.backoffice import audit
from verification.outbound.targets import Blocked, check_url
from verification.reports.request import MAX_FAULTS, RequestShape
from verification.values import formats
from verification.values.shapes import Shape, Timestamp, enumeration
from webhooks.configuration import NotConfigured, configure, remove
from webhooks.models import (
    Attempt,
    Configuration,
    Delivery,
    DeliveryStatus,
    Event,
    deliveries_of,
    list_deliveries,
)
from webhooks.redelivery import recover, redeliver, send_test
from webhooks.sender import signing_key
from workspaces.models import Client, Scope

EVENT_NAMES = Event.Name.values
SELECTABLE_EVENTS = [name for name in EVENT_NAMES if name != Event.Name.WEBHOOK_TEST]
SECRET_PATTERN = re.compile("[ -~]{16,128}")


def validate_url(value: str) -> str:
    try:
        check_url(value, settings.WEBHOOK_DEV_HOSTS)
    except Blocked as e:
        raise formats.format_error("invalid-format", str(e).removesuffix(".")) from e
    return value


def validate_secret(value: str) -> str:
    if not SECRET_PATTERN.fullmatch(value):
        raise formats.format_error(
            "invalid-format", "16 to 128 printable ASCII characters are needed"
        )
    try:
        signing_key(value)
    except ValueError as e:
        raise formats.format_error(
            "invalid-format",
            "After whsec_ there must be strict base64 of 24 to 64 bytes",
        ) from e
    return value


def one_of(name: str, names: list[str]) -> Any:
    def check(value: str) -> str:
        if value not in names:
            detail = f"One of {', '.join(names)} is needed"
            raise formats.format_error("invalid-choice", detail)
        return value

    return Annotated[str, AfterValidator(check), enumeration(name, names)]


def _leave_out_further_faults(value: Any) -> Any:
    """Leave out what follows more wrong names than an answer lists.

    A body has room for hundreds of thousands, and their faults would take seconds.
    """
    if not isinstance(value, list):
        return value
    wrong = (n for n, name in enumerate(value) if name not in SELECTABLE_EVENTS)
    last = next(islice(wrong, MAX_FAULTS, None), len(value))
    return value[: last + 1]


EnabledEvent = one_of("SelectableEvent", SELECTABLE_EVENTS)
EventName = one_of("EventName", EVENT_NAMES)
DisabledReason = one_of("DisabledReason", Configuration.DisabledReason.values)
ErrorCode = one_of("DeliveryError", Attempt.Error.values)
Url = Annotated[
    str,
    AfterValidator(validate_url),
    WithJsonSchema(
        {
            "type": "string",
            "format": "uri",
            "maxLength": 2048,
            "pattern": "^https://",
            "examples": ["https://hooks.acacia.example/verification"],
        }
    ),
]
Secret = Annotated[
    str,
    AfterValidator(validate_secret),
    WithJsonSchema({"type": "string", "pattern": "^[ -~]{16,128}$", "writeOnly": True}),
]


class WebhookConfigurationRequest(RequestShape):
    """The whole configuration. A member that you leave out gets its default, not its
    earlier value."""

    url: Url
    """https, port 443 or 8443, and a host name that is public."""
    enabled: StrictBool = True
    enabled_events: Annotated[
        list[EnabledEvent],  # type: ignore[valid-type]
        BeforeValidator(_leave_out_further_faults),
    ]
    """All events that you want to receive; with an empty list, none are delivered."""
    secret: Secret | None = None
    """16 to 128 printable ASCII characters. A secret that starts with whsec_ continues
    with strict base64 of 24 to 64 bytes. The first configuration needs a secret; leave
    it out later to keep the present one. After a change, both secrets sign for 24
    hours."""

    @property
    def events(self) -> list[str]:
        """Return each event once."""
        return list(dict.fromkeys(self.enabled_events))


class WebhookConfiguration(Shape):
    """The receiver of events, and its state. The secret is never returned."""

    id: UUID
    url: str
    enabled: bool
    enabled_events: list[EnabledEvent]  # type: ignore[valid-type]
    failures_in_row: int
    """Attempts that failed since the last success."""
    disabled_at: Timestamp | None
    """The moment at which the service disabled it; null if it did not."""
    disabled_reason: DisabledReason | None  # type: ignore[valid-type]
    """GONE: the receiver answered 410. FAILING: nothing was delivered for 5 days."""
    previous_secret_ends_at: Timestamp | None
    """Until then the previous secret signs, too."""
    created_at: Timestamp
    updated_at: Timestamp

    @classmethod
    def of(cls, configuration: Configuration) -> Self:
        reason = configuration.disabled_reason or None
        return cls.from_row(configuration, disabled_reason=reason)


class DeliveryQuery(PageQuery):
    """You can use all filters together."""

    event: EventName | None = None  # type: ignore[valid-type]
    """Only deliveries of this event."""
    status: DeliveryStatus | None = None
    """Only deliveries with this status."""
    report_id: UUID | None = None
    """Only deliveries of events about this report."""


class DeliverySummary(Shape):
    """The delivery of one event to the receiver."""

    id: UUID
    """The event's id, which is the `webhook-id` of every attempt."""
    event: EventName  # type: ignore[valid-type]
    status: DeliveryStatus
    attempt_count: int
    status_code: int | None
    """The status of the receiver's last answer."""
    report_id: UUID | None
    created_at: Timestamp
    next_attempt_at: Timestamp | None
    delivered_at: Timestamp | None

    @classmethod
    def of(cls, delivery: Delivery, **more: Any) -> Self:
        return cls.from_row(
            delivery,
            id=delivery.event_id,
            event=delivery.name,
            attempt_count=delivery.attempts,
            report_id=delivery.event.report_id,
            **more,
        )


class DeliveryPage(PageEnvelope):
    """One page of deliveries, newest first."""

    content: list[DeliverySummary]


class AttemptError(Shape):
    """The reason why there was no answer, or no valid one."""

    code: ErrorCode  # type: ignore[valid-type]
    message: str


class AttemptBody(Shape):
    """One request to the receiver."""

    number: int
    attempted_at: Timestamp
    url: str
    status_code: int | None
    duration_ms: int
    answer: str | None
    """The first 1 KiB of the answer's body; null without one, and after 30 days."""
    error: AttemptError | None

    @classmethod
    def of(cls, attempt: Attempt) -> Self:
        error = None
        if code := attempt.error:
            error = AttemptError(code=code, message=str(Attempt.Error(code).label))
        return cls.from_row(attempt, attempted_at=attempt.started_at, error=error)


class DeliveryBody(DeliverySummary):
    """One delivery with every attempt, the first one first."""

    attempts: list[AttemptBody]


class RecoverRequest(RequestShape):
    """The time since which failed events are sent again."""

    since: formats.PastMoment


class Recovered(Shape):
    """The number of deliveries that are sent again."""

    count: int


class WebhookConfigurationViewSet(OperationViewSet):
    """The configuration of the key's workspace, in the key's environment."""

    @operation(
        "configureWebhooks",
        "Create or replace the configuration",
        scope=Scope.WEBHOOKS_MANAGE,
        body=WebhookConfigurationRequest,
    )
    def create(self, request: Request) -> WebhookConfiguration:
        """Create the configuration, or replace the whole of it.

        Send the complete list of events, not a change. A replacement resets the count
        of failures, and sends the events that waited while it was disabled.
        """
        configuration = configure(
            *self.client.where,
            url=self.body.url,
            enabled=self.body.enabled,
            events=self.body.events,
            secret=self.body.secret,
            actor=self.actor,
        )
        return WebhookConfiguration.of(configuration)

    @operation(
        "getWebhookConfiguration",
        "Get the configuration",
        scope=Scope.WEBHOOKS_MANAGE,
        problems=("not-found",),
    )
    def retrieve(self, request: Request) -> WebhookConfiguration:
        """Get the receiver of events, the events that it wants, and its failures."""
        return WebhookConfiguration.of(_get_configuration(self.client))

    @operation(
        "deleteWebhookConfiguration",
        "Delete the configuration",
        scope=Scope.WEBHOOKS_MANAGE,
        status=204,
        outcome="Deleted.",
        problems=("not-found",),
    )
    def destroy(self, request: Request) -> None:
        """Delete the configuration. Events that still waited for it fail."""
        try:
            remove(*self.client.where, self.actor)
        except NotConfigured:
            raise Http404 from None


class DeliveryViewSet(OperationViewSet):
    """Deliveries of the key's workspace, in the key's environment."""

    lookup_url_kwarg = "deliveryId"
    lookup_description = "The id of the delivery: its event's id, and its `webhook-id`."

    @operation(
        "listDeliveries",
        "List deliveries",
        scope=Scope.WEBHOOKS_MANAGE,
        query=DeliveryQuery,
        answer=DeliveryPage,
    )
    def list(self, request: Request) -> PageEnvelope:
        """List deliveries, newest first. Get a single delivery to see its attempts.

        A client without a receiver pulls events by `GET /api/v1/events`.
        """
        report_id = self.query.report_id
        found = list_deliveries(
            *self.client.where,
            event=self.query.event,
            status=self.query.status,
            report_ids=[report_id] if report_id else None,
            page=self.query.page,
            size=self.query.size,
        )
        summaries = [DeliverySummary.of(delivery) for delivery in found.rows]
        return self.page_of(summaries, found.total)

    @operation("getDelivery", "Get a delivery", scope=Scope.WEBHOOKS_MANAGE)
    def retrieve(self, request: Request, deliveryId: UUID) -> DeliveryBody:
        """Get a delivery with every attempt."""
        return _delivery_body(self.client, deliveryId)

    @action(detail=True, methods=["post"])
    @operation(
        "redeliver",
        "Send an event again",
        scope=Scope.WEBHOOKS_MANAGE,
        status=202,
        problems=(
            "webhook-not-configured",
            "webhook-disabled",
            "event-purged",
            "event-restricted",
        ),
    )
    def redeliver(self, request: Request, deliveryId: UUID) -> DeliveryBody:
        """Send an event again on a new schedule, even if it was delivered.

        An event that is being sent at this moment is not sent twice.
        """
        with transaction.atomic():
            sent = redeliver(*self.client.where, deliveryId)
            if not sent.leased_until:
                audit.record("delivery.redelivered", self.actor, sent)
        return _delivery_body(self.client, deliveryId)


class WebhookSendingViewSet(OperationViewSet):
    """Events that are sent on request."""

    @action(detail=False, methods=["post"])
    @operation(
        "sendTestEvent",
        "Send a test event",
        scope=Scope.WEBHOOKS_MANAGE,
        status=202,
        problems=("webhook-not-configured", "webhook-disabled"),
    )
    def test(self, request: Request) -> DeliveryBody:
        """Send a `webhook.test` event, at most five in a minute.

        The configuration does not have to enable it.
        """
        delivery = send_test(*self.client.where)
        return _delivery_body(self.client, delivery.pk)

    @action(detail=False, methods=["post"])
    @operation(
        "recoverDeliveries",
        "Send failed events again",
        scope=Scope.WEBHOOKS_MANAGE,
        body=RecoverRequest,
        status=202,
        problems=("webhook-not-configured", "webhook-disabled"),
    )
    def recover(self, request: Request) -> Recovered:
        """Send again all events that were recorded since a time and have failed."""
        since = datetime.fromisoformat(self.body.since)
        with transaction.atomic():
            count = recover(*self.client.where, since)
            found = _get_configuration(self.client)
            audit.record("deliveries.recovered", self.actor, found)
        return Recovered(count=count)


def _get_configuration(client: Client) -> Configuration:
    return Configuration.objects.get(**client.lookups)


def _delivery_body(client: Client, delivery_id: UUID) -> DeliveryBody:
    """Return the client's delivery. Raises Delivery.DoesNotExist."""
    delivery = deliveries_of(*client.where).get(pk=delivery_id)
    attempts = [AttemptBody.of(attempt) for attempt in delivery.attempt_set.all()]
    return DeliveryBody.of(delivery, attempts=attempts)
