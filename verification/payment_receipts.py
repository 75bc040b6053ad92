"""Receipts of payments as PDF/UA documents."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.utils import translation
from django.utils.dateformat import format as formatted
from django.utils.translation import gettext

from verification import pdf
from verification.payments.models import Checkout
from verification.wire import one_line
from workspaces.models import Environment

NAIROBI = ZoneInfo("Africa/Nairobi")
PROVIDERS = {"paystack": "Paystack", "stripe": "Stripe"}


def payment_receipt_pdf(checkout: Checkout, language: str) -> bytes:
    """Of a checkout whose money paid a report."""
    if checkout.paid_at is None or checkout.report is None:
        raise ValueError("nothing was paid for a report")
    with translation.override(language):
        data = _receipt(checkout, language)
    return pdf.document("payment_receipt.typ", checkout.paid_at, data)


def attachments(context: dict[str, Any]) -> list[tuple[str, bytes, str]]:
    """Of the e-mail with a receipt, whose context names its checkout: `checkoutId`."""
    checkout = Checkout.objects.get(pk=context["checkoutId"])
    document = payment_receipt_pdf(checkout, checkout.language or "en")
    return [(f"{checkout.number}.pdf", document, "application/pdf")]


def _receipt(checkout: Checkout, language: str) -> dict[str, Any]:
    report = checkout.report
    if checkout.paid_at is None or report is None:
        raise ValueError("nothing was paid for a report")
    at = checkout.paid_at.astimezone(NAIROBI)
    results = report.results.select_related("definition").order_by("position")
    return {
        "language": language,
        "number": checkout.number,
        "at": f"{formatted(at, 'j F Y, H:i:s')} (UTC+3)",
        "date": {"year": at.year, "month": at.month, "day": at.day},
        "amount": f"{checkout.paid_currency} {checkout.paid_amount:,.2f}",
        "requester": one_line(report.workspace.name),
        "purpose": one_line(report.purpose),
        "reference": one_line(report.reference or ""),
        "payee": settings.OPERATOR_NAME,
        "contact": settings.OPERATOR_CONTACT,
        "provider": PROVIDERS.get(checkout.provider, ""),
        "transaction": one_line(checkout.transaction),
        "report": str(report.pk),
        "isPlay": checkout.environment == Environment.SANDBOX,
        "checks": [
            {
                "name": gettext(result.definition.display_name),
                "price": f"{result.price:,.2f}",
            }
            for result in results
        ],
    }
