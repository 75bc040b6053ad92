"""Orders as clients send them, and the reports of these."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from random import Random
from typing import Any

from benchmarks.names import Names
from verification.checks.engine import run_due_checks
from verification.checks.models import CheckResult
from verification.reports.create import create_reports
from verification.reports.request import Order, RuleContext, catalogue, read_orders
from workspaces.models import Client

CHECKS = ["IDENTITY", "KRA_PIN", "CRB_SCORE"]
ATTESTED = {
    "mode": "CUSTOMER_ATTESTED",
    "obtained": True,
    "obtainedAt": "2026-01-20T10:00:00Z",
    "method": "CUSTOMER_WEB_FORM",
    "policyVersion": "2026-01",
    "evidenceReference": "form-20260120-000001",
}

# Every subject has another number, because the service reuses earlier results.
_numbers = count(60_000_000)
_names = Names(seed=1)
_random = Random(1)


def order(number: int | None = None) -> dict[str, Any]:
    """Return the order of three checks on a new person."""
    number, name = number or next(_numbers), _names.person()
    born = f"{_random.randint(1950, 2005)}-{_random.randint(1, 12):02}-15"
    return {
        "subject": {
            "subjectType": "INDIVIDUAL",
            "fullName": name,
            "idNumber": f"{number}",
            "email": f"{name.replace(' ', '.').lower()}@example.com",
            "phone": "+254712345678",
            "dateOfBirth": born,
            "country": "KE",
        },
        "checksRequested": CHECKS,
        "purpose": "Loan application at the Acacia branch",
        "consent": ATTESTED,
        "paymentMode": "SELF",
        "reference": f"loan-{number}",
    }


def create_about_one_person(client: Client, number: int, reports: int) -> None:
    """Create this number of reports about one person, and run their checks."""
    for _ in range(0, reports, 500):
        items = [{**order(number), "reuse": False} for _ in range(min(500, reports))]
        create_reports(client, _parse(client, items))
    while CheckResult.objects.filter(next_attempt_at__isnull=False).exists():
        run_due_checks()


def create(client: Client, reports: int, checks: Sequence[str] = CHECKS) -> None:
    """Create reports in this process."""
    items = [{**order(), "checksRequested": list(checks)} for _ in range(reports)]
    create_reports(client, _parse(client, items))


def _parse(client: Client, items: list[dict[str, Any]]) -> list[Order]:
    context = RuleContext(catalogue(), client.environment)
    return read_orders({"reports": items}, context)


def body(reports: int) -> bytes:
    return bodies([order() for _ in range(reports)])


def numbered(number: int) -> bytes:
    """Return a body with one report on the person of this number of eight digits."""
    return bodies([order(number)])


def bodies(reports: list[dict[str, Any]]) -> bytes:
    return json.dumps({"reports": reports}).encode()
