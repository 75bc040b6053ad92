from typing import Any

import pytest
import requests
import stripe

from tests.fakes.stripe import FakeStripe
from tests.fakes.stripe import stripe_api as stripe_api
from tests.providers.checkout_contract import checkout_request
from verification.providers.payment_provider import CheckoutState


def params(**changes: Any) -> Any:
    item = {
        "quantity": 2,
        "price_data": {
            "currency": "kes",
            "unit_amount": 500,
            "product_data": {"name": "Tea"},
        },
    }
    good = {
        "mode": "payment",
        "line_items": [item],
        "success_url": "https://example.org/{CHECKOUT_SESSION_ID}",
        "client_reference_id": "order-1",
    }
    return {**good, **changes}


@pytest.fixture
def official(stripe_api: FakeStripe) -> Any:
    addresses: Any = {"api": stripe_api.url}
    return stripe.StripeClient(stripe_api.key, base_addresses=addresses).v1


def test_official_client_goes_through_the_fake(stripe_api: FakeStripe, official: Any):
    session = official.checkout.sessions.create(params())
    opened = session.amount_total, session.status, session.payment_status
    stripe_api.pay("order-1")
    expanded: Any = {"expand": ["payment_intent"]}
    paid = official.checkout.sessions.retrieve(session.id, expanded)
    refund = official.refunds.create({"payment_intent": paid.payment_intent.id})

    assert opened == (1000, "open", "unpaid")
    assert (paid.status, paid.payment_status) == ("complete", "paid")
    assert (refund.amount, refund.status) == (1000, "succeeded")
    assert official.charges.list().data[0].refunded


def test_official_client_accepts_the_fakes_events(
    stripe_api: FakeStripe, official: Any
):
    session = official.checkout.sessions.create(params())
    stripe_api.pay("order-1")

    body, headers = stripe_api.signed(stripe_api.events[0])
    signature = headers["Stripe-Signature"]
    event = stripe.Webhook.construct_event(body, signature, stripe_api.secret)

    assert event.data.object.id == session.id


@pytest.mark.parametrize(
    "change", [{"mode": "subscription"}, {"line_items": []}, {"expires_at": 1}], ids=str
)
def test_fake_refuses_what_stripe_refuses(official: Any, change: Any):
    with pytest.raises(stripe.InvalidRequestError):
        official.checkout.sessions.create(params(**change))


def test_fake_remembers_idempotency_keys(stripe_api: FakeStripe, official: Any):
    key = {"idempotency_key": "a"}
    first = official.checkout.sessions.create(params(), key)

    again = official.checkout.sessions.create(params(), key)
    with pytest.raises(stripe.IdempotencyError):
        official.checkout.sessions.create(params(client_reference_id="b"), key)

    assert again.id == first.id
    assert list(stripe_api.sessions) == [first.id]


def test_fake_requires_its_key(stripe_api: FakeStripe):
    addresses: Any = {"api": stripe_api.url}

    with pytest.raises(stripe.AuthenticationError):
        stripe.StripeClient("sk_wrong", base_addresses=addresses).v1.charges.list()


def test_payer_can_use_the_fakes_page(stripe_api: FakeStripe):
    provider = stripe_api.adapter()
    checkout = checkout_request(
        return_url="https://verify.example.org/{CHECKOUT_SESSION_ID}"
    )
    begun = provider.begin(checkout)
    tried = requests.post(begun.url, data={"choice": "fail"}, timeout=5)
    assert "insufficient funds" in tried.text

    left = requests.post(
        begun.url, data={"choice": "abandon"}, allow_redirects=False, timeout=5
    )
    assert left.headers["Location"] == checkout.cancel_url

    paid = requests.post(
        begun.url, data={"choice": "pay"}, allow_redirects=False, timeout=5
    )
    assert paid.headers["Location"] == f"https://verify.example.org/{begun.session}"
    assert "all done" in requests.get(begun.url, timeout=5).text
    assert provider.look(checkout.reference, begun.session).state == CheckoutState.PAID
