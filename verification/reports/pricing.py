"""What a workspace is charged for its reports.

What reports cost, and which earlier results will be used again for nothing.
"""

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


def charge_movements(
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


def charge_items(results: Iterable[CheckResult]) -> list[tuple[UUID, int, Decimal]]:
    """Results as `charges` takes them."""
    return [(result.pk, result.attempt, result.price) for result in results]


FREE = Decimal(0)


@dataclass(frozen=True, slots=True)
class OrderLine:
    """One check of one report: its price, and the result it repeats if any."""

    definition: CheckDefinition
    question: bytes
    price: Decimal
    reused_from_id: UUID | None


@dataclass(frozen=True, slots=True)
class PricedOrder:
    """What one report asks for, as its workspace knows the subject."""

    subject: KnownSubject
    lines: list[OrderLine]


def price_orders(
    orders: Sequence[Order], workspace_id: UUID, environment: str, at: datetime
) -> list[PricedOrder]:
    """The lines of each order, in one query however many there are."""
    return price(
        [(order.subject, order.definitions, order.reuse) for order in orders],
        workspace_id,
        environment,
        at,
    )


def price(
    wanted: Sequence[tuple[Subject, Sequence[CheckDefinition], bool]],
    workspace_id: UUID,
    environment: str,
    at: datetime,
) -> list[PricedOrder]:
    """The same for (subject, definitions, may reuse)."""
    known = [
        subject.in_workspace(workspace_id, environment) for subject, _, _ in wanted
    ]
    questions = [
        _questions(subject, definitions)
        for subject, (_, definitions, _) in zip(known, wanted, strict=True)
    ]
    fresh = _fresh_answers(
        [
            (question, at - timedelta(days=definition.freshness_days))
            for (_, definitions, reuse), asked in zip(wanted, questions, strict=True)
            if reuse
            for definition, question in zip(definitions, asked, strict=True)
        ]
    )
    return [
        PricedOrder(
            subject,
            [
                _line(definition, question, fresh.get(question) if reuse else None)
                for definition, question in zip(definitions, asked, strict=True)
            ],
        )
        for subject, (_, definitions, reuse), asked in zip(
            known, wanted, questions, strict=True
        )
    ]


def total(lines: Sequence[OrderLine]) -> Decimal:
    return sum((line.price for line in lines), FREE)


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


def _fresh_answers(asked: list[tuple[bytes, datetime]]) -> dict[bytes, UUID]:
    """question -> the newest result that answered it since the moment given."""
    if not asked:
        return {}
    # As JSON, not as arrays: of an array PostgreSQL counts the members, finds the plan
    # for any number of them too dear, and plans anew each time.
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
