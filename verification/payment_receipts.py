"""Receipts of payments as PDF/UA documents."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, cast

from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext

from verification import pdf
from verification.local_time import IN_FULL, in_nairobi
from verification.payments.models import Checkout
from verification.payments.receipts import receipt_of
from verification.payments.registry import LABELS
from verification.wire import NAIROBI, one_line
from workspaces.models import Environment


def payment_receipt_pdf(checkout: Checkout, language: str) -> bytes:
    """Of a checkout whose money paid a report, or topped up a balance."""
    with translation.override(language):
        data = _receipt(checkout, language)
    return pdf.document("payment_receipt.typ", cast(datetime, checkout.paid_at), data)


def attachments(context: dict[str, Any]) -> list[tuple[str, bytes, str]]:
    """Of the e-mail with a receipt, whose context names its checkout: `checkoutId`."""
    found = Checkout.objects.select_related("report__workspace", "account__workspace")
    checkout = found.get(pk=context["checkoutId"])
    document = payment_receipt_pdf(checkout, checkout.language or "en")
    return [(f"{checkout.number}.pdf", document, "application/pdf")]


def _requester_contact(checkout: Checkout) -> str:
    return checkout.report.workspace.requester.contact if checkout.report else ""


def _receipt(checkout: Checkout, language: str) -> dict[str, Any]:
    receipt = receipt_of(checkout)
    at = cast(datetime, checkout.paid_at).astimezone(NAIROBI)
    currency = checkout.paid_currency
    # It may have come in parts.
    paid = [checkout]
    if checkout.payment_id:
        paid = list(Checkout.objects.paying(checkout.payment_id).order_by("id"))
    total = sum((one.counted_amount for one in paid), Decimal(0))
    surplus = sum((one.paid_amount or 0 for one in paid), Decimal(0)) - total
    parts = [f"{one.number}: {currency} {one.paid_amount:,.2f}" for one in paid]
    return {
        "language": language,
        "number": checkout.number,
        "at": in_nairobi(at, IN_FULL),
        "date": {"year": at.year, "month": at.month, "day": at.day},
        "amount": f"{currency} {total:,.2f}",
        "parts": parts if len(parts) > 1 else [],
        "surplus": f"{currency} {surplus:,.2f}" if surplus else "",
        "workspace": one_line(receipt["payer"]["name"]) if checkout.account else "",
        "requester": one_line(receipt["requester"]),
        "purpose": one_line(receipt["purpose"]),
        "reference": one_line(receipt["reference"]),
        "payee": settings.OPERATOR_NAME,
        "contact": settings.OPERATOR_CONTACT,
        "requesterContact": _requester_contact(checkout),
        "provider": LABELS.get(checkout.provider, ""),
        "transaction": one_line(checkout.transaction),
        "report": str(checkout.report_id or ""),
        "isPlay": checkout.environment == Environment.SANDBOX,
        "checks": [
            {
                "name": gettext(item["name"]),
                "price": f"{Decimal(item['price']):,.2f}",
            }
            for item in receipt["checks"]
        ],
    }
