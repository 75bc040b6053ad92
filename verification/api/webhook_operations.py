"""What the OpenAPI document says of webhooks: the operations, and what is delivered."""

from __future__ import annotations

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    OpenApiResponse,
    OpenApiWebhook,
    extend_schema,
    extend_schema_view,
)

from verification.api import examples
from verification.api.event_shapes import EVENTS
from verification.api.operations import operation, query_parameters
from verification.api.webhook_shapes import (
    DeliveryBody,
    DeliveryPage,
    DeliveryQuery,
    Recovered,
    RecoverRequest,
    WebhookConfiguration,
    WebhookConfigurationRequest,
)
from webhooks.models import Event

DELIVERY_ID = OpenApiParameter(
    "deliveryId",
    OpenApiTypes.UUID,
    OpenApiParameter.PATH,
    description="The id of the delivery: its event's id, and its `webhook-id`.",
)
SIGNATURE_DESCRIPTION = (
    "Signed as [Standard Webhooks](https://www.standardwebhooks.com/) say: `webhook-id`"
    " is the same on every attempt, `webhook-timestamp` is the attempt's, and "
    "`webhook-signature` has a signature for each secret that counts."
)
RECEIVER_RESPONSES = {
    "2XX": OpenApiResponse(description="Received: it is not sent again."),
    "410": OpenApiResponse(description="Gone: the configuration is disabled."),
    "default": OpenApiResponse(description="Not received: it is sent again later."),
}

describe_configuration = extend_schema_view(
    create=operation(
        "configureWebhooks",
        "Create or replace the configuration",
        WebhookConfiguration,
        examples.CONFIGURATION,
        request=WebhookConfigurationRequest,
        request_example=examples.CONFIGURATION_REQUEST,
    ),
    retrieve=operation(
        "getWebhookConfiguration",
        "Get the configuration",
        WebhookConfiguration,
        examples.CONFIGURATION,
    ),
    destroy=extend_schema(
        operation_id="deleteWebhookConfiguration",
        summary="Delete the configuration",
        request=None,
        responses={204: OpenApiResponse(description="Deleted.")},
    ),
)
describe_deliveries = extend_schema_view(
    list=operation(
        "listDeliveries",
        "List deliveries",
        DeliveryPage,
        examples.DELIVERIES,
        parameters=query_parameters(DeliveryQuery),
    ),
    retrieve=operation(
        "getDelivery",
        "Get a delivery",
        DeliveryBody,
        examples.DELIVERY,
        parameters=[DELIVERY_ID],
    ),
    redeliver=operation(
        "redeliver",
        "Send an event again",
        DeliveryBody,
        examples.PENDING_DELIVERY,
        status=202,
        parameters=[DELIVERY_ID],
    ),
)
describe_sending = extend_schema_view(
    test=operation(
        "sendTestEvent",
        "Send a test event",
        DeliveryBody,
        examples.TEST_DELIVERY,
        status=202,
    ),
    recover=operation(
        "recoverDeliveries",
        "Send again what failed",
        Recovered,
        {"count": 12},
        status=202,
        request=RecoverRequest,
        request_example={"since": "2026-01-15T08:00:00Z"},
    ),
)


class _ReceiverSchema(AutoSchema):
    """Of what clients offer: it has neither our key nor our problems."""


def _event_webhook(name: Event.Name) -> OpenApiWebhook:
    shape = EVENTS[name.value]
    example = OpenApiExample(name.value, examples.EVENTS[name.value])

    def describe(view: Any) -> Any:
        view.schema = _ReceiverSchema()
        return extend_schema(
            operation_id=f"receive{shape.__name__.removesuffix('Event')}",
            summary=str(name.label).removesuffix("."),
            description=SIGNATURE_DESCRIPTION,
            tags=["webhooks"],
            request=shape,
            responses=RECEIVER_RESPONSES,
            examples=[example],
        )(view)

    return OpenApiWebhook(name.value, describe)


# Each under a name of its own, by which the settings import it.
REPORT_CREATED = _event_webhook(Event.Name.REPORT_CREATED)
REPORT_READY = _event_webhook(Event.Name.REPORT_READY)
REPORT_FAILED = _event_webhook(Event.Name.REPORT_FAILED)
CHECK_COMPLETED = _event_webhook(Event.Name.CHECK_COMPLETED)
CHECK_FAILED = _event_webhook(Event.Name.CHECK_FAILED)
REFERENCE_SUBMITTED = _event_webhook(Event.Name.REFERENCE_SUBMITTED)
MONITORING_ALERT_CREATED = _event_webhook(Event.Name.MONITORING_ALERT_CREATED)
PAYMENT_PAID = _event_webhook(Event.Name.PAYMENT_PAID)
WEBHOOK_TEST = _event_webhook(Event.Name.WEBHOOK_TEST)
