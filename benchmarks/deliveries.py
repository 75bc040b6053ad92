"""Webhooks: delay and rate of deliveries, also beside receivers that hang."""

from __future__ import annotations

import asyncio
import os
import random
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import trustme
from django.db import transaction
from django.utils.timezone import now

from benchmarks.figures import Figure, bench, timed
from benchmarks.service import Service, free_port
from verification.db.bulk_insert import insert
from verification.jobs.queue import notify_on_commit
from verification.values.shapes import Shape
from webhooks.attempts import MAX_CONCURRENT_REQUESTS, claim
from webhooks.events import NewEvent, envelope, event_rows
from webhooks.models import Configuration, Delivery, Event
from workspaces.create import create_workspace
from workspaces.models import Account, Workspace

READY = Event.Name.REPORT_READY
SECRET = "correct horse battery staple 42!"  # noqa: S105
HANGING, HEALTHY = 5, 15
WAITING = """
SELECT count(*) FROM webhooks_delivery
WHERE next_attempt_at IS NOT NULL AND configuration_id = ANY(%s)
"""


class Data(Shape):
    """What the deliveries carry: about as much as an event of a report."""

    text: str = "x" * 1_900


class Receiver:
    """Runs `benchmarks.receiver` in its own process with a trusted certificate."""

    def __init__(self, service: Service) -> None:
        self.port, self._log = free_port(), service.folder / f"received-{uuid4()}"
        self._log.touch()
        authority = trustme.CA()
        self.authority, certificate = service.folder / "ca.pem", service.folder / "cert"
        authority.cert_pem.write_to_path(str(self.authority))
        issued = authority.issue_cert("localhost")
        issued.private_key_and_cert_chain_pem.write_to_path(str(certificate))
        self.command = (
            "-m",
            "benchmarks.receiver",
            str(self.port),
            str(certificate),
            str(self._log),
        )

    def url(self, path: str = "/hook") -> str:
        return f"https://localhost:{self.port}{path}"

    def received(self) -> dict[UUID, float]:
        """Return event id -> the time of its first byte."""
        lines = (line.split() for line in self._log.read_text().splitlines())
        return {UUID(event_id): float(at) for event_id, at in lines}


@bench(samples=3, events=40, rounds=1, seconds=0.5, few=20, many=60)
def deliveries(
    service: Service,
    samples: int = 100,
    events: int = 4_000,
    rounds: int = 3,
    seconds: float = 8,
    few: int = 1_000,
    many: int = 100_000,
) -> Iterator[Figure]:
    service.close()
    with _receiver(service) as receiver:
        yield from _latency(service, receiver, samples)
        yield from _rate(service, receiver, events, rounds)
        yield from _beside_hanging_receivers(service, receiver, seconds)
    yield from _claims(service, few, many)


@contextmanager
def _receiver(service: Service) -> Iterator[Receiver]:
    receiver = Receiver(service)
    os.environ |= {
        "WEBHOOK_DEV_HOSTS": "localhost",
        "WEBHOOK_CA_FILE": str(receiver.authority),
    }
    with service.process(*receiver.command):
        time.sleep(0.5)
        yield receiver


def _latency(service: Service, receiver: Receiver, samples: int) -> Iterator[Figure]:
    workspace, _ = _configured(receiver.url())
    times = []
    with service.jobs():
        for number in range(-2, samples):
            # A random pause, because the engine works in rounds.
            time.sleep(random.uniform(0.05, 0.25))
            (event_id,) = _record(workspace, 1)
            recorded = time.time()
            while event_id not in (received := receiver.received()):
                assert time.time() < recorded + 30, "not received in 30 s"
                time.sleep(0.005)
            if number >= 0:
                times.append((received[event_id] - recorded) * 1000)
    yield Figure("recorded to first byte", times, target=250)
    yield Figure("recorded to first byte", times, at=99, target=1_500)


def _rate(
    service: Service, receiver: Receiver, events: int, rounds: int
) -> Iterator[Figure]:
    workspace, configuration = _configured(receiver.url())
    rates, bare = [], []
    with service.jobs():
        for round in range(rounds + 1):
            _record(workspace, events)
            rate = events / _wait_for_deliveries([configuration.pk])
            floor = asyncio.run(_send_bare(receiver, events))
            if round or rounds == 1:
                rates.append(rate)
                bare.append(floor)
    what = f"{events:,} events of 2 KB to one receiver"
    yield Figure(
        what, rates, "deliveries/s", target=800, floor=bare, ratio=3, rate=True
    )


