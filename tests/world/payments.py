"""Open checkouts, pay in the sandbox or at a fake provider, and poll."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client as HttpClient

from tests.fakes.checkouts import CheckoutServer
from tests.fakes.paystack import FakePaystack
from tests.fakes.stripe import FakeStripe
from tests.world.clients import Api, person
from verification.payments.checkouts import open_at_provider, open_checkout
from verification.payments.models import Checkout, Payment, SandboxCheckout
from verification.payments.sandbox_provider import end_sandbox_checkout
from verification.payments.settlement import poll_due_checkouts, poll_now
from verification.providers.payment_provider import CheckoutState

EMAIL = "wanjiku@example.test"
EVENTS = "/api/v1/webhooks/payment-provider"
PROVIDERS = ["paystack", "stripe"]


def candidate_item(**item: Any) -> dict[str, Any]:
    """Return an item whose subject pays KES 250 for three checks."""
    return {**person(email=EMAIL), "paymentMode": "CANDIDATE", **item}


def payment_of(report: dict[str, Any]) -> Payment:
    return Payment.objects.get(report_id=report["id"])


def open_page(report: dict[str, Any]) -> Checkout:
    """Open a checkout at the sandbox's provider, as the payer's click does."""
    payment = payment_of(report)
    checkout = open_checkout(payment.pk, payment.generation)
    if not checkout.url:
        open_at_provider(checkout, "en")
    checkout.refresh_from_db()
    return checkout


def create_checkout_paid_at_provider(taker: CheckoutServer, api: Api) -> Checkout:
    """Create a checkout that is paid, but was not polled since."""
    checkout = open_page(api.create(candidate_item()))
    taker.pay(checkout.reference)
    return checkout


def assert_refused(answer: Any, status: int, code: str) -> dict[str, Any]:
    assert answer["Content-Type"] == "application/problem+json"
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer["X-Request-Id"] == answer.json()["requestId"]
    return answer.json()


def end_checkout(
    checkout: Checkout,
    state: CheckoutState = CheckoutState.PAID,
    *,
    pays: int | None = None,
    currency: str = "KES",
) -> Checkout:
    """End a checkout at the sandbox's provider and poll it."""
    amount = None if pays is None else Decimal(pays)
    SandboxCheckout.objects.update(currency=currency)
    end_sandbox_checkout(checkout.reference, state, pays=amount)
    poll_checkouts(checkout)
    return checkout


def poll_checkouts(*checkouts: Checkout) -> None:
    for checkout in checkouts:
        poll_now(checkout.pk)
    poll_due_checkouts()
    for checkout in checkouts:
        checkout.refresh_from_db()


def pay_report(api: Api, report: dict[str, Any]) -> dict[str, Any]:
    """Pay a report; return the report afterwards."""
    end_checkout(open_page(report))
    return api.report(report["id"])


PRICE = Decimal(250)


def provider_settings(fake: CheckoutServer) -> tuple[str, tuple[str, dict[str, Any]]]:
    """Return the name and the entry of this fake in PAYMENT_PROVIDERS."""
    options = {"url": fake.url, "opened": [fake.host], "checkout_origin": fake.url}
    if isinstance(fake, FakePaystack):
        path = "verification.providers.paystack.Paystack"
        return "paystack", (path, {**options, "secret_key": fake.key})
    assert isinstance(fake, FakeStripe)
    path = "verification.providers.stripe_checkout.StripeCheckout"
    secrets = {"secret_key": fake.key, "webhook_secrets": [fake.secret]}
    return "stripe", (path, {**options, **secrets})


@pytest.fixture(params=PROVIDERS)
def taker(request: pytest.FixtureRequest, settings: Any) -> Iterator[CheckoutServer]:
    """Run the test once for each fake payment provider of production."""
    fake = FakePaystack() if request.param == "paystack" else FakeStripe()
    yield from run_provider(fake, settings)


def run_provider(fake: Any, settings: Any) -> Iterator[Any]:
    """Run a fake as the provider of payments."""
    with fake:
        name, configured = provider_settings(fake)
        settings.PAYMENT_PROVIDER = name
        settings.PAYMENT_PROVIDERS = {name: configured}
        yield fake


def send_event(fake: CheckoutServer, event: dict[str, Any] | None = None) -> None:
    """Post an event, or the latest, as the provider sends it."""
    body, headers = fake.signed(event or fake.events[-1])
    answer = post_event(body, headers)
    assert (answer.status_code, answer.content) == (200, b"{}")


def post_event(body: bytes, headers: dict[str, str]) -> Any:
    return HttpClient(enforce_csrf_checks=True, raise_request_exception=False).post(
        EVENTS, body, content_type="application/json", headers=headers
    )
