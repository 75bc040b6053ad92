"""A Paystack that answers as the real one does, over a real socket.

def test_something(paystack):
    ...  # have a checkout begun with `paystack.adapter()`
    paystack.pay("PR-1")
    paystack.deliver(f"{service}/api/v1/webhooks/payment-provider")

Its page is at the `authorization_url`. `checkouts` says what else it does.
https://paystack.com/docs/api/
"""

import hmac
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import unquote, urlencode

import pytest

from tests.fakes import paystack_shapes as shapes
from tests.fakes.checkouts import CheckoutServer, back, page
from tests.fakes.server import Answer, Request
from verification.providers.paystack import Paystack

KEY = "sk_test_of_no_worth"
CURRENCIES = {"GHS", "KES", "NGN", "USD", "ZAR"}
CHOICES = {"pay": "Pay", "fail": "Fail", "abandon": "Abandon"}


@dataclass
class Transaction:
    id: int
    code: str
    reference: str
    requested_amount: int
    currency: str
    email: str
    callback_url: str
    metadata: Any
    # As a transaction is that nobody has tried to pay yet.
    status: str = "abandoned"
    gateway_response: str = "The transaction was not completed"
    amount: int = 0
    fees: int | None = None
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    paid_at: datetime | None = None
    channel: str = "card"
    message: str | None = None
    # Of an M-Pesa prompt.
    phone: str = ""


@dataclass
class Refund:
    id: int
    transaction: Transaction
    amount: int
    currency: str
    merchant_note: str
    customer_note: str
    status: str = "pending"
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))


