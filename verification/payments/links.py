"""New links to the payment page; the one before leads nowhere from then on.

Payments that nobody has made: reminding of each once, and closing it in the end.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils.timezone import now

from verification import links
from verification.consents.links import RESEND_INTERVAL, ResendTooSoon
from verification.consents.messages import is_reachable, new_link_request
from verification.jobs.batches import sweep
from verification.notifications.models import Kind
from verification.notifications.outbox import notify
from verification.payments.checkouts import (
    CHECKOUT_LIFETIME,
    PAYABLE_STATUSES,
    PAYER,
    SOURCES_CHANGED,
    closed_reason,
)
from verification.payments.messages import (
    cancel_payment_requests,
    payer_of,
    payment_reminder,
    payment_request,
    request_causes,
)
from verification.payments.models import (
    Checkout,
    CheckoutStatus,
    Payment,
    PaymentStatus,
)
from verification.payments.refunds import refund_parts
from verification.reports.cancel import fail_report
from verification.reports.create import blocked_check_reason
from verification.reports.locks import lock_payment, lock_report
from verification.reports.models import Report, ReportStatus
from verification.reports.status import record_note
from workspaces.models import Client

RENEWABLE_STATUSES = {ReportStatus.DRAFT, ReportStatus.PENDING_PAYMENT}
UNPAID = {*Payment.OUTSTANDING, PaymentStatus.EXPIRED}


class NotPayable(Exception):
    """No link can be sent: `status` is the payment's."""

    def __init__(self, status: str, told: str = "") -> None:
        super().__init__(told or f"A payment that is {status} needs no link.")
        self.status = status


@transaction.atomic
def resend_payment_link(client: Client, report_id: UUID) -> Report:
    """Give a payment that waits, or a draft's that expired, another link."""
    report = lock_report(client, report_id)
    payments = Payment.objects.select_for_update(no_key=True)
    payment = payments.filter(report=report).first()
    if payment is None:
        raise NotPayable(PaymentStatus.NOT_REQUIRED)
    _renew(report, payment)
    return report


@transaction.atomic
def renew_payment_link(payment_id: UUID) -> None:
    """The same, asked for by staff, or by who opened a link that has expired."""
    _renew(*lock_payment(payment_id))


@transaction.atomic
def request_payment_link(payment_id: UUID, generation: int) -> None:
    """Tell the client, once for each link, that the payer asks for another one.

    Changes nothing about the report: the client sends a link, or orders anew.
    """
    report, payment = lock_payment(payment_id)
    at = now()
    why = client_action_needed(report, payment, generation, at)
    if payment.link_requested_at or not why:
        return
    payment.link_requested_at = at
    payment.save(update_fields=["link_requested_at"])
    record_note(report, "payer asks for a new link", PAYER, at)
    notify(new_link_request(report, request_causes(payment)[0], PAYER, why))


def client_action_needed(
    report: Report, payment: Payment, generation: int, at: datetime
) -> str:
    """Why nothing can be paid by this link, where the client alone can change that;
    else empty."""
    closed = closed_reason(report, payment, generation, at)
    is_closed = closed in {PaymentStatus.EXPIRED, SOURCES_CHANGED}
    if not is_closed or can_payer_renew(report):
        return ""
    is_editable = report.status == ReportStatus.DRAFT
    return (
        SOURCES_CHANGED if is_editable and blocked_check_reason(report) else str(closed)
    )


def can_payer_renew(report: Report) -> bool:
    """Whether the page of an expired link sends another one, as of a consent."""
    if not _is_renewable(report) or blocked_check_reason(report):
        return False
    return is_reachable(report, Kind.PAYMENT_REQUEST, payer_of(report))


def _is_renewable(report: Report) -> bool:
    """Whether a link that expired can be: any other report than a draft has failed."""
    return report.status == ReportStatus.DRAFT


