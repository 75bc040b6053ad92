import json

import pytest

from tests.world.clients import Api
from tests.world.deliveries import put_configuration
from tests.world.payments import candidate_item, pay_report
from verification.api.docs import document
from verification.api.events import EVENTS, EXAMPLES
from verification.api.examples import read_examples
from verification.api.webhooks import (
    DeliveryBody,
    DeliverySummary,
    WebhookConfiguration,
)
from webhooks.events import envelope
from webhooks.models import Event


def test_every_event_is_described_with_its_envelope_and_an_example():
    webhooks = document()["webhooks"]
    components = document()["components"]["schemas"]

    assert list(webhooks) == list(Event.Name.values)
    for name, shape in EVENTS.items():
        operation = webhooks[name]["post"]
        assert operation["summary"] == Event.Name(name).label.removesuffix(".")
        content = operation["requestBody"]["content"]["application/json"]
        assert content["schema"]["$ref"].endswith(f"/{shape.__name__}")
        described = components[shape.__name__]
        assert set(described["required"]) == {"event", "timestamp", "data"}
        assert described["properties"]["event"]["const"] == name
        (example,) = content["examples"].values()
        assert example["value"] == EXAMPLES[name]
        assert "2XX" in operation["responses"]


@pytest.mark.parametrize("name", EVENTS)
def test_example_of_an_event_has_its_shape(name: str):
    example = EXAMPLES[name]

    read = EVENTS[name].model_validate(example)

    assert read.model_dump(mode="json", by_alias=True) == example


def test_payment_event_has_the_documented_shape(api: Api):
    pay_report(api, api.create(candidate_item(reference="loan-4711")))
    sent = json.loads(envelope(Event.objects.get(name="payment.paid")))

    read = EVENTS["payment.paid"].model_validate(sent)

    assert read.model_dump(mode="json", by_alias=True) == sent
    assert sent["data"].keys() == EXAMPLES["payment.paid"]["data"].keys()
    assert sent["data"]["report"]["reference"] == "loan-4711"


def test_examples_match_requests_and_answers(api: Api):
    found = read_examples()
    operations = found["operations"]
    configured = operations["configureWebhooks"]

    answer = put_configuration(api, **configured["request"])

    assert answer.keys() == configured["answer"].keys()
    for shape, example in (
        (WebhookConfiguration, configured["answer"]),
        (DeliveryBody, operations["getDelivery"]["answer"]),
        (DeliveryBody, operations["redeliver"]["answer"]),
        (DeliveryBody, operations["sendTestEvent"]["answer"]),
        (DeliverySummary, found["parts"]["summary"]),
    ):
        read = shape.model_validate(example)
        assert read.model_dump(mode="json", by_alias=True) == example
