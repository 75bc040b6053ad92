"""kill -9 of the web server in the middle of skips of the sandbox."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.world.clients import HOSTED, person
from tests.world.rules import rule_request
from tests.world.waiting import until

# The first stops the launch of a run between its rows. The second stops a skip that has
# written all that it does, before it stores the answer.
LATE_TABLES = "LOCK TABLE monitoring_run, reports_idempotencyrecord IN SHARE MODE"
WEB_SESSIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'verification web'
"""
HELD = f"{WEB_SESSIONS} AND %s = ANY(pg_blocking_pids(pid))"
POSTPONE = """
UPDATE webhooks_delivery SET next_attempt_at = now() + interval '1 day'
WHERE event_id = %s
"""
UNDER_WAY = """
SELECT count(*) FROM reports_report WHERE monitoring_id = %s AND completed_at IS NULL
"""
DONE = """
SELECT
    (SELECT count(*) FROM notifications_notification n
     WHERE n.report_id = %(report)s AND kind = 'CONSENT_REMINDER'),
    (SELECT count(*) FROM monitoring_run WHERE rule_id = %(rule)s),
    (SELECT count(*) FROM reports_report WHERE monitoring_id = %(rule)s),
    (SELECT count(*) FROM workspaces_ledgerentry e
     JOIN checks_checkresult r ON r.id = e.result_id
     JOIN reports_report p ON p.id = r.report_id WHERE p.monitoring_id = %(rule)s),
    (SELECT attempts FROM webhooks_delivery WHERE event_id = %(delivery)s)
"""


def store_hosted_report(client):
    subject = person(email="wanjiku@kamau.test")
    (made,) = client.order({**subject, "consent": HOSTED})
    return made["id"]


def store_failed_delivery(client, connection):
    hook = {"url": "https://hooks.acacia.example/", "secret": "a-secret-of-the-test"}
    client.post("/webhooks/config", hook | {"enabledEvents": ["report.failed"]})
    client.post("/sandbox/receiver", {"answer": "500", "times": 24})
    delivery = client.post("/webhooks/test").json()["id"]
    path = f"/webhooks/deliveries/{delivery}"
    until(lambda: client.get(path).json()["status"] == "RETRYING")
    # Its retry is due within seconds, and the jobs would be faster than the skip.
    connection.execute(POSTPONE, [delivery])
    return delivery


def skip(client, path):
    return client.post(f"/sandbox/{path}/skip", Idempotency_Key=f"skip {path}")


def skip_until_the_server_dies(client, path):
    with pytest.raises(requests.ConnectionError):  # noqa: PT012
        while True:
            # A server that waits too long for a lock does nothing.
            assert skip(client, path).status_code == 503


@pytest.mark.slow
def test_killed_skips_do_nothing_and_are_repeated_once(service, unlimited_client):
    client = unlimited_client
    service.start()
    with service.connect() as connection, service.connect() as holder:
        ids = {
            "report": store_hosted_report(client),
            "rule": client.post("/monitoring", rule_request()).json()["id"],
            "delivery": store_failed_delivery(client, connection),
        }
        paths = [
            f"reports/{ids['report']}",
            f"monitoring/{ids['rule']}",
            f"deliveries/{ids['delivery']}",
        ]

        def done():
            return connection.execute(DONE, ids).fetchone()

        def count(sql, *values):
            return connection.execute(sql, values).fetchone()[0]

        until(lambda: count(UNDER_WAY, ids["rule"]) == 0)
        before = [client.get(f"/sandbox/{path}/next").json() for path in paths]
        assert done() == (0, 1, 1, 1, 1)
        with ThreadPoolExecutor() as pool:
            with holder.transaction():
                holder.execute(LATE_TABLES)
                killed = [
                    pool.submit(skip_until_the_server_dies, client, path)
                    for path in paths
                ]
                until(lambda: count(HELD, holder.info.backend_pid) == len(paths))
                service.kill_web()
            for request in killed:
                request.result()
        until(lambda: count(WEB_SESSIONS) == 0)
        service.start_web()

        assert done() == (0, 1, 1, 1, 1)
        assert [client.get(f"/sandbox/{path}/next").json() for path in paths] == before

        first = [skip(client, path).json() for path in paths]
        again = [skip(client, path).json() for path in paths]

        assert [{"next": answer["done"]} for answer in first] == before
        assert again == first
        until(lambda: done() == (1, 2, 2, 2, 2), done)
