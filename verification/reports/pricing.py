"""Price orders, quote them, and charge the workspace.

A check whose earlier result can be reused is free. The price of a package is shared out
among its checks, so that each check can be free or given back alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import repeat
from uuid import UUID

import orjson

from verification.checks.models import CheckDefinition, CheckPackage, CheckResult
from verification.consents.models import Consent
from verification.db.base import run_sql
from verification.payments.registry import LABELS, checkout_provider, minimum_amount
from verification.providers.sandbox import reserved_members
from verification.reports.models import (
    KnownSubject,
    PaymentMode,
    Report,
    ReportStatus,
    Subject,
)
from verification.reports.objections import require_newer_consents
from verification.reports.request import Catalogue, Fault, InvalidRequest, Order
from verification.values.clock import now
from verification.values.shapes import CURRENCY
from workspaces.ledger import Kind, Movement
from workspaces.models import Client

FREE = Decimal(0)
CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class PriceRequest:
    """The checks of one report; `reuse` allows earlier results."""

    subject: Subject
    definitions: Sequence[CheckDefinition]
    reuse: bool
    # The package that they were ordered by
    package: CheckPackage | None
    # The id that `Subject.in_workspace` takes
    row_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class OrderLine:
    """One check of one report: its price, and the earlier result that it reuses."""

    definition: CheckDefinition
    question: bytes
    price: Decimal
    reused_from_id: UUID | None


@dataclass(frozen=True, slots=True)
class PricedOrder:
    """The lines of one order, and the subject as its workspace knows it."""

    subject: KnownSubject
    lines: list[OrderLine]


@dataclass(frozen=True, slots=True)
class OrderQuote:
    """One order with its lines, its gates (CONSENT, PAYMENT) and its first status."""

    order: Order
    lines: list[OrderLine]
    gates: list[str]
    status: ReportStatus


def quote(client: Client, orders: Sequence[Order]) -> list[OrderQuote]:
    """Quote the orders.

    Raises InvalidRequest if a payer would owe less than the provider accepts, or if a
    subject objected after the consent that is attested.
    """
    priced = price_orders(orders, *client.where, now())
    amounts = [total(order.lines) for order in priced]
    require_payable_amounts(orders, amounts, client.environment)
    require_consents(orders, priced)
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


def first_status(
    *, draft: bool, needs_consent: bool, needs_payment: bool
) -> ReportStatus:
    """Return the status of a new report: its first gate, or RUNNING without one."""
    if draft:
        return ReportStatus.DRAFT
    if needs_consent:
        return ReportStatus.PENDING_CONSENT
    return ReportStatus.PENDING_PAYMENT if needs_payment else ReportStatus.RUNNING


def require_payable_amounts(
    orders: Sequence[Order], amounts: Sequence[Decimal], environment: str
) -> None:
    """Raise InvalidRequest if a payer would owe less than the provider accepts."""
    faults = [
        Fault(("reports", number, "paymentMode"), "out-of-range", reason)
        for number, (order, amount) in enumerate(zip(orders, amounts, strict=True))
        if (reason := amount_too_low_reason(order.payment_mode, amount, environment))
    ]
    if faults:
        raise InvalidRequest(faults)


def require_consents(orders: Sequence[Order], priced: Sequence[PricedOrder]) -> None:
    """Raise InvalidRequest if a subject objected after the consent that is attested.

    Rules pause when their subject objects, and need no look at each run.
    """
    require_newer_consents(
        (("reports", number, "consent"), one.subject, order.subject.name, order.consent)
        for number, (order, one) in enumerate(zip(orders, priced, strict=True))
        if order.monitoring_id is None
    )


def amount_too_low_reason(payment_mode: str, amount: Decimal, environment: str) -> str:
    """Return why a payer cannot pay this amount; empty if one can or need not."""
    if payment_mode == PaymentMode.SELF or not amount:
        return ""
    least = minimum_amount(environment, CURRENCY)
    if amount >= least:
        return ""
    provider = LABELS.get(checkout_provider(environment).name, "")
    return (
        f"The payer would owe {CURRENCY} {amount:.2f}, and {provider} takes no less "
        f"than {CURRENCY} {least:.2f}. Request more checks together, or use SELF."
    )


def price_orders(
    orders: Sequence[Order],
    workspace_id: UUID,
    environment: str,
    at: datetime,
    report_ids: Iterable[UUID | None] = repeat(None),
) -> list[PricedOrder]:
    """Price the orders with one query for all of them."""
    requests = [
        PriceRequest(
            order.subject,
            order.sharing or order.definitions,
            may_reuse(order.reuse, order.subject),
            order.package,
            order.monitoring_id or report_id,
        )
        for order, report_id in zip(orders, report_ids, strict=False)
    ]
    priced = price(requests, workspace_id, environment, at)
    for order, one in zip(orders, priced, strict=True):
        one.lines[:] = [
            line for line in one.lines if line.definition in order.definitions
        ]
    return priced


def may_reuse(requested: bool | None, subject: Subject) -> bool:
    """Return whether an order reuses earlier results; `requested` may be left out.

    By default, orders about a reserved number of the sandbox reuse no results, so that
    a test behaves the same each time.
    """
    return not reserved_members(subject.members) if requested is None else requested


def price(
    requests: Sequence[PriceRequest],
    workspace_id: UUID,
    environment: str,
    at: datetime,
) -> list[PricedOrder]:
    subjects = [
        request.subject.in_workspace(workspace_id, environment, request.row_id)
        for request in requests
    ]
    # The questions of each request's definitions
    questions = [
        [
            subject.question(d.name, [entry["key"] for entry in d.required_inputs])
            for d in request.definitions
        ]
        for subject, request in zip(subjects, requests, strict=True)
    ]
    reusable = _reusable_results(
        [
            (question, at - timedelta(days=definition.freshness_days))
            for request, own in zip(requests, questions, strict=True)
            if request.reuse
            for definition, question in zip(request.definitions, own, strict=True)
        ]
    )
    priced = []
    for subject, own, request in zip(subjects, questions, requests, strict=True):
        results = reusable if request.reuse else {}
        prices = check_prices(request.definitions, request.package)
        lines = []
        for definition, question, cost_anew in zip(
            request.definitions, own, prices, strict=True
        ):
            reused_id = results.get(question)
            cost = FREE if reused_id else cost_anew
            lines.append(OrderLine(definition, question, cost, reused_id))
        priced.append(PricedOrder(subject, lines))
    return priced


def check_prices(
    definitions: Sequence[CheckDefinition], package: CheckPackage | None
) -> list[Decimal]:
    """Return the price of each check: its own, or its share of the package's price."""
    prices = [definition.price for definition in definitions]
    if package is None:
        return prices
    amount = package.price_for([definition.name for definition in definitions])
    return prices if amount is None else share_out(amount, prices)