def start_payment_period(payment: Payment, at: datetime) -> None:
    """Let the time to pay begin now."""
    payment.link_made_at, payment.reminded_at = at, None
    payment.expires_at = at + timedelta(days=settings.PAYMENT_LINK_DAYS)


def _renew(report: Report, payment: Payment) -> None:
    at = now()
    is_over = payment.expires_at is not None and payment.expires_at <= at
    # A report whose time is over has failed, whether or not that is written yet.
    waits = _is_renewable(report) or not is_over
    if report.status == ReportStatus.PENDING_CONSENT and payment.is_outstanding:
        told = "The payer is asked once the subject has consented."
        raise NotPayable(payment.status, told)
    if (
        report.status not in RENEWABLE_STATUSES
        or payment.status not in UNPAID
        or not waits
    ):
        raise NotPayable(PaymentStatus.EXPIRED if is_over else payment.status)
    if told := blocked_check_reason(report):
        raise NotPayable(payment.status, f"Nobody can pay for it: {told}")
    if (left := payment.link_made_at + RESEND_INTERVAL - at) > timedelta():
        raise ResendTooSoon(math.ceil(left.total_seconds()))
    cancel_payment_requests(payment)
    payment.generation += 1
    payment.token_digest = links.digest(
        links.token("payment", payment.pk, payment.generation)
    )
    payment.status, payment.link_requested_at = PaymentStatus.PENDING, None
    start_payment_period(payment, at)
    payment.save()
    missing = Checkout.objects.missing(payment)
    notify(*payment_request(report, payment, missing))


EXPIRED = ("PAYMENT_EXPIRED", "Nobody paid in time.")


def expire_payments() -> None:
    sweep(_requested_payments().filter(expires_at__lte=now()), expire_payment)


def remind_payers() -> None:
    # Half of the time that was given for this link.
    half, at = (F("expires_at") - F("link_made_at")) / 2, now()
    due = _requested_payments().filter(reminded_at=None, expires_at__gt=at)
    sweep(due.filter(expires_at__lte=at + half), _remind)


@transaction.atomic
def expire_payment(payment_id: UUID) -> None:
    """Close a link that was not paid by; nothing happens to one that was.

    Who is paying at this moment is waited for.
    """
    report, payment = lock_payment(payment_id)
    at = now()
    is_asked = payment.is_outstanding and report.status in PAYABLE_STATUSES
    is_due = payment.expires_at is not None and payment.expires_at <= at
    if not (is_asked and is_due) or _is_being_paid(payment):
        return
    payment.status = PaymentStatus.EXPIRED
    payment.save(update_fields=["status"])
    refund_parts(payment.pk)
    cancel_payment_requests(payment)
    if report.status == ReportStatus.PENDING_PAYMENT:
        cause = f"payment:{payment.generation}"
        code, message = EXPIRED
        if told := blocked_check_reason(report):
            message = f"Nobody could pay for it: {told}"
        fail_report(report, (code, message), "payment expired", "service", cause, at)


def _is_being_paid(payment: Payment) -> bool:
    return Checkout.objects.filter(
        payment_id=payment.pk,
        status=CheckoutStatus.OPEN,
        created_at__gt=now() - CHECKOUT_LIFETIME - timedelta(minutes=5),
    ).exists()


@transaction.atomic
def _remind(payment_id: UUID) -> None:
    report, payment = lock_payment(payment_id)
    if (
        payment.reminded_at
        or not payment.is_outstanding
        or report.status not in PAYABLE_STATUSES
    ):
        return
    if blocked_check_reason(report):
        # Should the sources come back in time, the payer is reminded then.
        return
    payment.reminded_at = now()
    payment.save(update_fields=["reminded_at"])
    notify(*payment_reminder(report, payment))


def _requested_payments() -> QuerySet[Payment]:
    """Who waits for the subject's consent is not asked yet: its time begins then."""
    return Payment.objects.filter(
        status__in=Payment.OUTSTANDING, report__status__in=PAYABLE_STATUSES
    )
