"""Events of a payment provider: check the signature, store the event, answer.

Each event is new, as large as Paystack's, and about one of 100 checkouts; then it comes
a second time. The bench runs no jobs, so nothing polls the provider.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator
from decimal import Decimal
from itertools import count, cycle

from benchmarks.client import Connection
from benchmarks.figures import Figure, bench, interleaved
from benchmarks.service import Service, create_client
from verification.payments.models import Checkout
from verification.providers.paystack import Paystack

MILLISECONDS = 50
PATH = "/api/v1/webhooks/payment-provider"
# The same key as in `benchmarks.settings`.
KEY = "sk_live_of_no_worth"
PADDING = "x" * 1200


@bench(rounds=3)
def payment_events(service: Service, rounds: int = 500) -> Iterator[Figure]:
    checkouts, numbers = cycle(_open_checkouts(100)), count(1)
    with service.web():
        connection = Connection(service.port)
        latest = [_event(next(checkouts), 0)]

        def send_new() -> None:
            latest[0] = _event(next(checkouts), next(numbers))
            _send(connection, latest[0])

        def send_again() -> None:
            _send(connection, latest[0])

        new, again = interleaved(rounds, send_new, send_again, warm=10)
    # Later benches must not poll these checkouts.
    Checkout.objects.update(next_poll_at=None)
    yield Figure("a new event, stored and answered", new, target=MILLISECONDS)
    yield Figure("the 99th of 100", new, at=99, target=4 * MILLISECONDS)
    yield Figure("a repeated event", again, target=MILLISECONDS)


def _open_checkouts(number: int) -> list[str]:
    owner, _ = create_client("production")
    opened = Checkout.objects.bulk_create(
        Checkout(
            account=owner.account,
            environment="production",
            provider=Paystack.name,
            amount=Decimal(1000),
            currency="KES",
            started_by="bench",
        )
        for _ in range(number)
    )
    return [checkout.reference for checkout in opened]


def _event(reference: str, number: int) -> bytes:
    data = {"id": number, "reference": reference, "amount": 100_000, "log": PADDING}
    body = json.dumps({"event": "charge.success", "data": data}).encode()
    signature = hmac.new(KEY.encode(), body, "sha512").hexdigest()
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\n"
        f"X-Paystack-Signature: {signature}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _send(connection: Connection, message: bytes) -> None:
    status, body = connection.send(message)
    assert (status, body) == (200, b"{}"), body
