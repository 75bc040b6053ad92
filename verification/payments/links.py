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
from verification.consents.links import PAUSE, TooSoon
from verification.consents.messages import is_reached, link_wanted
from verification.jobs.batches import sweep
from verification.notifications.models import Kind
from verification.notifications.outbox import notify
from verification.payments.checkouts import (
    ASKING,
    CHECKOUT_LIVES,
    PAYER,
    SOURCES_CHANGED,
    closed_as,
)
from verification.payments.messages import (
    payer_of,
    payment_reminder,
    payment_request,
    request_causes,
    stop_asking_payer,
)
from verification.payments.models import (
    Checkout,
    CheckoutStatus,
    Payment,
    PaymentStatus,
)
from verification.payments.refunds import give_back_parts
from verification.reports.cancel import fail
from verification.reports.create import cannot_be_made
from verification.reports.locks import hold, hold_payment
from verification.reports.models import Report, ReportStatus
from verification.reports.status import note
from workspaces.models import Client

ASKED = {ReportStatus.DRAFT, ReportStatus.PENDING_PAYMENT}
UNPAID = {*Payment.OUTSTANDING, PaymentStatus.EXPIRED}


class NotPayable(Exception):
    """No link can be sent: `status` is the payment's."""

    def __init__(self, status: str, told: str = "") -> None:
        super().__init__(told or f"A payment that is {status} needs no link.")
        self.status = status


@transaction.atomic
def resend_payment_link(client: Client, report_id: UUID) -> Report:
    """Give a payment that waits, or a draft's that expired, another link."""
    report = hold(client, report_id)
    payments = Payment.objects.select_for_update(no_key=True)
    payment = payments.filter(report=report).first()
    if payment is None:
        raise NotPayable(PaymentStatus.NOT_REQUIRED)
    _renew(report, payment)
    return report


@transaction.atomic
def send_new_payment_link(payment_id: UUID) -> None:
    """The same, asked for by staff, or by who opened a link that has expired."""
    _renew(*hold_payment(payment_id))


@transaction.atomic
def ask_for_payment_link(payment_id: UUID, generation: int) -> None:
    """Tell the client, once for each link, that the payer asks for another one.

    Changes nothing about the report: the client sends a link, or orders anew.
    """
    report, payment = hold_payment(payment_id)
    at = now()
    why = why_client_is_needed(report, payment, generation, at)
    if payment.link_wanted_at or not why:
        return
    payment.link_wanted_at = at
    payment.save(update_fields=["link_wanted_at"])
    note(report, "payer asks for a new link", PAYER, at)
    notify(link_wanted(report, request_causes(payment)[0], PAYER, why))


def why_client_is_needed(
    report: Report, payment: Payment, generation: int, at: datetime
) -> str:
    """Why nothing can be paid by this link, where the client alone can change that;
    else empty."""
    closed = closed_as(report, payment, generation, at)
    is_closed = closed in {PaymentStatus.EXPIRED, SOURCES_CHANGED}
    if not is_closed or is_renewed_by_payer(report):
        return ""
    is_editable = report.status == ReportStatus.DRAFT
    return SOURCES_CHANGED if is_editable and cannot_be_made(report) else str(closed)


def is_renewed_by_payer(report: Report) -> bool:
    """Whether the page of an expired link sends another one, as of a consent."""
    if not _can_be_renewed(report) or cannot_be_made(report):
        return False
    return is_reached(report, Kind.PAYMENT_REQUEST, payer_of(report))


def _can_be_renewed(report: Report) -> bool:
    """Whether a link that expired can be: any other report than a draft has failed."""
    return report.status == ReportStatus.DRAFT


def start_time(payment: Payment, at: datetime) -> None:
    """Let the time to pay begin now."""
    payment.link_made_at, payment.reminded_at = at, None
    payment.expires_at = at + timedelta(days=settings.PAYMENT_LINK_DAYS)


def _renew(report: Report, payment: Payment) -> None:
    at = now()
    is_over = payment.expires_at is not None and payment.expires_at <= at
    # A report whose time is over has failed, whether or not that is written yet.
    waits = _can_be_renewed(report) or not is_over
    if report.status == ReportStatus.PENDING_CONSENT and payment.is_outstanding:
        told = "The payer is asked once the subject has consented."
        raise NotPayable(payment.status, told)
    if report.status not in ASKED or payment.status not in UNPAID or not waits:
        raise NotPayable(PaymentStatus.EXPIRED if is_over else payment.status)
    if told := cannot_be_made(report):
        raise NotPayable(payment.status, f"Nobody can pay for it: {told}")
    if (left := payment.link_made_at + PAUSE - at) > timedelta():
        raise TooSoon(math.ceil(left.total_seconds()))
    stop_asking_payer(payment)
    payment.generation += 1
    payment.token_digest = links.digest(
        links.token("payment", payment.pk, payment.generation)
    )
    payment.status, payment.link_wanted_at = PaymentStatus.PENDING, None
    start_time(payment, at)
    payment.save()
    missing = Checkout.objects.missing(payment)
    notify(*payment_request(report, payment, missing))


EXPIRED = ("PAYMENT_EXPIRED", "Nobody paid in time.")


def expire_payments() -> None:
    sweep(_asked().filter(expires_at__lte=now()), expire_payment)


def remind_payers() -> None:
    # Half of the time that was given for this link.
    half, at = (F("expires_at") - F("link_made_at")) / 2, now()
    due = _asked().filter(reminded_at=None, expires_at__gt=at)
    sweep(due.filter(expires_at__lte=at + half), _remind)


@transaction.atomic
def expire_payment(payment_id: UUID) -> None:
    """Close a link that was not paid by; nothing happens to one that was.

    Who is paying at this moment is waited for.
    """
    report, payment = hold_payment(payment_id)
    at = now()
    is_asked = payment.is_outstanding and report.status in ASKING
    is_due = payment.expires_at is not None and payment.expires_at <= at
    if not (is_asked and is_due) or _is_being_paid(payment):
        return
    payment.status = PaymentStatus.EXPIRED
    payment.save(update_fields=["status"])
    give_back_parts(payment.pk)
    stop_asking_payer(payment)
    if report.status == ReportStatus.PENDING_PAYMENT:
        cause = f"payment:{payment.generation}"
        code, message = EXPIRED
        if told := cannot_be_made(report):
            message = f"Nobody could pay for it: {told}"
        fail(report, (code, message), "payment expired", "service", cause, at)


def _is_being_paid(payment: Payment) -> bool:
    return Checkout.objects.filter(
        payment_id=payment.pk,
        status=CheckoutStatus.OPEN,
        created_at__gt=now() - CHECKOUT_LIVES - timedelta(minutes=5),
    ).exists()


@transaction.atomic
def _remind(payment_id: UUID) -> None:
    report, payment = hold_payment(payment_id)
    if payment.reminded_at or not payment.is_outstanding or report.status not in ASKING:
        return
    if cannot_be_made(report):
        # Should the sources come back in time, the payer is reminded then.
        return
    payment.reminded_at = now()
    payment.save(update_fields=["reminded_at"])
    notify(*payment_reminder(report, payment))


def _asked() -> QuerySet[Payment]:
    """Who waits for the subject's consent is not asked yet: its time begins then."""
    return Payment.objects.filter(
        status__in=Payment.OUTSTANDING, report__status__in=ASKING
    )
