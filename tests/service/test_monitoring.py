"""Rules of the running service, also while its processes are killed."""

import json
import random
import time

import pytest
from standardwebhooks import Webhook

from tests.service.conftest import Client
from tests.service.test_webhooks import configure
from tests.service.test_webhooks import receiver as receiver
from tests.world.deliveries import SECRET
from tests.world.rules import CHANGING, rule_request
from tests.world.waiting import until
from webhooks.sender import signing_key

RULES, DAYS = 60, 2
DONE_SECONDS = 180
A_DAY_PASSES = """
UPDATE monitoring_rule SET starts_at = starts_at - interval '1 day',
    next_run_at = next_run_at - interval '1 day' WHERE workspace_id = %s
"""
# One by one, because a rule's runs have different times.
WITH_ITS_RUNS = """
UPDATE monitoring_run r SET due_at = due_at - interval '1 day' WHERE number = %s
AND EXISTS (SELECT FROM monitoring_rule u WHERE u.id = rule_id AND workspace_id = %s)
"""
WAKE = """
INSERT INTO jobs_job (function, arguments)
VALUES ('monitoring.runs.launch_due_runs', '[]')
"""
RUNS = """
SELECT count(*), count(compared_at), count(DISTINCT (rule_id, number)),
    count(DISTINCT report_id), max(number)
FROM monitoring_run r JOIN monitoring_rule u ON u.id = rule_id WHERE workspace_id = %s
"""
REPORTS = """
SELECT status, count(*) FROM reports_report WHERE workspace_id = %s GROUP BY status
"""
ENTRIES = """
SELECT kind, count(*), count(DISTINCT result_id), sum(amount)
FROM workspaces_ledgerentry JOIN workspaces_account a ON a.id = account_id
WHERE a.workspace_id = %s GROUP BY kind
"""
ALERTS = """
SELECT count(*), count(DISTINCT report_id) FROM monitoring_alert WHERE workspace_id = %s
"""
EVENTS = """
SELECT count(*), count(DISTINCT cause) FROM webhooks_event
WHERE workspace_id = %s AND name = 'monitoring.alert.created'
"""


def let_a_day_pass(service, client) -> None:
    with service.connect() as connection:
        connection.execute(A_DAY_PASSES, [client.workspace])
        newest = connection.execute(RUNS, [client.workspace]).fetchone()[4]
        for number in range(1, newest + 1):
            connection.execute(WITH_ITS_RUNS, [number, client.workspace])
        connection.execute(WAKE)


def until_counted(service, sql, client, expected) -> None:
    """Wait until the first columns of the answer have these values."""
    with service.connect() as connection:
        deadline = time.monotonic() + DONE_SECONDS
        while True:
            found = connection.execute(sql, [client.workspace]).fetchone()
            if found[: len(expected)] == expected:
                return
            assert time.monotonic() < deadline, (found, service.log()[-3000:])
            time.sleep(0.1)


def test_change_becomes_an_alert_an_event_and_is_read(service, receiver):
    client = Client(service, "sandbox")
    made = client.post("/monitoring", rule_request(id_number=CHANGING)).json()
    configure(client, receiver)
    until_counted(service, RUNS, client, (1, 1))
    assert client.get("/monitoring/alerts").json()["content"] == []

    let_a_day_pass(service, client)

    until_counted(service, RUNS, client, (2, 2))
    (alert,) = client.get("/monitoring/alerts", read="false").json()["content"]
    assert (alert["monitoringId"], alert["read"]) == (made["id"], False)
    report = client.get(f"/reports/{alert['reportId']}").json()
    assert (report["status"], report["monitoringId"]) == ("READY", made["id"])
    assert client.get(f"/monitoring/{made['id']}").json()["recentAlerts"] == [alert]

    pushed = delivered(receiver, "monitoring.alert.created")
    data = pushed["data"]
    assert data["alert"] | {"monitoringId": data["monitoringId"]} == alert

    assert client.patch("/monitoring/alerts/read-all").status_code == 204
    assert client.get("/monitoring/alerts", read="false").json()["totalElements"] == 0
    let_a_day_pass(service, client)
    until_counted(service, RUNS, client, (3, 3))
    assert client.get("/monitoring/alerts", read="false").json()["totalElements"] == 1
    assert client.put("/monitoring/alerts/read-all").status_code == 204
    assert client.get("/monitoring/alerts", read="false").json()["totalElements"] == 0
    assert client.get("/monitoring/alerts").json()["totalElements"] == 2


def delivered(receiver, name):
    """Return the first body of this event that arrived, after its verification."""

    def arrived():
        requests = list(receiver.received)
        return [r for r in requests if json.loads(r.body)["event"] == name]

    first, *_ = until(arrived)
    Webhook(signing_key(SECRET)).verify(first.body, first.headers)
    return json.loads(first.body)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_rules_run_once_a_day_through_kills_of_everything(service, unlimited_client):
    client = unlimited_client
    for _ in range(RULES):
        made = client.post("/monitoring", rule_request(id_number=CHANGING))
        assert made.status_code == 201, made.text
    until_counted(service, RUNS, client, (RULES, RULES))

    for day in range(2, DAYS + 2):
        let_a_day_pass(service, client)
        for _ in range(3):
            # During launches, checks or comparisons.
            time.sleep(random.uniform(0, 0.6))
            service.kill_jobs()
            if random.random() < 0.3:
                service.kill_web()
            service.start()
        until_counted(service, RUNS, client, (day * RULES, day * RULES))

    runs = (DAYS + 1) * RULES
    with service.connect() as connection:

        def rows(sql):
            return connection.execute(sql, [client.workspace]).fetchall()

        assert rows(RUNS) == [(runs, runs, runs, runs, DAYS + 1)]
        assert rows(REPORTS) == [("READY", runs)]
        assert rows(ENTRIES) == [("CHARGE", runs, runs, -50 * runs)]
        alerts = DAYS * RULES
        assert rows(ALERTS) == rows(EVENTS) == [(alerts, alerts)]
    service.manage("audit_ledger")