class FakePaystack(CheckoutServer):
    api_prefixes: ClassVar = ("/transaction", "/charge", "/refund", "/dispute")

    def __init__(self) -> None:
        super().__init__()
        self.key = KEY
        self.transactions: dict[str, Transaction] = {}
        self.refunds: list[Refund] = []
        # Disputes in the form of Paystack's list, by their id.
        self.disputes: dict[int, dict[str, Any]] = {}
        # The member with the time of a refund, and whether lists have page counts.
        self.refund_time = "createdAt"
        self.tells_pages = True
        # Cents on top of the price, which the customer pays.
        self.fees = 0
        # The metadata in answers about transactions, if set.
        self.metadata: Any = None
        # The list of refunds honours the transaction of the request.
        self.filters_refunds = True
        self.most_per_page = 100
        # The status in the answer to a charge of mobile money.
        self.prompt_status = "pay_offline"

    def adapter(self, **options: Any) -> Paystack:
        """Return an adapter that is configured for this server."""
        options = {"fallback_email": "pay.example.org", **options}
        return Paystack(
            self.key, self.url, [self.host], checkout_origin=self.url, **options
        )

    def sign(self, body: bytes, secret: str | None = None) -> dict[str, str]:
        key = (secret or self.key).encode()
        return {"x-paystack-signature": hmac.new(key, body, "sha512").hexdigest()}

    # Actions of the payer and of Paystack's staff.

    def pay(self, reference: str) -> None:
        paid = self.transactions[reference]
        paid.amount = paid.requested_amount + self.fees
        if self.pays is not None:
            paid.amount = self.pays
        paid.currency = self.currency or paid.currency
        paid.fees = self.fees or round(paid.requested_amount * 0.015)
        paid.status, paid.gateway_response = "success", "Successful"
        paid.paid_at = datetime.now(UTC)
        self.happened({"event": "charge.success", "data": shapes.charge(paid, self)})

    def fail(self, reference: str) -> None:
        """Decline the attempt to pay; Paystack sends no event for that."""
        failed = self.transactions[reference]
        failed.status, failed.gateway_response = "failed", "Declined"

    def end_prompt(self, reference: str, message: str, status: str = "failed") -> None:
        """End an M-Pesa prompt as the phone or the network does, without an event."""
        ended = self.transactions[reference]
        ended.status, ended.message = status, message
        ended.gateway_response = "Declined"

    def abandon(self, reference: str) -> None:
        abandoned = self.transactions[reference]
        if abandoned.status != "success":
            abandoned.status = "abandoned"
            abandoned.gateway_response = "The transaction was not completed"

    def settle_refunds(self) -> None:
        """End all pending refunds, as the banks do."""
        word = "failed" if self.refund_fails else "processed"
        for refund in self.refunds:
            if refund.status in ("pending", "processing"):
                refund.status = word
                self.happened(shapes.refund_event(refund))
                whole = refund.amount == refund.transaction.amount
                if whole and word == "processed":
                    refund.transaction.status = "reversed"

    def dispute(self, reference: str, kind: str = "create", **told: Any) -> None:
        """One of the transaction, which the next of it changes."""
        paid = self.transactions[reference]
        number = 358950 + list(self.transactions).index(reference)
        if told.get("resolution", "").endswith("accepted"):
            paid.status = "reversed"
        made = shapes.disputed(number, paid, self)
        made["createdAt"] = self.disputes.get(number, made)["createdAt"]
        if kind == "resolve":
            made |= {"status": "resolved", "resolution": "declined"}
        self.disputes[number] = {**made, **told}
        data = self.disputes[number]
        self.happened({"event": f"charge.dispute.{kind}", "data": data})

    def give_back(self, reference: str, amount: int) -> Refund:
        """Somebody does so in the dashboard."""
        paid = self.transactions[reference]
        number = 9018284 + len(self.refunds)
        note = f"Refund for transaction {reference}"
        made = Refund(number, paid, amount, paid.currency, note, note, "processed")
        self.refunds.append(made)
        self.happened(shapes.refund_event(made))
        return made

    # Its API.

    def api(self, request: Request) -> Answer:
        if "authorization" not in request.headers:
            return _error(401, "No Authorization Header was found", "invalid_Key")
        if request.headers["authorization"] != f"Bearer {self.key}":
            return _error(401, "Invalid key", "invalid_Key")
        match request.method, *request.path.strip("/").split("/"):
            case "POST", "transaction", "initialize":
                return self._initialize(json.loads(request.body))
            case "POST", "charge":
                return self._charge(json.loads(request.body))
            case "GET", "transaction", "verify", reference:
                return self._verify(unquote(reference))
            case "GET", "transaction":
                return self._list(request.query)
            case "POST", "refund":
                return self._refund(json.loads(request.body))
            case "GET", "refund":
                return self._list_refunds(request.query)
            case "GET", "dispute":
                return self._list_disputes(request.query)
            case "GET", "refund", number:
                return self._fetch_refund(number)
        return _error(404, "Not found", "not_found")

    def _initialize(self, asked: dict[str, Any]) -> Answer:
        reference = asked.get("reference") or f"T{len(self.transactions)}"
        if wrong := self._wrong(asked, reference):
            return _error(400, *wrong)
        code = f"c0de{len(self.transactions)}"
        self.transactions[reference] = Transaction(
            id=4099260516 + len(self.transactions),
            code=code,
            reference=reference,
            requested_amount=int(asked["amount"]),
            currency=asked.get("currency") or "NGN",
            email=asked["email"],
            callback_url=asked.get("callback_url") or "",
            metadata=asked.get("metadata", ""),
        )
        begun = {
            "authorization_url": f"{self.url}/{code}",
            "access_code": code,
            "reference": reference,
        }
        return _data("Authorization URL created", begun)

    def _charge(self, asked: dict[str, Any]) -> Answer:
        """https://paystack.com/docs/payments/payment-channels/#m-pesa"""
        reference = asked.get("reference") or f"T{len(self.transactions)}"
        money = asked.get("mobile_money") or {}
        wrong = self._wrong(asked, reference)
        if not wrong and not re.fullmatch(r"\+254[17][0-9]{8}", money.get("phone", "")):
            wrong = "Invalid phone number", "invalid_params"
        if not wrong and (money.get("provider"), asked.get("currency")) != (
            "mpesa",
            "KES",
        ):
            wrong = "Provider is not available for this currency", "invalid_params"
        if not wrong and int(asked["amount"]) % 100:
            wrong = "Amount must be in whole shillings", "invalid_amount"
        if wrong:
            return _error(400, *wrong)
        self.transactions[reference] = Transaction(
            id=4099260516 + len(self.transactions),
            code=f"c0de{len(self.transactions)}",
            reference=reference,
            requested_amount=int(asked["amount"]),
            currency=asked["currency"],
            email=asked["email"],
            callback_url="",
            metadata=asked.get("metadata", ""),
            status="ongoing",
            gateway_response="Transaction in progress",
            channel="mobile_money",
            phone=money["phone"],
        )
        return _data("Charge attempted", shapes.charged(reference, self.prompt_status))

    def _wrong(self, asked: dict[str, Any], reference: str) -> tuple[str, str] | None:
        if not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", asked.get("email") or ""):
            return "Invalid Email Address Passed", "invalid_email_address"
        if not re.fullmatch(r"[1-9][0-9]*", str(asked.get("amount"))):
            return "Invalid Amount Sent", "invalid_amount"
        if asked.get("currency", "NGN") not in CURRENCIES:
            return "Currency not supported by merchant", "unsupported_currency"
        if not re.fullmatch(r"[A-Za-z0-9.=-]+", reference):
            return "Invalid character in transaction reference", "invalid_params"
        if reference in self.transactions:
            return "Duplicate Transaction Reference", "duplicate_reference"
        return None

    def _verify(self, reference: str) -> Answer:
        found = self.transactions.get(reference)
        if found is None:
            told = "Transaction reference not found."
            return _error(400, told, "transaction_not_found")
        return _data("Verification successful", shapes.verified(found, self))

    def _list(self, query: dict[str, str]) -> Answer:
        start, end = (datetime.fromisoformat(query[name]) for name in ("from", "to"))
        found = [
            shapes.listed(one, self)
            for one in reversed(self.transactions.values())
            if one.status == query.get("status", one.status)
            and start <= one.created_at <= end
        ]
        meta = {"total_volume": sum(one["amount"] for one in found)}
        return self._page("Transactions retrieved", found, query, meta)

    def _refund(self, asked: dict[str, Any]) -> Answer:
        found = self._named(str(asked["transaction"]))
        if found is None:
            return _error(404, "Transaction not found", "transaction_not_found")
        if found.status not in ("success", "reversed"):
            return _error(400, "Transaction has not been paid", "invalid_params")
        taken = sum(
            one.amount
            for one in self.refunds
            if one.transaction is found and one.status != "failed"
        )
        amount = int(asked.get("amount") or found.amount)
        if found.status == "reversed" or taken == found.amount:
            return _error(400, "Transaction has been fully reversed", "invalid_params")
        if taken + amount > found.amount:
            return _error(400, "Refund amount exceeds the rest", "invalid_params")
        number = 3018284 + len(self.refunds)
        note = asked.get("merchant_note") or f"Refund for transaction {found.reference}"
        customer_note = asked.get("customer_note") or note
        currency = asked.get("currency") or found.currency
        refund = Refund(number, found, amount, currency, note, customer_note)
        self.refunds.append(refund)
        self.happened(shapes.refund_event(refund))
        told = "Refund has been queued for processing"
        return _data(told, shapes.refund_made(refund))

    def _named(self, name: str) -> Transaction | None:
        for one in self.transactions.values():
            if name in (one.reference, str(one.id)):
                return one
        return None

    def _list_refunds(self, query: dict[str, str]) -> Answer:
        found = [
            shapes.refund_listed(one, self.refund_time)
            for one in reversed(self.refunds)
            if not self.filters_refunds or _is_asked_for(one, query)
        ]
        meta = {"failedRefundCount": 0}
        return self._page("Refunds retrieved", found, query, meta)

    def _list_disputes(self, query: dict[str, str]) -> Answer:
        found = [
            one
            for one in reversed(self.disputes.values())
            if query.get("transaction") in (None, str(one["transaction"]["id"]))
            and query.get("from", "") <= one["createdAt"] <= query.get("to", "9")
        ]
        return self._page("Disputes retrieved", found, query, {})

    def _fetch_refund(self, number: str) -> Answer:
        for one in self.refunds:
            if str(one.id) == number:
                return _data("Refund retrieved", shapes.refund_listed(one))
        return _error(404, "Refund not found", "refund_not_found")

    def _page(
        self,
        told: str,
        found: list[Any],
        query: dict[str, str],
        more: dict[str, Any],
    ) -> Answer:
        size = min(int(query.get("perPage", 50)), self.most_per_page)
        number = int(query.get("page", 1))
        skipped = (number - 1) * size
        meta = {
            "total": len(found),
            "skipped": skipped,
            # Text here, as it has come in the query.
            "perPage": str(size),
            "page": number,
            "pageCount": -(-len(found) // size),
            **more,
        }
        if not self.tells_pages:
            meta = {}
        envelope = {"status": True, "message": told}
        rest = found[skipped : skipped + size]
        return Answer(200, {**envelope, "data": rest, "meta": meta})

    # Its page.

    def page(self, request: Request) -> Answer:
        code = request.path.strip("/")
        found = [one for one in self.transactions.values() if one.code == code]
        if not found:
            return Answer(404, page("Paystack", "There is no such page."))
        shown = found[0]
        if shown.status in ("success", "reversed"):
            return Answer(200, page("Paystack", "This was paid already."))
        choice = request.form.get("choice")
        if choice == "pay":
            self.pay(shown.reference)
            query = urlencode({"trxref": shown.reference, "reference": shown.reference})
            joint = "&" if "?" in shown.callback_url else "?"
            return back(f"{shown.callback_url}{joint}{query}")
        if choice == "abandon":
            self.abandon(shown.reference)
            if isinstance(shown.metadata, dict) and "cancel_action" in shown.metadata:
                return back(shown.metadata["cancel_action"])
            return Answer(200, page("Paystack", "You have left without paying."))
        told = f"{shown.currency} {shown.requested_amount / 100:.2f}"
        if choice == "fail":
            self.fail(shown.reference)
            told = f"Declined. {told}"
        return Answer(200, page("Paystack", told, CHOICES))


def _is_asked_for(one: Refund, query: dict[str, str]) -> bool:
    made = shapes.moment(one.created_at) or ""
    return query.get("transaction") in (None, str(one.transaction.id)) and query.get(
        "from", ""
    ) <= made <= query.get("to", "9")


def _data(told: str, data: Any) -> Answer:
    return Answer(200, {"status": True, "message": told, "data": data})


def _error(status: int, told: str, code: str) -> Answer:
    error = {
        "status": False,
        "message": told,
        "meta": {"nextStep": "Ensure that what you pass is right."},
        "type": "validation_error",
        "code": code,
    }
    return Answer(status, error)


@pytest.fixture
def paystack() -> Iterator[FakePaystack]:
    with FakePaystack() as fake:
        yield fake