async def _send_bare(receiver: Receiver, events: int) -> float:
    """Send as many requests with the same library and no service: the floor."""
    context = ssl.create_default_context(cafile=str(receiver.authority))
    connector = aiohttp.TCPConnector(ssl=context, limit=MAX_CONCURRENT_REQUESTS)
    body = envelope(
        Event(name=READY, created_at=now(), payload=Data().model_dump(mode="json"))
    )
    remaining = iter(range(events))

    async def post(session: aiohttp.ClientSession) -> None:
        for _ in remaining:
            async with session.post(receiver.url(), data=body) as answer:
                await answer.read()

    async with aiohttp.ClientSession(connector=connector) as session:
        started = time.perf_counter()
        await asyncio.gather(*(post(session) for _ in range(MAX_CONCURRENT_REQUESTS)))
        return events / (time.perf_counter() - started)


def _beside_hanging_receivers(
    service: Service, receiver: Receiver, seconds: float
) -> Iterator[Figure]:
    """Measure 15 receivers beside five healthy ones, then beside five that hang.

    Every receiver has more deliveries waiting than the time allows.
    """
    backlog = int(seconds * 300) + 20
    rates = {}
    for what, path in (("healthy", "/hook"), ("hanging", "/hang")):
        others = [_configured(receiver.url(path)) for _ in range(HANGING)]
        ours = [_configured(receiver.url()) for _ in range(HEALTHY)]
        for workspace, _ in others + ours:
            _record(workspace, backlog)
        ids = [configuration.pk for _, configuration in ours]
        with service.connect() as db, service.jobs():
            before = db.execute(WAITING, [ids]).fetchone()[0]
            time.sleep(seconds)
            rates[what] = (before - db.execute(WAITING, [ids]).fetchone()[0]) / seconds
        Configuration.objects.filter(enabled=True).update(enabled=False)
    yield Figure(
        f"{HEALTHY} receivers beside {HANGING} healthy ones",
        [rates["healthy"]],
        "deliveries/s",
        rate=True,
    )
    yield Figure(
        f"{HEALTHY} receivers beside {HANGING} that hang",
        [rates["hanging"]],
        "deliveries/s",
        # The 15 receivers may lose at most a fifth of their rate.
        target=0.8 * rates["healthy"],
        rate=True,
    )


def _claims(service: Service, few: int, many: int) -> Iterator[Figure]:
    """Measure a claim with few and many waiting deliveries of 20 receivers."""
    workspaces = [_configured("https://hooks.example.com/")[0] for _ in range(20)]
    times: dict[int, list[float]] = {}
    recorded = 0
    for waiting in (few, many):
        for workspace in workspaces:
            _record(workspace, (waiting - recorded) // len(workspaces))
        recorded = waiting
        with service.connect() as db:
            db.execute("ANALYZE webhooks_delivery")
        times[waiting] = [_time_claim() for _ in range(30)]
    yield Figure(f"claim 100 of {few:,} waiting", times[few])
    yield Figure(
        f"claim 100 of {many:,} waiting", times[many], floor=times[few], ratio=1.5
    )


def _time_claim() -> float:
    with transaction.atomic():
        milliseconds = timed(lambda: claim(100))
        transaction.set_rollback(True)
    return milliseconds


def _configured(url: str) -> tuple[Workspace, Configuration]:
    workspace = create_workspace(
        name="Bench", owner_email="bench@example.com", billing=Account.Billing.POSTPAID
    )
    return workspace, Configuration.objects.create(
        workspace=workspace,
        environment="sandbox",
        url=url,
        enabled=True,
        enabled_events=[READY.value],
        secret=SECRET,
    )


def _record(workspace: Workspace, events: int) -> list[Any]:
    """Record events in one transaction. Returns their ids."""
    with transaction.atomic():
        rows = event_rows(
            [
                NewEvent(READY, str(uuid4()), workspace.pk, "sandbox", None, Data())
                for _ in range(events)
            ],
            now(),
        )
        insert(rows)
        notify_on_commit()
    return [record["id"] for record in rows.records]


def _wait_for_deliveries(configurations: list[UUID]) -> float:
    started = time.perf_counter()
    waiting = Delivery.objects.filter(
        configuration__in=configurations, next_attempt_at__isnull=False
    )
    while waiting.exists():
        time.sleep(0.02)
    return time.perf_counter() - started
