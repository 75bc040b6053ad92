"""The running service goes on while a migration adds columns to its tables."""

import time

import pytest

from tests.service.conftest import Client
from tests.service.test_webhooks import authority as authority
from tests.service.test_webhooks import configure
from tests.service.test_webhooks import receiver as receiver
from tests.world.clients import person
from tests.world.receiver import Receiver
from tests.world.service import Service

pytestmark = pytest.mark.slow
TABLES = """
SELECT table_name FROM information_schema.tables
WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY 1
"""
# A statement is prepared when it runs for the fifth time on a connection.
REPORTS = 12


def order_until_delivered(client: Client, receiver: Receiver) -> None:
    """Order reports one by one; wait until each is READY and its events have come."""
    for _ in range(REPORTS):
        (made,) = client.order(person())
        deadline = time.monotonic() + 60
        while client.status(made["id"]) != "READY" or not any(
            made["id"].encode() in request.body and b"report.ready" in request.body
            for request in list(receiver.received)
        ):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_service_goes_on_while_every_table_gets_a_column(
    service: Service, client: Client, receiver: Receiver
) -> None:
    configure(client, receiver)
    order_until_delivered(client, receiver)
    before = len(service.log())
    with service.connect() as db:
        tables = [name for (name,) in db.execute(TABLES).fetchall()]
        db.execute("SET lock_timeout = '2s'")
        for table in tables:
            db.execute(f'ALTER TABLE "{table}" ADD added_later text')
    try:
        order_until_delivered(client, receiver)

        assert '"level":"ERROR"' not in service.log()[before:]
    finally:
        with service.connect() as db:
            for table in tables:
                db.execute(f'ALTER TABLE "{table}" DROP added_later')
