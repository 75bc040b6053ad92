"""Quotes as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from uuid import UUID

from verification.reports.models import PaymentMode, ReportStatus
from verification.reports.pricing import total
from verification.reports.quote import OrderQuote
from verification.values.wire import CURRENCY, Money, Shape


class QuotedCheck(Shape):
    check_name: str
    price: Money
    reused: bool
    """True when an earlier, still fresh result would be used again, for nothing."""
    reused_from_result_id: UUID | None


class QuotedReport(Shape):
    price: Money
    checks: list[QuotedCheck]
    gates: list[str]
    """What would hold the report up: CONSENT, PAYMENT."""
    status: ReportStatus
    """Where the report would start."""


class Quote(Shape):
    """What the same request would cost and do if it were sent to create reports."""

    count: int
    total: Money
    payable_by_workspace: Money
    """The part that would be charged to the workspace's own balance."""
    reports: list[QuotedReport]


def quote_body(quoted: Sequence[OrderQuote]) -> Quote:
    reports = [_quoted_report(one) for one in quoted]
    by_workspace = [q for q in quoted if q.order.payment_mode == PaymentMode.SELF]
    return Quote(
        count=len(reports),
        total=_money(sum((total(q.lines) for q in quoted), Decimal(0))),
        payable_by_workspace=_money(
            sum((total(q.lines) for q in by_workspace), Decimal(0))
        ),
        reports=reports,
    )


def _quoted_report(quoted: OrderQuote) -> QuotedReport:
    return QuotedReport(
        price=_money(total(quoted.lines)),
        checks=[
            QuotedCheck(
                check_name=line.definition.name,
                price=_money(line.price),
                reused=line.reused_from_id is not None,
                reused_from_result_id=line.reused_from_id,
            )
            for line in quoted.lines
        ],
        gates=quoted.gates,
        status=quoted.status,
    )


def _money(amount: Decimal) -> Money:
    return Money(amount=amount, currency=CURRENCY)
