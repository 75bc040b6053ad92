"""Edit a draft, which bills nothing and runs no check."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import repeat
from typing import Any
from uuid import UUID

from django.db import transaction

from verification.checks.models import CheckResult
from verification.checks.packages import package_of
from verification.consents.models import Consent
from verification.consents.subject_messages import consent_request
from verification.db.bulk_insert import Rows, insert
from verification.notifications.outbox import notify
from verification.payments.models import (
    Checkout,
    Payment,
    PaymentStatus,
    Refund,
    RefundCause,
    RefundStatus,
)
from verification.payments.payer_messages import payment_request
from verification.payments.refunds import refund_parts, refund_surplus
from verification.payments.settlement import close_checkouts
from verification.reports.create import (
    blocked_check_reason,
    build_consent,
    build_payment,
    result_rows,
)
from verification.reports.hosted_links import cancel_requests
from verification.reports.models import (
    PaymentMode,
    Report,
    ReportStatus,
    SearchEntry,
    Subject,
)
from verification.reports.objections import lift_restriction, require_newer_consents
from verification.reports.pricing import (
    OrderLine,
    PricedOrder,
    amount_too_low_reason,
    price_orders,
    total,
)
from verification.reports.queries import search_entry_rows
from verification.reports.request import (
    DraftEdit,
    Fault,
    InvalidRequest,
    Order,
    RuleContext,
    as_sent,
    catalogue,
    named_packages,
    named_return_hosts,
    read_order,
    validate_shape,
)
from verification.reports.status import NotEditable, lock_report
from verification.values.clock import now
from workspaces.models import Client

# The notice shows these members. An edit of one voids a consent that was given.
NOTICE_MEMBERS = ("subject", "checksRequested", "package", "purpose", "paymentMode")


@transaction.atomic
def edit_draft(client: Client, report_id: UUID, body: Mapping[str, Any]) -> None:
    """Replace the members that the body has; the others stay.

    Raises InvalidRequest. Raises NotEditable if the report is not a draft, or if it was
    paid and the edit would change the amount, the payer or the subject.
    """
    report = lock_report(client, report_id)
    if report.status != ReportStatus.DRAFT:
        raise NotEditable(report.status, "Only a draft can be edited.")
    faults = validate_shape(DraftEdit, body)
    # A null member counts as left out.
    body = {name: value for name, value in body.items() if value is not None}
    order, priced, is_paid = price_edit(client, report, body, faults)
    at = now()
    if "consent" in body:
        # One that the draft has already is looked at by the launch.
        subject = order.subject
        require_newer_consents(
            [(("consent",), priced.subject, subject.name, order.consent)]
        )
    payment = getattr(report, "payment", None)
    if payment and is_paid:
        _require_same_payment(report, payment, order, priced)
        payment = None
    else:
        if payment:
            _refund_remainder(payment)
        payment = _replace_payment(report, order, priced, at)
    if payment and (
        reason := amount_too_low_reason(
            order.payment_mode, payment.amount, client.environment
        )
    ):
        raise InvalidRequest([Fault(("paymentMode",), "out-of-range", reason)])
    report.results.all().delete()
    insert(Rows(CheckResult, result_rows(report, priced.lines, repeat(at), at)))
    old_subject = report.subject
    _rewrite(report, order, priced.subject.id, at)
    _replace_consent(report, order, body, old_subject, at)
    if report.restricted_at:
        # It may name another subject, or a newer consent.
        lift_restriction(Report.objects.get(pk=report.pk))
    if payment and not blocked_check_reason(report):
        notify(*payment_request(report, payment))


def price_edit(
    client: Client,
    report: Report,
    body: Mapping[str, Any],
    faults: Sequence[Fault] = (),
) -> tuple[Order, PricedOrder, bool]:
    """Return the edited order, its price, and whether it is paid for.

    `faults` are those of the body's shape. Raises InvalidRequest with all faults.
    """
    order = _merge_edit(client, report, body, faults)
    priced = price_orders([order], *client.where, now(), [report.pk])[0]
    payment = getattr(report, "payment", None)
    is_paid = _is_paid(payment)
    if is_paid:
        priced = replace(priced, lines=_paid_lines(report, order, priced.lines))
    return order, priced, is_paid


def _merge_edit(
    client: Client, report: Report, body: Mapping[str, Any], faults: Sequence[Fault]
) -> Order:
    """Return the edited draft's order, or raise InvalidRequest with all its faults."""
    known = {fault.path for fault in faults}
    item = {**as_item(report), "subject": as_sent(report.subject or {}), **body}
    is_package_kept = (
        report.package and not {"checksRequested", "package"} & body.keys()
    )
    if "package" in body and "checksRequested" not in body:
        del item["checksRequested"]
    if item["paymentMode"] != report.payment_mode and "payer" not in body:
        item.pop("payer", None)
    packages = named_packages(client.workspace.pk, [item])
    hosts = named_return_hosts(client.workspace.pk, [item])
    order = read_order(
        item,
        RuleContext(catalogue(), client.environment, packages, hosts, draft=True),
    )
    if isinstance(order, list):
        raise InvalidRequest([*faults, *(f for f in order if f.path not in known)])
    if faults:
        raise InvalidRequest(faults)
    # With the checks that the draft was made with, which the package may not have now.
    return replace(order, package=package_of(report)) if is_package_kept else order


