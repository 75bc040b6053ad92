"""Paid checkouts and their refunds.

def test_something(paystack_api, paystack):
    checkout = paid(paystack_api, paystack)
    refund = ask(checkout, 100)
    send()
"""

from decimal import Decimal
from typing import Any

import pytest
from django.utils.timezone import now

from tests.fakes.paystack import FakePaystack
from tests.world.clients import Api
from tests.world.payments import candidate_item, open_page, poll_checkouts
from verification.backoffice.approvals import StaffActor
from verification.payments.checkouts import open_at_provider, open_top_up
from verification.payments.models import Checkout, Refund
from verification.payments.refunds import request_refund, send_refunds
from verification.payments.sandbox_provider import end_sandbox_checkout
from verification.providers.payment_provider import CheckoutState

GRACE, WANGARI = StaffActor(1, "staff grace"), StaffActor(2, "staff wangari")


def paystack_settings(paystack: FakePaystack) -> dict[str, Any]:
    options = {
        "secret_key": paystack.key,
        "url": paystack.url,
        "opened": [paystack.host],
        "fallback_email": "pay.example.org",
        "checkout_origin": paystack.url,
    }
    return {"paystack": ("verification.providers.paystack.Paystack", options)}


@pytest.fixture
def paystack_api(live_api: Api, paystack: FakePaystack, settings: Any) -> Api:
    """A production key of an installation that takes payments by Paystack."""
    settings.PAYMENT_PROVIDER = "paystack"
    settings.PAYMENT_PROVIDERS = paystack_settings(paystack)
    return live_api


def create_paid_checkout(
    api: Api, paystack: FakePaystack | None = None, **item: Any
) -> Checkout:
    """Create a report and pay it; return the checkout."""
    return settle_payment(open_page(api.create(candidate_item(**item))), paystack)


def create_paid_top_up(
    api: Api, amount: int, paystack: FakePaystack | None = None
) -> Checkout:
    checkout = open_top_up(api.account, Decimal(amount), "owner")
    open_at_provider(checkout, "en")
    return settle_payment(checkout, paystack)


def settle_payment(checkout: Checkout, paystack: FakePaystack | None) -> Checkout:
    if paystack:
        paystack.pay(checkout.reference)
    else:
        end_sandbox_checkout(checkout.reference, CheckoutState.PAID)
    poll_checkouts(checkout)
    return checkout


def create_refund(
    checkout: Checkout, amount: Any = None, by: StaffActor = GRACE, **more: Any
) -> Refund:
    """Request a refund of an amount, or of everything that is refundable."""
    checkout.refresh_from_db()
    total = checkout.refundable if amount is None else Decimal(amount)
    return request_refund(checkout.pk, total, reason="They asked", by=by, **more)


def send_waiting_refunds() -> None:
    """Send all refunds that wait, as the job does, without waiting for their time."""
    Refund.objects.filter(next_try_at__isnull=False).update(next_try_at=now())
    send_refunds()


def count_refund_requests(paystack: FakePaystack) -> int:
    """Count the refunds that the service has requested from the provider."""
    requests = [(r.method, r.path) for r in paystack.requests]
    return requests.count(("POST", "/refund"))
