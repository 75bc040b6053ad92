"""The running service goes on while a migration adds columns to its tables."""

import pytest

from tests.service.conftest import Client
from tests.service.test_webhooks import configure
from tests.service.test_webhooks import receiver as receiver
from tests.world.clients import person
from tests.world.receiver import Receiver
from tests.world.service import Service
from tests.world.waiting import until

pytestmark = pytest.mark.slow
# A partition has the columns of its table.
TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace
    AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY 1
"""
# A statement is prepared when it runs for the fifth time on a connection.
REPORTS = 12


def order_until_delivered(client: Client, receiver: Receiver) -> None:
    """Order reports one by one; wait until each is READY and its events have come."""
    for _ in range(REPORTS):
        (made,) = client.order(person())
        until(lambda id=made["id"]: client.status(id) == "READY")
        until(lambda id=made["id"]: has_received(receiver, "report.ready", id))


def has_received(receiver: Receiver, event: str, report: str) -> bool:
    bodies = [request.body.decode() for request in list(receiver.received)]
    return any(event in body and report in body for body in bodies)


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
