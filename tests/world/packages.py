"""Packages of the operator and of clients, and orders of them."""

from decimal import Decimal
from typing import Any

from tests.world.clients import Api, company, person
from verification.checks.models import CheckPackage

LOAN = ["IDENTITY", "KRA_PIN", "CRB_SCORE"]


def create_package(name: str = "loan", **fields: Any) -> CheckPackage:
    """Create a package, of the operator unless `workspace` is given."""
    fields = {"display_name": name.title(), "checks": LOAN, **fields}
    if fields.get("price") is not None:
        fields["price"] = Decimal(fields["price"])
    return CheckPackage.objects.create(name=name, **fields)


def by_package(name: str = "loan", **subject: Any) -> dict[str, Any]:
    """Return an item of a person that names a package in place of checks."""
    return _with_package(person(**subject), name)


def company_by_package(name: str = "loan") -> dict[str, Any]:
    return _with_package(company(), name)


def _with_package(item: dict[str, Any], name: str) -> dict[str, Any]:
    del item["checksRequested"]
    return {**item, "package": name}


def prices(api: Api, report_id: str) -> list[Decimal]:
    """Return the price of each check of a report, in its order."""
    rows = api.workspace.reports.get(pk=report_id).results.order_by("position")
    return list(rows.values_list("price", flat=True))
