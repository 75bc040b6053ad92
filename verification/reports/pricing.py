"""Price reports, find earlier results to reuse for free, and charge the workspace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

import orjson
from django.db import connection

from verification.checks.models import CheckDefinition, CheckResult
from verification.reports.models import PaymentMode, Report
from verification.reports.orders import Order
from verification.reports.subject import KnownSubject, Subject
from workspaces.ledger import Kind, Movement
from workspaces.models import Client

FREE = Decimal(0)


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


def price_orders(
    orders: Sequence[Order], workspace_id: UUID, environment: str, at: datetime
) -> list[PricedOrder]:
    """Price the orders with one query for all of them."""
    return price(
        [(order.subject, order.definitions, order.reuse) for order in orders],
        workspace_id,
        environment,
        at,
    )


def price(
    items: Sequence[tuple[Subject, Sequence[CheckDefinition], bool]],
    workspace_id: UUID,
    environment: str,
    at: datetime,
) -> list[PricedOrder]:
    """Price items of (subject, definitions, whether earlier results may be reused)."""
    subjects = [
        subject.in_workspace(workspace_id, environment) for subject, _, _ in items
    ]
    questions = [
        _questions(subject, definitions)
        for subject, (_, definitions, _) in zip(subjects, items, strict=True)
    ]
    reusable = _reusable_results(
        [
            (question, at - timedelta(days=definition.freshness_days))
            for (_, definitions, reuse), own in zip(items, questions, strict=True)
            if reuse
            for definition, question in zip(definitions, own, strict=True)
        ]
    )
    return [
        PricedOrder(
            subject,
            [
                _line(definition, question, reusable.get(question) if reuse else None)
                for definition, question in zip(definitions, own, strict=True)
            ],
        )
        for subject, (_, definitions, reuse), own in zip(
            subjects, items, questions, strict=True
        )
    ]


def total(lines: Sequence[OrderLine]) -> Decimal:
    return sum((line.price for line in lines), FREE)


def charge_movements(
    client: Client, report: Report, results: Iterable[tuple[UUID, int, Decimal]]
) -> list[Movement]:
    """Return the charges for (result id, attempt, price); none if a payer pays."""
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


def charge_items(results: Iterable[CheckResult]) -> list[tuple[UUID, int, Decimal]]:
    """Return (id, attempt, price) of each result, for `charge_movements`."""
    return [(result.pk, result.attempt, result.price) for result in results]


def _questions(
    subject: KnownSubject, definitions: Sequence[CheckDefinition]
) -> list[bytes]:
    return [
        subject.question(d.name, [entry["key"] for entry in d.required_inputs])
        for d in definitions
    ]


def _line(
    definition: CheckDefinition, question: bytes, reused_from_id: UUID | None
) -> OrderLine:
    price = FREE if reused_from_id else definition.price
    return OrderLine(definition, question, price, reused_from_id)


def _reusable_results(asked: list[tuple[bytes, datetime]]) -> dict[bytes, UUID]:
    """Return the newest result for each (question, oldest time of completion)."""
    if not asked:
        return {}
    # JSON, because PostgreSQL plans a query with arrays again each time: it estimates
    # by their lengths, and finds the generic plan too expensive.
    rows = [
        {"question": f"\\x{question.hex()}", "since": since}
        for question, since in asked
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT asked.question, newest.id
            FROM json_to_recordset(%s) AS asked(question bytea, since timestamptz)
            CROSS JOIN LATERAL (
                SELECT id FROM checks_checkresult
                WHERE question = asked.question AND completed_at >= asked.since
                    AND status = 'COMPLETED' AND reused_from_id IS NULL
                    AND finding IS NOT NULL
                ORDER BY completed_at DESC LIMIT 1
            ) AS newest
            """,
            [orjson.dumps(rows).decode()],
        )
        return {bytes(question): result for question, result in cursor.fetchall()}
