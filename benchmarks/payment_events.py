"""An event of a payment provider: its signature read, stored, and answered.

Each event is another one, as large as those of Paystack, about one of 100 checkouts;
then each comes again. Nobody is asked about them here: that is the work of jobs.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator
from decimal import Decimal
from itertools import count, cycle

from benchmarks.client import Connection
from benchmarks.measuring import Figure, bench, interleaved
from benchmarks.service import Service, client
from verification.payments.models import Checkout
from verification.providers.paystack import Paystack

MILLISECONDS = 50
PATH = "/api/v1/webhooks/payment-provider"
# Of `benchmarks.settings`.
KEY = "sk_live_of_no_worth"
PADDING = "x" * 1200


@bench(rounds=3)
def payment_events(service: Service, rounds: int = 500) -> Iterator[Figure]:
    checkouts, numbers = cycle(_opened(100)), count(1)
    with service.web():
        connection = Connection(service.port)
        latest = [_event(next(checkouts), 0)]

        def take() -> None:
            latest[0] = _event(next(checkouts), next(numbers))
            _send(connection, latest[0])

        def take_again() -> None:
            _send(connection, latest[0])

        new, again = interleaved(rounds, take, take_again, warm=10)
    # No later bench asks anybody about them.
    Checkout.objects.update(next_poll_at=None)
    yield Figure("a new event, stored and answered", new, target=MILLISECONDS)
    yield Figure("the 99th of 100", new, at=99, target=4 * MILLISECONDS)
    yield Figure("one that came before", again, target=MILLISECONDS)


def _opened(number: int) -> list[str]:
    owner, _ = client("production")
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