def price_of_package(package: CheckPackage, definitions: Catalogue) -> Decimal:
    """Return the price of a report by this package, without reuse."""
    known = [definitions[name] for name in package.checks if name in definitions]
    return sum(check_prices(known, package), FREE)


def share_out(amount: Decimal, weights: Sequence[Decimal]) -> list[Decimal]:
    """Split an amount by weights into whole cents, which add up to it exactly.

    Each share is rounded down; the cents that are left go to the largest remainders,
    the first of equal ones. Weights that are all zero count as equal.
    """
    if not any(weights):
        weights = [Decimal(1)] * len(weights)
    whole = sum(weights)
    cents = [divmod(amount / CENT * weight, whole) for weight in weights]
    shares = [share for share, _ in cents]
    by_remainder = sorted(range(len(cents)), key=lambda number: -cents[number][1])
    for number in by_remainder[: int(amount / CENT - sum(shares))]:
        shares[number] += 1
    return [share * CENT for share in shares]


def _reusable_results(questions: list[tuple[bytes, datetime]]) -> dict[bytes, UUID]:
    """Return the newest result for each (question, oldest time of completion)."""
    if not questions:
        return {}
    # JSON, because PostgreSQL plans a query with arrays again each time: it estimates
    # by their lengths, and finds the generic plan too expensive.
    rows = [
        {"question": f"\\x{question.hex()}", "since": since}
        for question, since in questions
    ]
    found = run_sql(
        """
        SELECT asked.question, newest.id
        FROM json_to_recordset(%s) AS asked(question bytea, since timestamptz)
        CROSS JOIN LATERAL (
            SELECT id FROM checks_checkresult AS known
            WHERE question = asked.question AND completed_at >= asked.since
                AND status = 'COMPLETED' AND reused_from_id IS NULL
                AND finding IS NOT NULL AND disputed_at IS NULL
                AND NOT EXISTS (
                    SELECT FROM checks_checkresult
                    WHERE reused_from_id = known.id AND disputed_at IS NOT NULL
                )
            ORDER BY completed_at DESC LIMIT 1
        ) AS newest
        """,
        [orjson.dumps(rows).decode()],
    )
    return {bytes(question): result for question, result in found}


def total(lines: Sequence[OrderLine]) -> Decimal:
    return sum((line.price for line in lines), FREE)


def charge_movements(
    client: Client,
    report: Report,
    results: Iterable[tuple[UUID, int, Decimal]],
    kind: Kind = Kind.CHARGE,
) -> list[Movement]:
    """Return the charges, or the reversals, for (result id, attempt, price).

    There are none if a payer pays.
    """
    if report.payment_mode != PaymentMode.SELF:
        return []
    sign = -1 if kind == Kind.CHARGE else 1
    account_id, actor = client.account.pk, client.actor
    return [
        Movement(account_id, kind, sign * price, actor, report.pk, result_id, attempt)
        for result_id, attempt, price in results
        if price
    ]


def charge_items(results: Iterable[CheckResult]) -> list[tuple[UUID, int, Decimal]]:
    """Return (id, attempt, price) of each result, for `charge_movements`."""
    return [(result.pk, result.attempt, result.price) for result in results]
