"""Quote what a request would cost and do, without storing anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.timezone import now

from verification.consents.models import Consent
from verification.reports.create import first_status, require_payable_amounts
from verification.reports.models import PaymentMode, ReportStatus
from verification.reports.orders import Order
from verification.reports.pricing import OrderLine, price_orders, total
from workspaces.models import Client


@dataclass(frozen=True, slots=True)
class OrderQuote:
    """One order with its lines, its gates (CONSENT, PAYMENT) and its first status."""

    order: Order
    lines: list[OrderLine]
    gates: list[str]
    status: ReportStatus


def quote(client: Client, orders: Sequence[Order]) -> list[OrderQuote]:
    """Quote the orders.

    Raises InvalidRequest if a payer would owe less than the provider accepts.
    """
    priced = price_orders(orders, client.workspace.pk, client.environment, now())
    amounts = [total(one.lines) for one in priced]
    require_payable_amounts(orders, amounts, client.environment)
    return [_build_quote(o, p.lines) for o, p in zip(orders, priced, strict=True)]


def _build_quote(order: Order, lines: list[OrderLine]) -> OrderQuote:
    gates = ["CONSENT"] if _awaits_consent(order) else []
    if order.payment_mode != PaymentMode.SELF and total(lines):
        gates.append("PAYMENT")
    status = first_status(
        draft=order.draft,
        needs_consent="CONSENT" in gates,
        needs_payment="PAYMENT" in gates,
    )
    return OrderQuote(order, lines, gates, status)


def _awaits_consent(order: Order) -> bool:
    if order.consent is None:
        return any(definition.requires_consent for definition in order.definitions)
    attested = order.consent.mode == Consent.Mode.CUSTOMER_ATTESTED
    return not (attested and order.consent.obtained)
