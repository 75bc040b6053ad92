"""The time from sending a report of three checks until it is READY, without other load.

The bench reads the row every two milliseconds, which disturbs the service less than the
API. The API would show READY from the same moment.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import Any

from benchmarks import orders
from benchmarks.client import Connection, request
from benchmarks.figures import Figure, bench
from benchmarks.service import Service, create_client

PATH = "/api/v1/reports"
POLL_SECONDS = 0.002
STATUS = "SELECT status FROM reports_report WHERE id = %s"


@bench(samples=3)
def latency(service: Service, samples: int = 100) -> Iterator[Figure]:
    _, key = create_client()
    since_sent, since_answered = [], []
    with service.web(), service.jobs(), service.connect() as db:
        connection = Connection(service.port)
        for number in range(-2, samples):
            # A random pause, because the engine works in rounds.
            time.sleep(random.uniform(0.05, 0.25))
            sent, answered, ready = time_report(connection, db, key)
            if number >= 0:
                since_sent.append((ready - sent) * 1000)
                since_answered.append((ready - answered) * 1000)
    for what, times in (
        ("sent to READY", since_sent),
        ("answered to READY", since_answered),
    ):
        yield Figure(what, times, target=100)
        yield Figure(what, times, at=99, target=300)


def time_report(
    connection: Connection, db: Any, key: str
) -> tuple[float, float, float]:
    message = request("POST", PATH, key, orders.body(1))
    sent = time.perf_counter()
    status, body = connection.send(message)
    answered = time.perf_counter()
    assert status == 201, body
    report = json.loads(body)["reports"][0]["id"]
    while db.execute(STATUS, [report]).fetchone()[0] != "READY":
        if time.perf_counter() > answered + 30:
            raise TimeoutError(f"report {report} is not READY after 30 s")
        time.sleep(POLL_SECONDS)
    return sent, answered, time.perf_counter()
