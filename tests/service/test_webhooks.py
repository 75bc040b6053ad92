"""The running service sends events to a receiver."""

import random
import time
from collections import Counter

import pytest
from standardwebhooks import Webhook

from tests.world.clients import person
from tests.world.deliveries import SECRET
from tests.world.receiver import Receiver, Script
from tests.world.waiting import until
from webhooks.models import Event
from webhooks.sender import signing_key

REPORTS = 150
EVENTS = 5 * REPORTS
ROUNDS = 4
# A lease ends 20 seconds after its claim.
DONE_SECONDS = 200
NAMES = [name for name in Event.Name.values if name != Event.Name.WEBHOOK_TEST]

LEFT = """
SELECT count(*) FROM webhooks_delivery
WHERE workspace_id = %s AND status <> 'DELIVERED'
"""
CLAIMS = "SELECT event_id::text, fence FROM webhooks_delivery WHERE workspace_id = %s"


@pytest.fixture
def receiver(service):
    with Receiver(service.authority.context("localhost")) as receiver:
        yield receiver


def configure(client, receiver: Receiver) -> None:
    answer = client.post(
        "/webhooks/config",
        {
            "url": receiver.url("/hook", host="localhost"),
            "enabledEvents": NAMES,
            "secret": SECRET,
        },
    )
    assert answer.status_code in {200, 201}, answer.text


@pytest.mark.slow
def test_events_arrive_soon_and_verify(service, client, receiver: Receiver):
    configure(client, receiver)
    client.order(person())
    for received in receiver.wait_for(5):
        Webhook(signing_key(SECRET)).verify(received.body, received.headers)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_events_arrive_while_workers_are_killed(
    service, unlimited_client, receiver: Receiver
):
    client = unlimited_client
    # Slow answers, so that workers are killed during requests.
    receiver.scripts["/hook"] = Script(drip=0.0005)
    configure(client, receiver)
    items = [person(idNumber=str(50000000 + n)) for n in range(REPORTS)]
    client.order(*items)
    for _ in range(ROUNDS):
        time.sleep(random.uniform(0.5, 3))
        # Right after a kill, the cluster may have no workers.
        while not (running := service.jobs_processes()[1:]):
            time.sleep(0.05)
        random.choice(running).kill()

    with service.connect() as connection:
        until(
            lambda: connection.execute(LEFT, [client.workspace]).fetchone() == (0,),
            lambda: service.log()[-3000:],
            seconds=DONE_SECONDS,
        )
        claims = dict(connection.execute(CLAIMS, [client.workspace]).fetchall())

    arrived = Counter(r.headers["webhook-id"] for r in receiver.received)
    assert len(claims) == EVENTS
    assert arrived.keys() == claims.keys()
    # An event arrives twice only if it was claimed twice, after a kill of its sender.
    assert {i: n for i, n in arrived.items() if n > claims[i]} == {}
    for received in receiver.received:
        Webhook(signing_key(SECRET)).verify(received.body, received.headers)
