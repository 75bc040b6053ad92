"""Order, follow and list with the client that was generated for version 1.0.0.

Run with the folder of `released_client` as the path, a key, and the address.
"""

import sys
import time
from importlib import import_module
from types import UnionType
from typing import Any, get_args, get_type_hints

from released_client import AuthenticatedClient

ITEM = {
    "subject": {
        "subjectType": "INDIVIDUAL",
        "fullName": "Wanjiku Kamau",
        "idNumber": "90000003",
        "phone": "+254712345678",
        "dateOfBirth": "1990-01-31",
    },
    "checksRequested": ["IDENTITY", "CRB_SCORE"],
    "purpose": "Loan application",
    "consent": {
        "mode": "CUSTOMER_ATTESTED",
        "obtained": True,
        "obtainedAt": "2026-01-15T09:00:00Z",
        "method": "CUSTOMER_WEB_FORM",
        "policyVersion": "1",
    },
}


def call(operation: str, *path: Any, body: Any = None) -> Any:
    """Return the answer of an operation, as the generated client reads it."""
    function = import_module(f"released_client.api.{operation}").sync
    if body is not None:
        hint = get_type_hints(function)["body"]
        model = get_args(hint)[0] if isinstance(hint, UnionType) else hint
        body = {"body": model.from_dict(body)}
    answer = function(*path, client=client, **(body or {}))
    assert answer is not None, operation
    assert "problem" not in type(answer).__name__.lower(), answer
    return answer


client = AuthenticatedClient(
    base_url=sys.argv[2], token=sys.argv[1], raise_on_unexpected_status=True
)
call("checks.list_check_definitions")
call("sandbox.list_sandbox_subjects")
call("reports.quote_reports", body={"reports": [ITEM]})
created = call("reports.create_reports", body={"reports": [ITEM]})
report_id = created.reports[0].id
while (report := call("reports.get_report", report_id)).completed_at is None:
    time.sleep(0.2)
call("reports.list_reports")
call("reports.get_timeline", report_id)
call("reports.get_consent_state", report_id)
rule = {"subject": ITEM["subject"], "checkNames": ["CRB_SCORE"], "cadence": "MONTHLY"}
call("monitoring.create_rule", body=rule)
call("monitoring.list_rules")
call("monitoring.list_alerts")
call("corrections.list_corrections")
configuration = {
    "url": "https://hooks.acacia.example/verification",
    "enabledEvents": [],
    "enabled": True,
    "secret": "correct-horse-battery-staple",
}
call("webhooks.configure_webhooks", body=configuration)
call("webhooks.get_webhook_configuration")
call("webhooks.list_deliveries")
assert (report.status, report.risk_level) == ("READY", "HIGH")
