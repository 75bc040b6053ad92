"""Create reports with their consents, payments, check results, charges and events.

All rows of a request are inserted together, in one transaction.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db import IntegrityError, transaction

from verification import tracing
from verification.checks.due_checks import assign_turns, wake_up_row
from verification.checks.events import consent_status, report_event
from verification.checks.models import CheckResult, ResultStatus
from verification.consents.models import Consent, ConsentStatus
from verification.consents.subject_messages import consent_request
from verification.db.base import broken_constraint
from verification.db.bulk_insert import Row, Rows, insert
from verification.db.ids import uuid7
from verification.jobs.queue import notify_on_commit
from verification.notifications import outbox
from verification.notifications.outbox import OutgoingMessage, notification_rows
from verification.payments.models import Payment, PaymentStatus
from verification.payments.payer_messages import payment_request
from verification.reports.hosted_links import make_link
from verification.reports.models import (
    PaymentMode,
    Report,
    ReportStatus,
    RiskLevel,
    SearchEntry,
    StatusChange,
)
from verification.reports.pricing import (
    OrderLine,
    PricedOrder,
    charge_movements,
    first_status,
    price_orders,
    require_consents,
    require_payable_amounts,
    total,
)
from verification.reports.queries import search_entry_rows
from verification.reports.request import Order, no_consent_reason, no_source_reason
from verification.reports.status import (
    OBJECTIONS_ARE_READ,
    lock_orders,
    orders_lock,
    refuse_objected,
)
from verification.values.clock import now
from webhooks.events import NewEvent, event_rows
from webhooks.models import Event
from workspaces.ledger import Movement, balance_updates, entries, refuse_overdraft
from workspaces.models import Client, Environment


@dataclass(slots=True)
class NewReport:
    """A created report, with what the API's answer needs."""

    report: Report
    consent: Consent | None
    consent_status: str
    payment: Payment | None
    total: Decimal


