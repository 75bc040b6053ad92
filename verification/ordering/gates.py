"""The gates of a report: the consent and the payment that an order asks for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from django.conf import settings

from verification import links
from verification.consents.models import Consent, ConsentStatus
from verification.ids import uuid7
from verification.ordering.faults import Fault, InvalidRequest
from verification.ordering.intake import Order
from verification.ordering.rules import not_available, not_consented
from verification.payments.models import Payment, PaymentStatus
from verification.payments.registry import LABELS, checkout_provider, minimum
from verification.reports.models import PaymentMode, Report, ReportStatus
from verification.wire import CURRENCY
from workspaces.models import Environment


def consent_for(report: Report, order: Order, at: datetime) -> Consent | None:
    asked = order.consent
    if asked is None:
        return None
    consent = Consent(id=uuid7(), report=report, mode=asked.mode.value)
    if asked.mode == Consent.Mode.SERVICE_HOSTED:
        consent.status = ConsentStatus.PENDING
        consent.token_digest = links.digest(
            links.token("consent", consent.pk, consent.generation)
        )
        consent.expires_at = at + timedelta(days=settings.CONSENT_LINK_DAYS)
        return consent
    consent.status = ConsentStatus.ATTESTED if asked.obtained else ConsentStatus.PENDING
    attested = asked.model_dump(
        mode="json", by_alias=True, exclude={"mode", "obtained"}, exclude_none=True
    )
    consent.attestation = attested or None
    return consent


def payment_for(
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
    payment.expires_at = at + timedelta(days=settings.PAYMENT_LINK_DAYS)
    payment.token_digest = links.digest(
        links.token("payment", payment.pk, payment.generation)
    )
    return payment


def refuse_too_little(
    orders: Sequence[Order], amounts: Sequence[Decimal], environment: str
) -> None:
    """Raise InvalidRequest if a payer would owe less than can be paid here."""
    faults = [
        Fault(("reports", number, "paymentMode"), "out-of-range", told)
        for number, (order, amount) in enumerate(zip(orders, amounts, strict=True))
        if (told := too_little(order.payment_mode, amount, environment))
    ]
    if faults:
        raise InvalidRequest(faults)


def too_little(payment_mode: str, amount: Decimal, environment: str) -> str:
    """Why nobody can pay this amount; empty if it can be paid, or nobody has to."""
    if payment_mode == PaymentMode.SELF or not amount:
        return ""
    least = minimum(environment, CURRENCY)
    if amount >= least:
        return ""
    taker = LABELS.get(checkout_provider(environment).name, "")
    return (
        f"The payer would owe {CURRENCY} {amount:.2f}, and {taker} takes no less than "
        f"{CURRENCY} {least:.2f}. Request more checks together, or use SELF."
    )


def cannot_be_made(report: Report) -> str:
    """Why a check that waits to be paid for cannot be made as things stand: no source
    answers it, or the subject was shown other ones. Empty if all can be made."""
    if report.environment != Environment.PRODUCTION:
        return ""
    where = (report.environment, report.country)
    waiting = report.results.filter(reused_from_id=None).order_by("position")
    told = (
        not_available(name, *where) or not_consented(report, name)
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
