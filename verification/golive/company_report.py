"""The report about a company that applies, ordered and paid by the operator."""

from __future__ import annotations

from typing import Any

from verification.checks.models import CheckResult, ResultStatus
from verification.golive.models import Application
from verification.reports.create import create_reports
from verification.reports.models import Report
from verification.reports.orders import Order, catalogue, read_orders
from verification.reports.request import InvalidRequest
from workspaces.models import Client
from workspaces.operator import operator_account

CHECK = "BUSINESS_VERIFICATION"
ACTOR = "go-live"


def report_item(company_name: str, registration_number: str, country: str) -> Any:
    return {
        "subject": {
            "subjectType": "COMPANY",
            "fullName": company_name,
            "registrationNumber": registration_number,
            "country": country,
        },
        "checksRequested": [CHECK],
        "purpose": "Go-live review",
    }


def request_body(application: Application) -> dict[str, Any]:
    details = application.details
    number, country = details["registrationNumber"], details["country"]
    return {"reports": [report_item(application.company_name, number, country)]}


def can_be_checked(company_name: str, number: str, country: str, where: str) -> bool:
    """Return whether the details make an order in this environment."""
    try:
        _read({"reports": [report_item(company_name, number, country)]}, where)
    except InvalidRequest:
        return False
    return True


def order_report(body: dict[str, Any], environment: str) -> Report:
    """Create the company's report. Raises InvalidRequest."""
    (order,) = _read(body, environment)
    account = operator_account(environment)
    client = Client(account.workspace, account, ACTOR)
    return create_reports(client, [order])[0].report


def result_of(report: Report) -> CheckResult:
    return report.results.get(name=CHECK)


def is_completed(report: Report) -> bool:
    return result_of(report).status == ResultStatus.COMPLETED


def _read(body: dict[str, Any], environment: str) -> list[Order]:
    # Without a source the check fails, and staff retry it once there is one.
    return read_orders(body, environment, catalogue(), unanswered=True)