@dataclass(slots=True)
class _Batch:
    """Everything that one transaction inserts or books."""

    # True if the orders wait for objections, and are compared with them
    reads_objections: bool
    reports: list[Report] = field(default_factory=list)
    search_entries: list[Row] = field(default_factory=list)
    results: list[Row] = field(default_factory=list)
    status_changes: list[Row] = field(default_factory=list)
    consents: list[Consent] = field(default_factory=list)
    payments: list[Payment] = field(default_factory=list)
    movements: list[Movement] = field(default_factory=list)
    events: list[NewEvent] = field(default_factory=list)
    messages: list[OutgoingMessage] = field(default_factory=list)
    # The subjects whose objections the insert reads, by the lock of their orders
    attested: defaultdict[str, list[UUID]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def rows(self, at: datetime) -> list[Rows]:
        """Return the rows table by table, referenced tables first."""
        runs = any(report.status == ReportStatus.RUNNING for report in self.reports)
        return [
            Rows(Report, self.reports),
            Rows(SearchEntry, self.search_entries),
            Rows(CheckResult, self.results),
            Rows(StatusChange, self.status_changes),
            Rows(Consent, self.consents),
            Rows(Payment, self.payments),
            entries(self.movements, at),
            event_rows(self.events, at),
            notification_rows(self.messages, at),
            *([wake_up_row(at)] if runs else []),
            *([outbox.wake_up_row(at)] if self.messages else []),
        ]


def create_reports(client: Client, orders: Sequence[Order]) -> list[NewReport]:
    """Create all reports or none, and launch all except drafts.

    Raises InsufficientBalance if the workspace cannot pay for all of them, and
    InvalidRequest if a payer would owe less than the provider accepts, or if a subject
    objected after the consent that is attested.
    """
    (created,) = create_batches([(client, orders)])
    # Their checks run in other traces, which name them as well.
    tracing.note("verification.report_id", (str(new.report.pk) for new in created))
    return created


def create_batches(
    batches: Sequence[tuple[Client, Sequence[Order]]],
    also: Callable[[list[list[NewReport]]], list[Rows]] | None = None,
) -> list[list[NewReport]]:
    """Create the reports of several clients, who have different accounts.

    `also` takes the new reports and returns further rows to insert with them.

    A subject may object at any time. The insert reads the objections itself, which
    costs no further statement and no wait. It fails if there is one, or if one of the
    workspace is under way. Then the orders are read again under the lock that
    objections wait for.
    """
    try:
        return _create(batches, also, reads_objections=False)
    except IntegrityError as e:
        if broken_constraint(e) != OBJECTIONS_ARE_READ:
            raise
    with transaction.atomic():
        for client, _ in batches:
            lock_orders(*client.where)
        return _create(batches, also, reads_objections=True)


def _create(
    batches: Sequence[tuple[Client, Sequence[Order]]],
    also: Callable[[list[list[NewReport]]], list[Rows]] | None,
    *,
    reads_objections: bool,
) -> list[list[NewReport]]:
    batch, at = _Batch(reads_objections), now()
    is_one = sum(len(orders) for _, orders in batches) == 1
    with (
        refuse_overdraft(batch.movements),
        # One order is one statement, a transaction without BEGIN and COMMIT.
        nullcontext() if is_one else transaction.atomic(savepoint=False),
    ):
        created = [_gather_all(client, orders, batch, at) for client, orders in batches]
        insert(
            *batch.rows(at),
            *(also(created) if also else []),
            first=refuse_objected(batch.attested),
            last=balance_updates(batch.movements),
        )
        notify_on_commit()
    return created


def _gather_all(
    client: Client, orders: Sequence[Order], batch: _Batch, at: datetime
) -> list[NewReport]:
    workspace_id, environment = client.where
    report_ids = [uuid7() for _ in orders]
    priced = price_orders(orders, workspace_id, environment, at, report_ids)
    require_payable_amounts(orders, [total(p.lines) for p in priced], environment)
    if batch.reads_objections:
        require_consents(orders, priced)
    else:
        for order, priced_order in zip(orders, priced, strict=True):
            if order.attests_consent:
                lock = orders_lock(workspace_id, environment)
                batch.attested[lock] += priced_order.subject.ids
    checks = sum(len(p.lines) for p in priced)
    turns = iter(assign_turns(client.account.pk, checks, at))
    created = [
        _gather(client, report_id, order, priced_order, turns, batch, at)
        for report_id, order, priced_order in zip(
            report_ids, orders, priced, strict=True
        )
    ]
    searchable = (
        (new.report.pk, order.subject, order.reference)
        for new, order in zip(created, orders, strict=True)
    )
    batch.search_entries += search_entry_rows(workspace_id, environment, searchable)
    return created


def _gather(
    client: Client,
    report_id: UUID,
    order: Order,
    priced: PricedOrder,
    turns: Iterator[datetime],
    batch: _Batch,
    at: datetime,
) -> NewReport:
    report = _report(client, report_id, order, priced.subject.id, at)
    lines = priced.lines
    consent = build_consent(report, order, at)
    payment = build_payment(report, order, total(lines), at)
    report.status = first_status(
        draft=order.draft,
        needs_consent=consent is not None and not consent.is_given,
        needs_payment=payment is not None and payment.is_outstanding,
    )
    report.launched_at = None if order.draft else at
    results = result_rows(report, lines, turns, at)
    batch.reports.append(report)
    batch.results += results
    # Only the runs of a rule leave out a check.
    is_partial = len(lines) < len(order.sharing)
    trigger = "created without the referee" if is_partial else "created"
    batch.status_changes.append(
        {
            "id": uuid7(),
            "report_id": report.pk,
            "source": "",
            "target": report.status,
            "trigger": trigger,
            "actor": client.actor,
            "created_at": at,
        }
    )
    if consent:
        batch.consents.append(consent)
        batch.messages += consent_request(report, consent)
    if payment:
        batch.payments.append(payment)
        if report.status != ReportStatus.PENDING_CONSENT:
            batch.messages += payment_request(report, payment)
    if not order.draft:
        charges = [(row["id"], row["attempt"], row["price"]) for row in results]
        batch.movements += charge_movements(client, report, charges)
    is_needed = any(line.definition.requires_consent for line in lines)
    state = consent_status(consent, is_needed=is_needed)
    stack = [(row["name"], ResultStatus.PENDING, row["id"]) for row in results]
    name, cause = Event.Name.REPORT_CREATED, str(report.pk)
    event = report_event(name, cause, report, stack, consent_status=state)
    batch.events.append(event)
    return NewReport(report, consent, state, payment, total(lines))


def _report(
    client: Client, report_id: UUID, order: Order, subject_id: UUID, at: datetime
) -> Report:
    subject = order.subject
    return Report(
        id=report_id,
        **client.lookups,
        subject_id=subject_id,
        subject_type=subject.type,
        country=subject.country,
        subject_name=subject.name,
        search_name=subject.search_name,
        subject=subject.members,
        checks_requested=[definition.name for definition in order.definitions],
        package=order.package.name if order.package else None,
        purpose=order.purpose,
        payment_mode=order.payment_mode,
        reuse=order.reuse is not False,
        reuse_requested=order.reuse is True,
        reference=order.reference,
        return_url=order.return_url,
        monitoring_id=order.monitoring_id,
        created_by=client.actor,
        created_at=at,
        updated_at=at,
    )


def build_consent(report: Report, order: Order, at: datetime) -> Consent | None:
    """Return the unsaved consent that the order asks for or attests, if any."""
    requested = order.consent
    if requested is None:
        return None
    consent = Consent(id=uuid7(), report=report, mode=requested.mode.value)
    if requested.mode == Consent.Mode.SERVICE_HOSTED:
        consent.status = ConsentStatus.PENDING
        make_link(consent, at)
        return consent
    consent.status = (
        ConsentStatus.ATTESTED if requested.obtained else ConsentStatus.PENDING
    )
    attested = requested.model_dump(
        mode="json", by_alias=True, exclude={"mode", "obtained"}, exclude_none=True
    )
    consent.attestation = attested or None
    return consent


def build_payment(
    report: Report, order: Order, amount: Decimal, at: datetime
) -> Payment | None:
    """Return the unsaved payment, or None if the workspace pays."""
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
        return payment  # A free report needs no link.
    payment.status = PaymentStatus.PENDING
    make_link(payment, at)
    return payment


def result_rows(
    report: Report, lines: Sequence[OrderLine], turns: Iterator[datetime], at: datetime
) -> list[Row]:
    """Return rows of CheckResult, due at once if the report runs."""
    due = at if report.status == ReportStatus.RUNNING else None
    return [
        {
            "id": uuid7(),
            "report_id": report.pk,
            "definition_id": line.definition.pk,
            "name": line.definition.name,
            "position": position,
            "status": ResultStatus.PENDING.value,
            "price": line.price,
            "attempt": 1,
            "tries": 0,
            "claims": 0,
            "fence": 0,
            "next_attempt_at": due,
            "turn_at": next(turns),
            "question": line.question,
            "reused_from_id": line.reused_from_id,
            "risk_level": RiskLevel.UNKNOWN.value,
            "failure_code": "",
            "failure_message": "",
            "failure_retryable": False,
            "created_at": at,
        }
        for position, line in enumerate(lines)
    ]


def blocked_check_reason(report: Report) -> str:
    """Return why a check that waits for payment cannot run; empty if all can.

    A check cannot run if no source answers it, or if the consent covers none of its
    sources.
    """
    if report.environment != Environment.PRODUCTION:
        return ""
    where = (report.environment, report.country)
    waiting = report.results.filter(reused_from_id=None).order_by("position")
    reasons = (
        no_source_reason(name, *where) or no_consent_reason(report, name)
        for name in waiting.values_list("name", flat=True)
    )
    return next(filter(None, reasons), "")