def as_item(report: Report) -> dict[str, Any]:
    """Return the item of a create request that would make this report.

    It names the checks, as the report's package may have others now.
    """
    item: dict[str, Any] = {
        "subject": report.subject,
        "checksRequested": report.checks_requested,
        "purpose": report.purpose,
        "paymentMode": report.payment_mode,
        "reuse": report.requested_reuse,
    }
    if report.reference:
        item["reference"] = report.reference
    if consent := getattr(report, "consent", None):
        item["consent"] = {"mode": consent.mode}
        if consent.mode == Consent.Mode.CUSTOMER_ATTESTED:
            attested = consent.status == Consent.Status.ATTESTED
            item["consent"] |= {"obtained": attested, **(consent.attestation or {})}
    payment = getattr(report, "payment", None)
    if payment and payment.payer:
        item["payer"] = payment.payer
    return item


def _replace_payment(
    report: Report, order: Order, priced: PricedOrder, at: datetime
) -> Payment | None:
    """Replace the payment if the edit needs a new one, and return the new one."""
    old = getattr(report, "payment", None)
    if old and not _needs_new_payment(report, old, order, priced):
        return None
    if old:
        refund_parts(old.pk)
        close_checkouts(old.pk)
        cancel_requests(old)
        old.delete()
    payment = build_payment(report, order, total(priced.lines), at)
    if payment:
        payment.save(force_insert=True)
    return payment


def _require_same_payment(
    report: Report, paid: Payment, order: Order, priced: PricedOrder
) -> None:
    """Raise NotEditable if the edit changes the amount, mode, payer or subject.

    A correction of details is no other subject while the subject keeps its id.
    """
    amount, fact = total(priced.lines), f"{paid.amount} {paid.currency} was paid"
    if paid.amount != amount:
        why = f"{fact} for this draft, and the edit would change that to {amount}."
    elif _names_another_payer(report, paid, order):
        why = f"{fact} by the payer of this draft, and the edit names another one."
    elif priced.subject.id != report.subject_id:
        why = f"{fact} for the subject of this draft, and the edit names another one."
    else:
        return
    raise NotEditable(report.status, f"{why} To give the money back, cancel the draft.")


def _paid_lines(
    report: Report, order: Order, lines: list[OrderLine]
) -> list[OrderLine]:
    """Return the lines at the prices that were paid, if package and checks stay.

    A check that reused a result about another subject has the present price.
    """
    paid = {result.name: result for result in report.results.all()}
    if (
        paid.keys() != {line.definition.name for line in lines}
        or report.package != (order.package.name if order.package else None)
        or report.requested_reuse != order.reuse
    ):
        return lines
    return [
        replace(line, price=result.price, reused_from_id=result.reused_from_id)
        if result.reused_from_id is None
        or bytes(result.question or b"") == line.question
        else line
        for line, result in ((line, paid[line.definition.name]) for line in lines)
    ]


