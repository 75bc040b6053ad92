"""What a workspace is charged for its reports."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from uuid import UUID

from verification.checks.models import CheckResult
from verification.ordering.client import Client
from verification.reports.models import PaymentMode, Report
from workspaces.ledger import Kind, Movement


def charges(
    client: Client, report: Report, results: Iterable[tuple[UUID, int, Decimal]]
) -> list[Movement]:
    """What the workspace pays for (result, attempt, price), when it is who pays."""
    if report.payment_mode != PaymentMode.SELF:
        return []
    return [
        Movement(
            client.account.pk,
            Kind.CHARGE,
            -price,
            client.actor,
            report.pk,
            result_id,
            attempt,
        )
        for result_id, attempt, price in results
        if price
    ]


def charged(results: Iterable[CheckResult]) -> list[tuple[UUID, int, Decimal]]:
    """Results as `charges` takes them."""
    return [(result.pk, result.attempt, result.price) for result in results]
