"""The contents of a payer's receipt, stored on its checkout at settlement.

An edit of a paid draft leaves the receipt as it was.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict, cast

from verification.payments.models import Checkout
from verification.reports.models import PaymentMode, Report
from workspaces.models import Account


class ReceiptItem(TypedDict):
    # The catalogue's English name, because people read receipts in two languages.
    name: str
    price: str


class Receipt(TypedDict):
    # The known ones of the payer's `name`, `email` and `phone`.
    payer: dict[str, str]
    requester: str
    purpose: str
    reference: str
    # The subject's name, for a nominated payer's receipt, which shows only initials.
    about: NotRequired[str]
    checks: list[ReceiptItem]
    # The language of the page that opened the checkout.
    language: str


def build_receipt(report: Report, payer: dict[str, str], checkout: Checkout) -> Receipt:
    """Build the receipt of a report from its present state."""
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
    """Build the receipt of a workspace's top-up."""
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
    """Return the stored receipt, or build one for money that did not count.

    Raises ValueError if the checkout is not paid.
    """
    if checkout.paid_at is None:
        raise ValueError("nothing was paid")
    if checkout.receipt:
        return cast(Receipt, checkout.receipt)
    if checkout.account:
        return build_top_up_receipt(checkout.account, checkout)
    return build_receipt(cast(Report, checkout.report), {}, checkout)
