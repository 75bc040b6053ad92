"""kill -9 of everything, again and again, while 300 reports are ordered and run.

The bench `kills` does it a thousand times.
"""

import random
import threading
import time
from collections import Counter

import pytest
import requests

from tests.world.clients import person
from tests.world.waiting import until
from verification.db.ids import uuid7

REPORTS = 300
LARGEST = 40
ROUNDS = 6
DONE_SECONDS = 180

REPORTS_OF = "SELECT id::text FROM reports_report WHERE workspace_id = %s"
LEFT = """
SELECT count(*) FROM reports_report WHERE workspace_id = %s AND status <> 'READY'
"""
# The number of events of each name, and of entries of each kind, and their causes.
EVENTS = """
SELECT name, count(*), count(DISTINCT cause) FROM webhooks_event
WHERE workspace_id = %s GROUP BY name
"""
ENTRIES = """
SELECT kind, count(*), count(DISTINCT result_id), sum(amount)
FROM workspaces_ledgerentry JOIN workspaces_account a ON a.id = account_id
WHERE a.workspace_id = %s GROUP BY kind
"""
RESULTS = """
SELECT r.status, count(*), sum(r.price), max(r.attempt)
FROM checks_checkresult r JOIN reports_report p ON p.id = r.report_id
WHERE p.workspace_id = %s GROUP BY r.status
"""
MOVES = """
SELECT c.target, count(*) FROM reports_statuschange c
JOIN reports_report p ON p.id = c.report_id
WHERE p.workspace_id = %s AND c.target <> 'PARTIAL' GROUP BY c.target
"""


class Orders(threading.Thread):
    """A client that orders and repeats each request until it is answered."""

    def __init__(self, client):
        super().__init__()
        self.client = client
        self.acknowledged = []
        self.failures = Counter()
        # Set after each accepted order.
        self.accepted = threading.Event()

    def run(self):
        left = [person(idNumber=str(40000000 + n)) for n in range(REPORTS)]
        while left:
            size = random.randint(1, LARGEST)
            self.acknowledged += self.order(left[:size])
            del left[:size]
            self.accepted.set()
            time.sleep(random.uniform(0, 1.5))

    def order(self, items):
        key = str(uuid7())
        while True:
            try:
                answer = self.client.post(
                    "/reports", {"reports": items}, Idempotency_Key=key
                )
            except requests.RequestException:
                self.failures["connection"] += 1
            else:
                if answer.status_code == 201:
                    return [report["id"] for report in answer.json()["reports"]]
                # The client repeats the request after all these answers.
                assert answer.status_code in {409, 500, 502, 503}, answer.text
                self.failures[answer.status_code] += 1
            time.sleep(0.2)


def kill_at_random(service):
    kills = {
        "web": [service.kill_web],
        "jobs": [service.kill_jobs],
        "both": [service.kill_jobs, service.kill_web],
    }
    for kill in random.choice(list(kills.values())):
        kill()
    time.sleep(random.uniform(0, 0.5))
    service.start()


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_reports_survive_kills_of_everything(service, unlimited_client):
    client = unlimited_client
    orders = Orders(client)
    orders.start()
    for _ in range(ROUNDS):
        # During the work, and sometimes before it.
        orders.accepted.clear()
        orders.accepted.wait(random.uniform(0, 2))
        time.sleep(random.uniform(0, 0.1))
        kill_at_random(service)
    orders.join(DONE_SECONDS)
    assert not orders.is_alive(), orders.failures

    with service.connect() as connection:

        def rows(sql):
            return connection.execute(sql, [client.workspace]).fetchall()

        until(lambda: rows(LEFT) == [(0,)], lambda: rows(RESULTS), seconds=DONE_SECONDS)

        count = REPORTS
        acknowledged = set(orders.acknowledged)
        assert len(acknowledged) == len(orders.acknowledged) == count
        stored = {report for (report,) in rows(REPORTS_OF)}
        lost, doubled = acknowledged - stored, stored - acknowledged
        assert (lost, doubled) == (set(), set())
        ((status, results, price, attempts),) = rows(RESULTS)
        assert (status, results, attempts) == ("COMPLETED", 3 * count, 1)
        assert rows(ENTRIES) == [("CHARGE", 3 * count, 3 * count, -price)]
        assert sorted(rows(EVENTS)) == [
            ("check.completed", 3 * count, 3 * count),
            ("report.created", count, count),
            ("report.ready", count, count),
        ]
        assert sorted(rows(MOVES)) == [("READY", count), ("RUNNING", count)]
    service.manage("audit_ledger")
