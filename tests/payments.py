"""What tests of payments do: open checkouts, pay in the sandbox, and look."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from tests.clients import Api, person
from verification.ordering.looking import look_at_due, look_now
from verification.ordering.paying import begin, open_checkout
from verification.payments.models import Checkout, Payment
from verification.payments.sandbox import play
from verification.providers.checkout import CheckoutState

EMAIL = "wanjiku@example.test"


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
        begin(checkout, "en")
    checkout.refresh_from_db()
    return checkout


def end(
    checkout: Checkout,
    state: CheckoutState = CheckoutState.PAID,
    *,
    surplus: bool = False,
) -> Checkout:
    """The payer does so at the provider, and we look."""
    play(checkout.reference, state, surplus=surplus)
    look(checkout)
    return checkout


def look(*checkouts: Checkout) -> None:
    look_now(*(checkout.pk for checkout in checkouts))
    look_at_due()
    for checkout in checkouts:
        checkout.refresh_from_db()


def pay(api: Api, report: dict[str, Any]) -> dict[str, Any]:
    """The report after its payer has paid."""
    end(opened(report))
    return api.report(report["id"])


PRICE = Decimal(250)
