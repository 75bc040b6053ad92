"""What tests of payments do: open checkouts, pay in the sandbox, and look."""

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
from verification.payments.registry import _live
from verification.payments.sandbox import end_sandbox_checkout
from verification.payments.settlement import poll_due_checkouts, poll_now
from verification.providers.payment_provider import CheckoutState

EMAIL = "wanjiku@example.test"
EVENTS = "/api/v1/webhooks/payment-provider"
PROVIDERS = ["paystack", "stripe"]


def candidate(**item: Any) -> dict[str, Any]:
    """A request item whose subject pays, KES 250 for its three checks."""
    return {**person(email=EMAIL), "paymentMode": "CANDIDATE", **item}


def payment_of(report: dict[str, Any]) -> Payment:
    return Payment.objects.get(report_id=report["id"])


def opened(report: dict[str, Any]) -> Checkout:
    """A checkout at the sandbox's provider, as the payer's click opens it."""
    payment = payment_of(report)
    checkout = open_checkout(payment.pk, payment.generation)
    if not checkout.url:
        open_at_provider(checkout, "en")
    checkout.refresh_from_db()
    return checkout


def paid(taker: CheckoutServer, api: Api) -> Checkout:
    """A checkout whose payer has paid, which nobody has told us yet."""
    checkout = opened(api.create(candidate()))
    taker.pay(checkout.reference)
    return checkout


def refused(answer: Any, status: int, code: str) -> dict[str, Any]:
    assert answer["Content-Type"] == "application/problem+json"
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer["X-Request-Id"] == answer.json()["requestId"]
    return answer.json()


def end(
    checkout: Checkout,
    state: CheckoutState = CheckoutState.PAID,
    *,
    pays: int | None = None,
    currency: str = "KES",
) -> Checkout:
    """The payer does so at the provider, and we look."""
    amount = None if pays is None else Decimal(pays)
    SandboxCheckout.objects.update(currency=currency)
    end_sandbox_checkout(checkout.reference, state, pays=amount)
    look(checkout)
    return checkout


def look(*checkouts: Checkout) -> None:
    poll_now(*(checkout.pk for checkout in checkouts))
    poll_due_checkouts()
    for checkout in checkouts:
        checkout.refresh_from_db()


def pay(api: Api, report: dict[str, Any]) -> dict[str, Any]:
    """The report after its payer has paid."""
    end(opened(report))
    return api.report(report["id"])


PRICE = Decimal(250)


def configuration(fake: CheckoutServer) -> tuple[str, tuple[str, dict[str, Any]]]:
    """What PAYMENT_PROVIDERS has for this fake: its name, and how it is asked."""
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
    """The fake of the provider that takes payments in production; one test for each."""
    fake = FakePaystack() if request.param == "paystack" else FakeStripe()
    yield from taking(fake, settings)


def taking(fake: Any, settings: Any) -> Iterator[Any]:
    """Run it as the provider that takes payments."""
    with fake:
        name, configured = configuration(fake)
        settings.PAYMENT_PROVIDER = name
        settings.PAYMENT_PROVIDERS = {name: configured}
        _live.cache_clear()
        yield fake
    _live.cache_clear()


def send(fake: CheckoutServer, event: dict[str, Any] | None = None) -> None:
    """An event, or the latest, comes in as the provider sends it."""
    body, headers = fake.signed(event or fake.events[-1])
    answer = sent(body, headers)
    assert (answer.status_code, answer.content) == (200, b"{}")


def sent(body: bytes, headers: dict[str, str]) -> Any:
    return HttpClient(enforce_csrf_checks=True, raise_request_exception=False).post(
        EVENTS, body, content_type="application/json", headers=headers
    )
