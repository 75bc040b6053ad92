"""The events in the OpenAPI document: their envelopes, and an example of each."""

from typing import Any, Literal

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiResponse,
    OpenApiWebhook,
    extend_schema,
)
from pydantic import create_model

from monitoring.alerts import AlertData
from verification.api.examples import read_examples
from verification.checks.events import (
    CheckData,
    CheckFailedData,
    DecisionData,
    PaidData,
    ReferenceData,
    ReportData,
    ReportFailedData,
)
from verification.privacy.rights_events import (
    CorrectionData,
    ErasedData,
    RestrictedData,
)
from verification.values.shapes import Shape, Timestamp
from webhooks.models import Event
from webhooks.redelivery import TestData

DATA: dict[Event.Name, type[Shape]] = {
    Event.Name.REPORT_CREATED: ReportData,
    Event.Name.REPORT_READY: ReportData,
    Event.Name.REPORT_FAILED: ReportFailedData,
    Event.Name.CHECK_COMPLETED: CheckData,
    Event.Name.CHECK_FAILED: CheckFailedData,
    Event.Name.REFERENCE_SUBMITTED: ReferenceData,
    Event.Name.MONITORING_ALERT_CREATED: AlertData,
    Event.Name.PAYMENT_PAID: PaidData,
    Event.Name.CORRECTION_OPENED: CorrectionData,
    Event.Name.CORRECTION_CLOSED: CorrectionData,
    Event.Name.REPORT_DECIDED: DecisionData,
    Event.Name.REPORT_RESTRICTED: RestrictedData,
    Event.Name.REPORT_ERASED: ErasedData,
    Event.Name.WEBHOOK_TEST: TestData,
}


class Envelope(Shape):
    """The body of a delivery."""

    timestamp: Timestamp
    """When the event was raised; the same on every attempt."""


def _envelope_of(name: str, data: type[Shape]) -> type[Envelope]:
    """Return the shape of an event, such as `ReportCreatedEvent`."""
    shape_name = "".join(part.capitalize() for part in name.split(".")) + "Event"
    return create_model(
        shape_name,
        __base__=Envelope,
        event=(Literal[name], ...),  # type: ignore[arg-type]
        data=(data, ...),
    )


EVENTS = {name.value: _envelope_of(name.value, data) for name, data in DATA.items()}
EXAMPLES: dict[str, dict[str, Any]] = {
    name: {"event": name, **example}
    for name, example in read_examples()["events"].items()
}

SIGNATURE_DESCRIPTION = (
    "Signed as [Standard Webhooks](https://www.standardwebhooks.com/): all attempts "
    "have one `webhook-id`, and a signature for each valid secret."
)
RECEIVER_RESPONSES = {
    "2XX": OpenApiResponse(description="Received: it is not sent again."),
    "410": OpenApiResponse(description="Gone: the configuration is disabled."),
    "default": OpenApiResponse(description="Not received: it is sent again later."),
}


def _event_webhook(name: Event.Name) -> OpenApiWebhook:
    shape = EVENTS[name.value]
    example = OpenApiExample(name.value, EXAMPLES[name.value])

    def describe(view: Any) -> Any:
        # A client's receiver has no API key and no problems.
        view.schema = AutoSchema()
        return extend_schema(
            operation_id=f"receive{shape.__name__.removesuffix('Event')}",
            summary=str(name.label).removesuffix("."),
            description=SIGNATURE_DESCRIPTION,
            # Generators of clients write one file for each tag of either kind.
            tags=["receiver"],
            request=shape,
            responses=RECEIVER_RESPONSES,
            examples=[example],
        )(view)

    return OpenApiWebhook(name.value, describe)


WEBHOOKS = [_event_webhook(name) for name in Event.Name]
