"""The gates of a report: the consent and the payment that an order asks for.

Creating reports: every row of every report in one statement, and one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.timezone import now

from verification.checks.claims import assign_turns
from verification.checks.events import report_event
from verification.checks.models import CheckResult, ResultStatus
from verification.checks.schedule import wake_up_row
from verification.consents.messages import consent_request
from verification.consents.models import Consent, ConsentStatus
from verification.db.bulk_insert import Rows, insert, insert_and_update
from verification.db.ids import uuid7
from verification.notifications import outbox
from verification.notifications.outbox import OutgoingMessage, notification_rows
from verification.payments.messages import payment_request
from verification.payments.models import Payment, PaymentStatus
from verification.payments.registry import LABELS, checkout_provider, minimum_amount
from verification.reports.links import make_link
from verification.reports.models import (
    PaymentMode,
    Report,
    ReportStatus,
    RiskLevel,
    SearchEntry,
    StatusChange,
)
from verification.reports.orders import Order
from verification.reports.pricing import (
    OrderLine,
    PricedOrder,
    charge_movements,
    price_orders,
    total,
)
from verification.reports.queries import SEARCH_ENTRY_COLUMNS, search_entry_rows
from verification.reports.request import (
    Fault,
    InvalidRequest,
    no_consent_reason,
    no_source_reason,
)
from verification.values.wire import CURRENCY
from webhooks.events import NewEvent, event_rows
from webhooks.models import Event
from workspaces.ledger import Movement, balance_update, entries, move_balances
from workspaces.models import Client, Environment


def build_consent(report: Report, order: Order, at: datetime) -> Consent | None:
    asked = order.consent
    if asked is None:
        return None
    consent = Consent(id=uuid7(), report=report, mode=asked.mode.value)
    if asked.mode == Consent.Mode.SERVICE_HOSTED:
        consent.status = ConsentStatus.PENDING
        make_link(consent, at)
        return consent
    consent.status = ConsentStatus.ATTESTED if asked.obtained else ConsentStatus.PENDING
    attested = asked.model_dump(
        mode="json", by_alias=True, exclude={"mode", "obtained"}, exclude_none=True
    )
    consent.attestation = attested or None
    return consent


def build_payment(
    report: Report, order: Order, amount: Decimal, at: datetime
) -> Payment | None:
    """None where nobody but the workspace pays; without a link if it costs nothing."""
    if order.payment_mode == PaymentMode.SELF:
        return None
    payment = Payment(
        id=uuid7(),
        report=report,
        status=PaymentStatus.NOT_REQUIRED,
        amount=amount,
        payer=order.payer.model_dump(by_alias=True) if order.payer else None,
    )
    if not amount:
        return payment
    payment.status = PaymentStatus.PENDING
    make_link(payment, at)
    return payment


def require_payable_amounts(
    orders: Sequence[Order], amounts: Sequence[Decimal], environment: str
) -> None:
    """Raise InvalidRequest if a payer would owe less than can be paid here."""
    faults = [
        Fault(("reports", number, "paymentMode"), "out-of-range", told)
        for number, (order, amount) in enumerate(zip(orders, amounts, strict=True))
        if (told := amount_too_low_reason(order.payment_mode, amount, environment))
    ]
    if faults:
        raise InvalidRequest(faults)


def amount_too_low_reason(payment_mode: str, amount: Decimal, environment: str) -> str:
    """Why nobody can pay this amount; empty if it can be paid, or nobody has to."""
    if payment_mode == PaymentMode.SELF or not amount:
        return ""
    least = minimum_amount(environment, CURRENCY)
    if amount >= least:
        return ""
    taker = LABELS.get(checkout_provider(environment).name, "")
    return (
        f"The payer would owe {CURRENCY} {amount:.2f}, and {taker} takes no less than "
        f"{CURRENCY} {least:.2f}. Request more checks together, or use SELF."
    )


def blocked_check_reason(report: Report) -> str:
    """Why a check that waits to be paid for cannot be made as things stand: no source
    answers it, or the subject was shown other ones. Empty if all can be made."""
    if report.environment != Environment.PRODUCTION:
        return ""
    where = (report.environment, report.country)
    waiting = report.results.filter(reused_from_id=None).order_by("position")
    told = (
        no_source_reason(name, *where) or no_consent_reason(report, name)
        for name in waiting.values_list("name", flat=True)
    )
    return next(filter(None, told), "")


def first_status(
    order: Order, consent: Consent | None, payment: Payment | None
) -> ReportStatus:
    """Where a new report starts: at its first gate that is not open."""
    if order.draft:
        return ReportStatus.DRAFT
    if consent and not consent.is_given:
        return ReportStatus.PENDING_CONSENT
    if payment and payment.is_outstanding:
        return ReportStatus.PENDING_PAYMENT
    return ReportStatus.RUNNING


REPORT_COLUMNS = [
    "id",
    "workspace_id",
    "environment",
    "status",
    "subject_id",
    "subject_type",
    "country",
    "subject_name",
    "search_name",
    "subject",
    "checks_requested",
    "purpose",
    "payment_mode",
    "reuse",
    "reference",
    "monitoring_id",
    "risk_level",
    "failure_code",
    "failure_message",
    "created_by",
    "created_at",
    "updated_at",
    "launched_at",
]
RESULT_COLUMNS = [
    "id",
    "report_id",
    "definition_id",
    "name",
    "position",
    "status",
    "price",
    "attempt",
    "tries",
    "claims",
    "fence",
    "next_attempt_at",
    "turn_at",
    "question",
    "reused_from_id",
    "risk_level",
    "failure_code",
    "failure_message",
    "failure_retryable",
    "created_at",
]
ResultRow = tuple[Any, ...]
FIRST_ATTEMPT = 1
PENDING, UNKNOWN = ResultStatus.PENDING.value, RiskLevel.UNKNOWN.value
CHANGE_COLUMNS = [
    "id",
    "report_id",
    "source",
    "target",
    "trigger",
    "actor",
    "created_at",
]
CONSENT_COLUMNS = [
    "id",
    "report_id",
    "mode",
    "status",
    "generation",
    "token_digest",
    "expires_at",
    "attestation",
]
PAYMENT_COLUMNS = [
    "id",
    "report_id",
    "status",
    "amount",
    "currency",
    "payer",
    "generation",
    "token_digest",
    "expires_at",
]


@dataclass(slots=True)
class NewReport:
    """A report just made, with what the answer says of it."""

    report: Report
    consent: Consent | None
    payment: Payment | None
    total: Decimal


@dataclass(slots=True)
class _Batch:
    """The rows of one request, gathered table by table."""

    reports: list[tuple[Any, ...]] = field(default_factory=list)
    entries: list[tuple[Any, ...]] = field(default_factory=list)
    results: list[ResultRow] = field(default_factory=list)
    changes: list[tuple[Any, ...]] = field(default_factory=list)
    consents: list[tuple[Any, ...]] = field(default_factory=list)
    payments: list[tuple[Any, ...]] = field(default_factory=list)
    movements: list[Movement] = field(default_factory=list)
    happenings: list[NewEvent] = field(default_factory=list)
    wanted: list[OutgoingMessage] = field(default_factory=list)


def create_reports(client: Client, orders: Sequence[Order]) -> list[NewReport]:
    """Create the reports, launched unless they are drafts: all of them or none.

    Raises InsufficientBalance when the workspace cannot pay for all of them, and
    InvalidRequest when a payer would owe less than can be paid.
    """
    if len(orders) == 1:
        return _create_one(client, orders)
    return create_batches([(client, orders)])[0]


def _create_one(client: Client, orders: Sequence[Order]) -> list[NewReport]:
    """In one statement, which is its own transaction.

    BEGIN, COMMIT and the balance would be three more journeys to the database.
    """
    at, batch = now(), _Batch()
    created = _gather_all(client, orders, batch, at)
    with balance_update(batch.movements) as payment:
        insert_and_update(*_rows(batch, created, at), last=payment)
    return created


@transaction.atomic
def create_batches(
    batches: Sequence[tuple[Client, Sequence[Order]]],
    also: Callable[[list[list[NewReport]]], list[Rows]] | None = None,
) -> list[list[NewReport]]:
    """The same for several clients at once; their accounts are all different.

    `also` makes rows that are inserted with the reports, in the same statement.
    """
    at = now()
    batch = _Batch()
    created = [_gather_all(client, orders, batch, at) for client, orders in batches]
    rows = _rows(batch, chain.from_iterable(created), at)
    insert(*rows, *(also(created) if also else []))
    # Last, because until the commit every other order of this workspace waits for it.
    move_balances(batch.movements)
    return created


def _rows(batch: _Batch, created: Iterable[NewReport], at: datetime) -> list[Rows]:
    return [
        Rows(Report, REPORT_COLUMNS, batch.reports),
        Rows(SearchEntry, SEARCH_ENTRY_COLUMNS, batch.entries),
        Rows(CheckResult, RESULT_COLUMNS, batch.results),
        Rows(StatusChange, CHANGE_COLUMNS, batch.changes),
        Rows(Consent, CONSENT_COLUMNS, batch.consents),
        Rows(Payment, PAYMENT_COLUMNS, batch.payments),
        entries(batch.movements, at),
        event_rows(batch.happenings, at),
        notification_rows(batch.wanted, at),
        *_wake_up_rows(created, batch.wanted, at),
    ]


def _gather_all(
    client: Client, orders: Sequence[Order], batch: _Batch, at: datetime
) -> list[NewReport]:
    workspace_id, environment = client.workspace.pk, client.environment
    priced = price_orders(orders, workspace_id, environment, at)
    require_payable_amounts(orders, [total(one.lines) for one in priced], environment)
    checks = sum(len(one.lines) for one in priced)
    turn = iter(assign_turns(client.account.pk, checks, at))
    created = [
        _gather(client, order, one, turn, batch, at)
        for order, one in zip(orders, priced, strict=True)
    ]
    found_by = (
        (made.report.pk, order.subject, order.reference)
        for made, order in zip(created, orders, strict=True)
    )
    batch.entries += search_entry_rows(workspace_id, environment, found_by)
    return created


def _wake_up_rows(
    created: Iterable[NewReport], wanted: Sequence[OutgoingMessage], at: datetime
) -> list[Rows]:
    """Whom the rows wake: workers for checks that are due, and who sends messages."""
    runs = any(made.report.status == ReportStatus.RUNNING for made in created)
    return [
        *([wake_up_row(at)] if runs else []),
        *([outbox.wake_up_row(at)] if wanted else []),
    ]


def _gather(
    client: Client,
    order: Order,
    priced: PricedOrder,
    turn: Iterator[datetime],
    batch: _Batch,
    at: datetime,
) -> NewReport:
    report, lines = _report(client, order, priced.subject.id, at), priced.lines
    consent = build_consent(report, order, at)
    payment = build_payment(report, order, total(lines), at)
    report.status = first_status(order, consent, payment)
    report.launched_at = None if order.draft else at
    results = result_rows(report, lines, turn, at)
    batch.reports.append(values_of(report, REPORT_COLUMNS))
    batch.results += results
    batch.changes.append(
        (uuid7(), report.pk, "", report.status, "created", client.actor, at)
    )
    if consent:
        batch.consents.append(values_of(consent, CONSENT_COLUMNS))
        batch.wanted += consent_request(report, consent)
    if payment:
        batch.payments.append(values_of(payment, PAYMENT_COLUMNS))
        if report.status != ReportStatus.PENDING_CONSENT:
            batch.wanted += payment_request(report, payment)
    if not order.draft:
        prices = [
            (row[0], FIRST_ATTEMPT, line.price)
            for row, line in zip(results, lines, strict=True)
        ]
        batch.movements += charge_movements(client, report, prices)
    batch.happenings.append(_created_event(report, results, consent))
    return NewReport(report, consent, payment, total(lines))


def _report(client: Client, order: Order, subject_id: UUID, at: datetime) -> Report:
    subject = order.subject
    return Report(
        id=uuid7(),
        workspace=client.workspace,
        environment=client.environment,
        subject_id=subject_id,
        subject_type=subject.type,
        country=subject.country,
        subject_name=subject.name,
        search_name=subject.search_name,
        subject=subject.members,
        checks_requested=[definition.name for definition in order.definitions],
        purpose=order.purpose,
        payment_mode=order.payment_mode,
        reuse=order.reuse,
        reference=order.reference,
        monitoring_id=order.monitoring_id,
        created_by=client.actor,
        created_at=at,
        updated_at=at,
    )


def result_rows(
    report: Report, lines: Sequence[OrderLine], turn: Iterator[datetime], at: datetime
) -> list[ResultRow]:
    """Rows of CheckResult, in the order of RESULT_COLUMNS.

    Plain tuples: a request can need 5,000 of them, and a model object costs more than
    the rest of its row together.
    """
    due = at if report.status == ReportStatus.RUNNING else None
    return [
        (
            uuid7(),
            report.pk,
            line.definition.pk,
            line.definition.name,
            position,
            PENDING,
            line.price,
            FIRST_ATTEMPT,
            0,
            0,
            0,
            due,
            next(turn),
            line.question,
            line.reused_from_id,
            UNKNOWN,
            "",
            "",
            False,
            at,
        )
        for position, line in enumerate(lines)
    ]


def _created_event(
    report: Report, results: list[ResultRow], consent: Consent | None
) -> NewEvent:
    return report_event(
        Event.Name.REPORT_CREATED,
        str(report.pk),
        report,
        [(row[3], ResultStatus.PENDING, row[0]) for row in results],
        consent_status=consent.status if consent else ConsentStatus.NOT_REQUIRED.value,
    )


def values_of(row: Any, columns: list[str]) -> tuple[Any, ...]:
    return tuple(getattr(row, column) for column in columns)
