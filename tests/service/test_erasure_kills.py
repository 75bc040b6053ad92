"""kill -9 of the job cluster in the middle of an erasure of 600 reports."""

import json
import time

import pytest
import requests

from tests.world.clients import person

# Three batches
REPORTS, PATIENCE = 600, 180
ERASED = """
SELECT count(*) FILTER (WHERE erased_at IS NOT NULL), count(*)
FROM reports_report WHERE workspace_id = %s
"""
ENDED = """
SELECT e.ended_at IS NOT NULL, e.report_count, e.certificate
FROM privacy_erasure e JOIN privacy_subjectrequest r ON r.id = e.request_id
WHERE r.workspace_id = %s
"""
LEFT = """
SELECT count(*) FROM checks_checkresult r JOIN reports_report p ON p.id = r.report_id
WHERE p.workspace_id = %s AND (r.finding IS NOT NULL OR r.question IS NOT NULL)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_erasure_goes_on_where_it_was(service, unlimited_client):
    client = unlimited_client
    made = []
    for _ in range(2):
        item = {**person(), "checksRequested": ["IDENTITY"], "reuse": False}
        answer = client.post("/reports", {"reports": [item] * (REPORTS // 2)})
        assert answer.status_code == 201, answer.text
        made += answer.json()["reports"]
    service.kill_jobs()
    key = json.loads(
        service.manage(
            "create_key",
            str(client.workspace),
            "--environment",
            "sandbox",
            "--scopes",
            "subjects:erase",
        )
    )["key"]
    answer = requests.delete(
        f"{service.url}/api/v1/reports/{made[0]['id']}/subject",
        headers={"Authorization": f"Bearer {key}"},
        timeout=60,
    )
    assert answer.status_code == 202, answer.text
    seen = set()
    with service.connect() as connection:
        connection.autocommit = True

        def row(sql):
            values = [client.workspace] * sql.count("%s")
            return connection.execute(sql, values).fetchone()

        service.start_jobs()
        deadline = time.monotonic() + PATIENCE
        while not (row(ENDED) or (False,))[0]:
            assert time.monotonic() < deadline, service.log()[-3000:]
            erased, _ = row(ERASED)
            if erased not in seen and 0 < erased < REPORTS:
                # After each batch that it has seen.
                seen.add(erased)
                service.kill_jobs()
                service.start_jobs()
            time.sleep(0.01)

        assert row(ERASED) == (REPORTS, REPORTS)
        assert row(LEFT) == (0,)
        _, count, certificate = row(ENDED)
        assert count == REPORTS
        assert len(json.loads(certificate)["reports"]) == REPORTS
    assert seen, "it was never killed"
    service.manage("audit_ledger")
