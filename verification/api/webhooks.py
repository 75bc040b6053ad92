"""Webhooks over HTTP: the configuration, deliveries, and sending events again."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from rest_framework.decorators import action
from rest_framework.request import Request

from verification.api import examples
from verification.api.operations import OperationViewSet, operation
from verification.api.query import PageEnvelope
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
from webhooks.configuration import configure, remove
from webhooks.models import Configuration, deliveries_of, list_deliveries
from webhooks.redelivery import recover, redeliver, send_test
from workspaces.models import Client, Scope


class WebhookConfigurationViewSet(OperationViewSet):
    """The configuration of the key's workspace, in the key's environment."""

    http_method_names = ["get", "head", "post", "delete"]

    @operation(
        "configureWebhooks",
        "Create or replace the configuration",
        scope=Scope.WEBHOOKS_MANAGE,
        body=WebhookConfigurationRequest,
        body_example=examples.CONFIGURATION_REQUEST,
        answer=WebhookConfiguration,
        example=examples.CONFIGURATION,
    )
    def create(self, request: Request) -> WebhookConfiguration:
        """Create the configuration, or replace it wholesale.

        The complete list of events is sent, not a change. Replacing it forgets the
        failures there were, and sends what has waited while it was disabled.
        """
        configuration, _ = configure(
            *_client_key(self.client),
            url=self.body.url,
            enabled=self.body.enabled,
            events=self.body.events,
            secret=self.body.secret,
        )
        return WebhookConfiguration.of(configuration)

    @operation(
        "getWebhookConfiguration",
        "Get the configuration",
        scope=Scope.WEBHOOKS_MANAGE,
        answer=WebhookConfiguration,
        example=examples.CONFIGURATION,
        problems=("not-found",),
    )
    def retrieve(self, request: Request) -> WebhookConfiguration:
        """Get where events are delivered, which ones, and how that goes."""
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
        """Delete the configuration. What still waited for it has failed."""
        _get_configuration(self.client)
        remove(*_client_key(self.client))


class DeliveryViewSet(OperationViewSet):
    """Deliveries of the key's workspace, in the key's environment."""

    http_method_names = ["get", "head", "post"]
    lookup_url_kwarg = "deliveryId"
    lookup_value_converter = "uuid"
    lookup_description = "The id of the delivery: its event's id, and its `webhook-id`."

    @operation(
        "listDeliveries",
        "List deliveries",
        scope=Scope.WEBHOOKS_MANAGE,
        query=DeliveryQuery,
        answer=DeliveryPage,
        example=examples.DELIVERIES,
    )
    def list(self, request: Request) -> PageEnvelope:
        """List deliveries, newest first. The attempts come with each single one."""
        found = list_deliveries(
            *_client_key(self.client),
            event=self.query.event,
            status=self.query.status,
            page=self.query.page,
            size=self.query.size,
        )
        summaries = [DeliverySummary.of(delivery) for delivery in found.deliveries]
        return self.page_of(summaries, found.total)

    @operation(
        "getDelivery",
        "Get a delivery",
        scope=Scope.WEBHOOKS_MANAGE,
        answer=DeliveryBody,
        example=examples.DELIVERY,
    )
    def retrieve(self, request: Request, deliveryId: UUID) -> DeliveryBody:
        """Get a delivery with every attempt."""
        return _delivery_body(self.client, deliveryId)

    @action(detail=True, methods=["post"])
    @operation(
        "redeliver",
        "Send an event again",
        scope=Scope.WEBHOOKS_MANAGE,
        status=202,
        answer=DeliveryBody,
        example=examples.PENDING_DELIVERY,
        problems=("webhook-not-configured", "webhook-disabled", "event-purged"),
    )
    def redeliver(self, request: Request, deliveryId: UUID) -> DeliveryBody:
        """Send an event again, whatever became of it, on a new schedule.

        One that is being sent at this moment is left alone.
        """
        redeliver(*_client_key(self.client), deliveryId)
        return _delivery_body(self.client, deliveryId)


class WebhookSendingViewSet(OperationViewSet):
    """Sending on request."""

    http_method_names = ["post"]

    @action(detail=False, methods=["post"])
    @operation(
        "sendTestEvent",
        "Send a test event",
        scope=Scope.WEBHOOKS_MANAGE,
        status=202,
        answer=DeliveryBody,
        example=examples.TEST_DELIVERY,
        problems=("webhook-not-configured", "webhook-disabled"),
    )
    def test(self, request: Request) -> DeliveryBody:
        """Send a `webhook.test` event, which needs not be enabled.

        Five a minute at most.
        """
        delivery = send_test(*_client_key(self.client))
        return _delivery_body(self.client, delivery.pk)

    @action(detail=False, methods=["post"])
    @operation(
        "recoverDeliveries",
        "Send again what failed",
        scope=Scope.WEBHOOKS_MANAGE,
        body=RecoverRequest,
        body_example={"since": "2026-01-15T08:00:00Z"},
        status=202,
        answer=Recovered,
        example={"count": 12},
        problems=("webhook-not-configured", "webhook-disabled"),
    )
    def recover(self, request: Request) -> Recovered:
        """Send everything again that was recorded since a time and has failed."""
        since = datetime.fromisoformat(self.body.since)
        return Recovered(count=recover(*_client_key(self.client), since))


def _client_key(client: Client) -> tuple[UUID, str]:
    return client.workspace.pk, client.environment


def _get_configuration(client: Client) -> Configuration:
    return Configuration.objects.get(
        workspace=client.workspace, environment=client.environment
    )


def _delivery_body(client: Client, delivery_id: UUID) -> DeliveryBody:
    """Raises Delivery.DoesNotExist for the deliveries of other clients too."""
    delivery = deliveries_of(*_client_key(client)).get(pk=delivery_id)
    attempts = [AttemptBody.of(attempt) for attempt in delivery.attempt_set.all()]
    return DeliveryBody.of(delivery, attempts=attempts)
