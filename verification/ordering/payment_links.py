"""New links to the payment page; the one before leads nowhere from then on."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils.timezone import now

from verification import links
from verification.notifications.models import Kind
from verification.notifications.notifying import notify
from verification.ordering.client import Client
from verification.ordering.consent_links import PAUSE, TooSoon
from verification.ordering.gates import cannot_be_made
from verification.ordering.holding import hold, hold_payment
from verification.ordering.payers import (
    payer_of,
    payment_request,
    request_causes,
    stop_asking_payer,
)
from verification.ordering.paying import PAYER, SOURCES_CHANGED, closed_as
from verification.ordering.telling import is_reached, link_wanted
from verification.payments.models import Checkout, Payment, PaymentStatus
from verification.reports.models import Report, ReportStatus
from verification.reports.transitions import note

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
