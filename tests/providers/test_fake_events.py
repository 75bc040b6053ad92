from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.checkouts import CheckoutServer
from tests.fakes.paystack import FakePaystack
from tests.fakes.stripe import FakeStripe
from tests.providers.checkout_contract import checkout_request
from tests.world.receiver import Receiver
from verification.providers.payment_provider import BadSignature, CheckoutProvider


@pytest.fixture(params=[FakePaystack, FakeStripe])
def fake(request: pytest.FixtureRequest) -> Iterator[Any]:
    with request.param() as fake:
        yield fake


@pytest.fixture
def provider(fake: Any) -> CheckoutProvider:
    return fake.adapter()


@pytest.fixture
def service() -> Iterator[Receiver]:
    with Receiver(None) as service:
        yield service


def address(service: Receiver) -> str:
    return f"http://127.0.0.1:{service.port}/"


def pay_two(fake: Any, provider: CheckoutProvider) -> list[str]:
    checkouts = [checkout_request() for _ in range(2)]
    for checkout in checkouts:
        provider.begin(checkout)
        fake.pay(checkout.reference)
    return [checkout.reference for checkout in checkouts]


def references(service: Receiver, provider: CheckoutProvider) -> list[str]:
    return [
        provider.read_event(received.body, received.headers).reference
        for received in service.received
    ]


def test_events_are_delivered_once_and_in_order(
    fake: Any, provider: CheckoutProvider, service: Receiver
):
    paid = pay_two(fake, provider)

    assert fake.deliver(address(service)) == [200, 200]
    assert fake.deliver(address(service)) == []

    assert references(service, provider) == paid


def test_events_are_delivered_as_they_happen(
    fake: Any, provider: CheckoutProvider, service: Receiver
):
    fake.webhook_url = address(service)

    assert references(service, provider) == []
    paid = pay_two(fake, provider)

    assert references(service, provider) == paid


@pytest.mark.parametrize(
    ("switch", "order"),
    [
        ("events_twice", [0, 0, 1, 1]),
        ("events_backwards", [1, 0]),
        ("events_lost", []),
    ],
)
def test_fake_loses_repeats_and_reorders_events(
    fake: Any,
    provider: CheckoutProvider,
    service: Receiver,
    switch: str,
    order: list[int],
):
    setattr(fake.faults, switch, True)
    paid = pay_two(fake, provider)

    fake.deliver(address(service))

    assert references(service, provider) == [paid[place] for place in order]


def test_event_with_a_wrong_signature_is_refused(
    fake: Any, provider: CheckoutProvider, service: Receiver
):
    fake.faults.wrong_signature = True
    pay_two(fake, provider)

    fake.deliver(address(service))

    with pytest.raises(BadSignature):
        references(service, provider)


def test_fake_resends_the_latest_event(
    fake: CheckoutServer, provider: CheckoutProvider, service: Receiver
):
    paid = pay_two(fake, provider)

    assert [fake.send_event(address(service)) for _ in range(2)] == [200, 200]

    assert references(service, provider) == [paid[1], paid[1]]
