"""What a payer was told when the money was counted, kept on its checkout.

A draft that is paid can still be edited; its payer's receipt stays as it was.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict, cast

from verification.payments.models import Checkout
from verification.reports.models import PaymentMode, Report
from workspaces.models import Account


class ReceiptItem(TypedDict):
    # As the catalogue had it, in English: receipts are read in either language.
    name: str
    price: str


class Receipt(TypedDict):
    # `name`, `email` and `phone` of who paid, those that were known.
    payer: dict[str, str]
    requester: str
    purpose: str
    reference: str
    # Whom a nominated payer paid for; shown by initials alone.
    about: NotRequired[str]
    checks: list[ReceiptItem]
    # Of the page that was paid from.
    language: str


def build_receipt(report: Report, payer: dict[str, str], checkout: Checkout) -> Receipt:
    """The receipt as the report stands now."""
    results = report.results.select_related("definition").order_by("position")
    receipt = Receipt(
        payer=payer,
        requester=report.workspace.requester.name,
        purpose=report.purpose,
        reference=report.reference or "",
        checks=[
            ReceiptItem(name=result.definition.display_name, price=str(result.price))
            for result in results
        ],
        language=checkout.language,
    )
    if report.payment_mode == PaymentMode.THIRD_PARTY:
        receipt["about"] = report.subject_name
    return receipt


def build_top_up_receipt(account: Account, checkout: Checkout) -> Receipt:
    """The receipt of a workspace that topped up its balance."""
    workspace = account.workspace
    price = str(checkout.counted_amount)
    return Receipt(
        payer={"name": workspace.requester.name, "email": workspace.contact_email},
        requester="",
        purpose="",
        reference="",
        checks=[ReceiptItem(name="Top-up of the balance", price=price)],
        language=checkout.language,
    )


def receipt_of(checkout: Checkout) -> Receipt:
    """As it was kept, or as it is now where it was paid before any was.

    Raises ValueError where nothing was paid.
    """
    if checkout.paid_at is None:
        raise ValueError("nothing was paid")
    if checkout.receipt:
        return cast(Receipt, checkout.receipt)
    if checkout.account:
        return build_top_up_receipt(checkout.account, checkout)
    return build_receipt(cast(Report, checkout.report), {}, checkout)
