"""Webhooks over HTTP: where events go, how that went, and sending them again."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from pydantic import ValidationError
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet, ViewSet

from verification.api.body import (
    body_of,
    client_of,
    refuse_body,
    refuse_unknown_parameters,
)
from verification.api.query import build_page, read_query
from verification.api.webhook_operations import (
    describe_configuration,
    describe_deliveries,
    describe_sending,
)
from verification.api.webhook_shapes import (
    AttemptBody,
    DeliveryBody,
    DeliveryPage,
    DeliveryQuery,
    DeliverySummary,
    Recovered,
    RecoverRequest,
    WebhookConfiguration,
    WebhookConfigurationRequest,
)
from verification.reports.request import InvalidRequest, RequestShape, shape_faults
from webhooks.configuration import configure, remove
from webhooks.models import Configuration
from webhooks.queries import deliveries_of, list_deliveries
from webhooks.redelivery import recover, redeliver, send_test
from workspaces.models import Client, Scope

Body = TypeVar("Body", bound=RequestShape)


@describe_configuration
class WebhookConfigurationViewSet(ViewSet):
    """The configuration of the key's workspace, in the key's environment."""

    http_method_names = ["get", "head", "post", "delete"]
    required_scopes = {
        "create": Scope.WEBHOOKS_MANAGE,
        "retrieve": Scope.WEBHOOKS_MANAGE,
        "destroy": Scope.WEBHOOKS_MANAGE,
    }
    problem_codes = {"retrieve": ("not-found",), "destroy": ("not-found",)}

    def create(self, request: Request) -> Response:
        """Create the configuration, or replace it wholesale.

        The complete list of events is sent, not a change. Replacing it forgets the
        failures there were, and sends what has waited while it was disabled.
        """
        refuse_unknown_parameters(request, ())
        asked = _parse_body(WebhookConfigurationRequest, request)
        configuration, _ = configure(
            *_client_key(client_of(request)),
            url=asked.url,
            enabled=asked.enabled,
            events=asked.events,
            secret=asked.secret,
        )
        return Response(WebhookConfiguration.of(configuration))

    def retrieve(self, request: Request) -> Response:
        """Get where events are delivered, which ones, and how that goes."""
        refuse_unknown_parameters(request, ())
        return Response(WebhookConfiguration.of(_get_configuration(client_of(request))))

    def destroy(self, request: Request) -> Response:
        """Delete the configuration. What still waited for it has failed."""
        refuse_unknown_parameters(request, ())
        client = client_of(request)
        _get_configuration(client)
        remove(*_client_key(client))
        return Response(status=204)


@describe_deliveries
class DeliveryViewSet(GenericViewSet):
    """Deliveries of the key's workspace, in the key's environment."""

    http_method_names = ["get", "head", "post"]
    lookup_url_kwarg = "deliveryId"
    lookup_value_converter = "uuid"
    required_scopes = {
        "list": Scope.WEBHOOKS_MANAGE,
        "retrieve": Scope.WEBHOOKS_MANAGE,
        "redeliver": Scope.WEBHOOKS_MANAGE,
    }
    problem_codes = {
        "redeliver": ("webhook-not-configured", "webhook-disabled", "event-purged"),
    }

    def list(self, request: Request) -> Response:
        """List deliveries, newest first. The attempts come with each single one."""
        query = read_query(request, DeliveryQuery)
        found = list_deliveries(
            *_client_key(client_of(request)),
            event=query.event,
            status=query.status,
            page=query.page,
            size=query.size,
        )
        summaries = [DeliverySummary.of(delivery) for delivery in found.deliveries]
        return Response(
            build_page(
                DeliveryPage, summaries, found.total, page=query.page, size=query.size
            )
        )

    def retrieve(self, request: Request, deliveryId: UUID) -> Response:
        """Get a delivery with every attempt."""
        refuse_unknown_parameters(request, ())
        return Response(_body(client_of(request), deliveryId))

    @action(detail=True, methods=["post"])
    def redeliver(self, request: Request, deliveryId: UUID) -> Response:
        """Send an event again, whatever became of it, on a new schedule.

        One that is being sent at this moment is left alone.
        """
        refuse_unknown_parameters(request, ())
        refuse_body(request)
        client = client_of(request)
        redeliver(*_client_key(client), deliveryId)
        return Response(_body(client, deliveryId), status=202)


@describe_sending
class WebhookSendingViewSet(ViewSet):
    """Sending on request."""

    http_method_names = ["post"]
    required_scopes = {
        "test": Scope.WEBHOOKS_MANAGE,
        "recover": Scope.WEBHOOKS_MANAGE,
    }
    problem_codes = {
        "test": ("webhook-not-configured", "webhook-disabled"),
        "recover": ("webhook-not-configured", "webhook-disabled"),
    }

    @action(detail=False, methods=["post"])
    def test(self, request: Request) -> Response:
        """Send a `webhook.test` event, which needs not be enabled.

        Five a minute at most.
        """
        refuse_unknown_parameters(request, ())
        refuse_body(request)
        client = client_of(request)
        delivery = send_test(*_client_key(client))
        return Response(_body(client, delivery.pk), status=202)

    @action(detail=False, methods=["post"])
    def recover(self, request: Request) -> Response:
        """Send everything again that was recorded since a time and has failed."""
        refuse_unknown_parameters(request, ())
        asked = _parse_body(RecoverRequest, request)
        since = datetime.fromisoformat(asked.since)
        count = recover(*_client_key(client_of(request)), since)
        return Response(Recovered(count=count), status=202)


def _client_key(client: Client) -> tuple[UUID, str]:
    return client.workspace.pk, client.environment


def _get_configuration(client: Client) -> Configuration:
    return Configuration.objects.get(
        workspace=client.workspace, environment=client.environment
    )


def _body(client: Client, delivery_id: UUID) -> DeliveryBody:
    """A stranger's delivery is not found, like one that does not exist."""
    delivery = deliveries_of(*_client_key(client)).get(pk=delivery_id)
    attempts = [AttemptBody.of(attempt) for attempt in delivery.attempt_set.all()]
    return DeliveryBody.of(delivery, attempts=attempts)


def _parse_body(shape: type[Body], request: Request) -> Body:
    body: Any = body_of(request)
    try:
        return shape.model_validate(body)
    except ValidationError as e:
        raise InvalidRequest(shape_faults(e)) from e