def _is_paid(payment: Payment | None) -> bool:
    """Return whether it is paid, and no part refunded by a refund that is approved."""
    if payment is None or payment.status != PaymentStatus.PAID:
        return False
    paying = Checkout.objects.paying(payment.pk)
    refunds = Refund.objects.filter(
        checkout__in=paying, status__in=[RefundStatus.APPROVED, RefundStatus.DONE]
    )
    # Money beyond the amount of the payment was never part of it.
    return not refunds.exclude(cause=RefundCause.OVERPAID).exists()


def _refund_remainder(payment: Payment) -> None:
    """Refund the rest of a partly refunded payment before a new one replaces it."""
    if payment.status != PaymentStatus.PAID:
        return
    paying = Checkout.objects.paying(payment.pk).order_by("id")
    for checkout in paying.select_for_update(of=("self",), no_key=True):
        if checkout.refundable:
            refund_surplus(checkout, RefundCause.NOT_ASKED)


def _names_another_payer(report: Report, payment: Payment, order: Order) -> bool:
    payer = order.payer.model_dump(by_alias=True) if order.payer else payment.payer
    return order.payment_mode != report.payment_mode or payer != payment.payer


def _needs_new_payment(
    report: Report, old: Payment, order: Order, priced: PricedOrder
) -> bool:
    # The old link may be with another payer, or at a wrong address.
    has_other_payer = _names_another_payer(report, old, order) or (
        order.payment_mode == PaymentMode.CANDIDATE
        and order.subject.members != report.subject
    )
    # The payer may have begun to pay for the old subject.
    has_other_subject = priced.subject.id != report.subject_id
    is_refunded = old.status in {PaymentStatus.PAID, PaymentStatus.REFUNDED}
    is_new = has_other_payer or has_other_subject or is_refunded
    return is_new or old.amount != total(priced.lines)


def _replace_consent(
    report: Report,
    order: Order,
    body: Mapping[str, Any],
    old_subject: dict[str, Any] | None,
    at: datetime,
) -> None:
    """Replace the consent if the edit voids it or asks for another one.

    `old_subject` received the present link.
    """
    old = getattr(report, "consent", None)
    hosted = old if old and old.mode == Consent.Mode.SERVICE_HOSTED else None
    is_decided = hosted and hosted.status != Consent.Status.PENDING
    # The old link may be with another person, or at a wrong address.
    is_voided = hosted and (
        (is_decided and any(member in body for member in NOTICE_MEMBERS))
        or old_subject != report.subject
    )
    is_new = "consent" in body and not (hosted and _can_keep_link(order, hosted))
    if not is_voided and not is_new:
        return
    if old:
        cancel_requests(old)
        old.delete()
    if consent := build_consent(report, order, at):
        consent.save(force_insert=True)
        notify(*consent_request(report, consent))


def _can_keep_link(order: Order, old: Consent) -> bool:
    """Return whether the order asks in the same way, so that the old link can stay."""
    is_same = order.consent is not None and order.consent.mode == old.mode
    return is_same and old.status in {Consent.Status.PENDING, Consent.Status.GRANTED}


def _rewrite(report: Report, order: Order, subject_id: UUID, at: datetime) -> None:
    report.checks_requested = [definition.name for definition in order.definitions]
    report.package = order.package.name if order.package else None
    report.purpose, report.payment_mode = order.purpose, order.payment_mode
    report.reuse, report.reuse_requested = order.reuse is not False, order.reuse is True
    report.updated_at = at
    # An edit without an address keeps the old one; its host may be off the list now.
    report.return_url = order.return_url or report.return_url
    write_subject(report, order.subject, subject_id)


def write_subject(
    report: Report,
    subject: Subject,
    subject_id: UUID,
    former_ids: Collection[UUID] = (),
) -> None:
    """Save a locked report with this subject, and its search terms.

    `former_ids` are of numbers that it is found by as well: results have asked with
    them.
    """
    report.subject_id, report.subject = subject_id, subject.members
    report.subject_type, report.country = subject.type, subject.country
    report.subject_name = subject.name
    report.search_name = subject.search_name
    report.save()
    report.search_entry.delete()
    searchable = [(report.pk, subject, report.reference)]
    rows = search_entry_rows(report.workspace_id, report.environment, searchable)
    further = {*rows[0]["further_ids"], *former_ids} - {subject_id}
    rows[0]["further_ids"] = sorted(further)
    insert(Rows(SearchEntry, rows))
