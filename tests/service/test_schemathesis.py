"""schemathesis reads the published schema and looks for answers that break it."""

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

SCHEMATHESIS = Path(sysconfig.get_path("scripts")) / "schemathesis"
# These operations have rules that JSON Schema cannot express: known checks and their
# required inputs, allowed hosts, times relative to now, and the length of periods.
CONFIGURATION = """
[generation]
# Every text field refuses NUL, but the schema does not say this for each field.
allow-x00 = false

[checks.positive_data_acceptance]
# 410 is of a report that was erased meanwhile. The others are schemathesis' own.
expected-statuses = ["2xx", "3xx", "401", "403", "404", "409", "410", "429", "5xx"]

[[operations]]
include-operation-id = [
    "createReports",
    "quoteReports",
    "editDraft",
    "decideReport",
    "createRule",
    "resumeRule",
    "configureWebhooks",
    "recoverDeliveries",
    "listEvents",
    "setNextResult",
    "exportReports",
    "exportResults",
    "exportDecisions",
    "exportAlerts",
    "exportAuditTrail",
]
checks.positive_data_acceptance.enabled = false

[[operations]]
# A search for U+0085 alone is empty, but that is no space to the pattern of a schema.
include-operation-id = ["listReports", "listRules"]
checks.positive_data_acceptance.enabled = false

[[operations]]
# The same Idempotency-Key with another body or address is refused.
include-operation-id = [
    "actOnConsent",
    "actOnPayment",
    "actOnReference",
    "skipReport",
    "skipRule",
    "skipDelivery",
]
checks.positive_data_acceptance.enabled = false

[[operations]]
# A create repeated with its Idempotency-Key answers with the rule that the first
# one made, and that rule may have been deleted since.
include-operation-id = ["getRule", "deleteRule", "pauseRule", "resumeRule"]
checks.ensure_resource_availability.enabled = false
"""


@pytest.mark.timeout(240)
def test_schemathesis_finds_nothing(service, unlimited_client, tmp_path):
    service.start()

    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION)
    done = subprocess.run(
        [
            SCHEMATHESIS,
            "run",
            f"{service.url}/api/v1/schema",
            "--header",
            f"Authorization: Bearer {unlimited_client.key}",
            "--mode=all",
            "--max-time=40",
            "--generation-deterministic",
            "--continue-on-failure",
            "--no-color",
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-60000:] + done.stderr[-2000:]
