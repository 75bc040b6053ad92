"""Paystack: cards and M-Pesa. https://paystack.com/docs/api/

Facts behind its answers:

- `status: true` around an answer means only that the call worked.
- A transaction without an attempt to pay is "abandoned", and the payer can still pay
  it. The payer can retry one that "failed" on the same page.
- `amount` is the money that came in, `requested_amount` the price. If the customer
  bears the fees, the difference is exactly `fees`. Any other difference means that the
  payer paid too much or too little.
- Paystack takes a reference once. If its answer is lost, the page is lost: `begin`
  raises Refused CHECKOUT_ALREADY_BEGUN, and the caller uses another reference.
- Refunds have no idempotency key. We write our reference into the merchant's note and
  look for it first, so one refund must not be requested twice at the same time.
- A page never expires, and cannot be closed: Paystack does not get `expires_at`, and
  later payments are refunded.
- An M-Pesa prompt (`POST /charge`) lives 180 seconds. Only its success makes an event.
  `look` finds why it failed, in words of Safaricom's that Paystack does not list.
"""

import hmac
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Any, ClassVar
from urllib.parse import quote

from verification.providers.base import Refused
from verification.providers.http_api import (
    Api,
    Record,
    Reply,
    RequestRejected,
    is_signature,
    unavailable_error,
)
from verification.providers.payment_provider import (
    BadSignature,
    CheckoutPage,
    CheckoutProvider,
    CheckoutRequest,
    CheckoutSnapshot,
    CheckoutState,
    DisputeSnapshot,
    DisputeState,
    PaymentMethod,
    PromptFailure,
    ProviderEvent,
    ProviderPayment,
    ProviderRefund,
    RefundRequest,
    RefundSnapshot,
    RefundState,
    already_begun_error,
    from_cents,
    header,
    is_mpesa_amount,
    to_cents,
)

REFERENCE = re.compile(r"[A-Za-z0-9.=-]+")
PER_PAGE = 100
# The event of a resolved dispute needs no reaction, so it is left out.
DISPUTES = {"charge.dispute.create", "charge.dispute.remind"}
# Earlier than any dispute of ours.
FIRST_DAY = "2020-01-01T00:00:00.000Z"
# Pages of refunds to search for one of ours, in case Paystack lists all refunds.
MAX_PAGES = 50
# The first pattern that fits an answer's words decides. Safaricom's words belong to its
# result codes 1, 17, 1001, 1019, 1025, 1032, 1037, 2001 and 9999.
PROMPT_FAILURES = (
    (re.compile("cancel"), PromptFailure.CANCELLED),
    (re.compile("insufficient|not enough|low balance"), PromptFailure.NO_MONEY),
    (
        re.compile("initiator information|(wrong|invalid|incorrect) (m-?pesa )?pin"),
        PromptFailure.WRONG_PIN,
    ),
    (
        re.compile("reach|no response|phone|mobile number|msisdn"),
        PromptFailure.NOT_REACHED,
    ),
    (re.compile("already in process|similar transaction"), PromptFailure.BUSY),
    (re.compile("expire|time[d-]? ?out"), PromptFailure.TIMED_OUT),
    (re.compile("push request|not sent"), PromptFailure.NOT_SENT),
)


class Paystack(CheckoutProvider):
    """The adapter of Paystack.

    `fallback_email` is a domain of the operator, as "pay.example.org". Paystack
    requires an e-mail address for every payer and sends receipts to it. For a payer
    without one, the adapter sends the reference at that domain; without a domain it
    raises Refused.

    Paystack lists payments by the time they began, so `payments_between` finds payments
    that took at most `paid_within`.
    """

    name = "paystack"
    payment_methods = (PaymentMethod.MPESA, PaymentMethod.CARD)
    # https://paystack.com/docs/api/#supported-currency
    MINIMUMS: ClassVar = {"KES": Decimal(3), "USD": Decimal(2)}
    # https://paystack.com/docs/api/transaction/#verify
    STATES: ClassVar = {
        "success": CheckoutState.PAID,
        "failed": CheckoutState.FAILED,
        "timeout": CheckoutState.FAILED,
        # The money went back.
        "reversed": CheckoutState.REVERSED,
    }
    # https://paystack.com/docs/payments/refunds/
    REFUND_STATES: ClassVar = {
        "processed": RefundState.DONE,
        "failed": RefundState.FAILED,
    }

    def __init__(
        self,
        secret_key: str,
        url: str = "https://api.paystack.co",
        opened: Collection[str] = (),
        previous_secret_keys: Collection[str] = (),
        *,
        fallback_email: str = "",
        checkout_origin: str = "https://checkout.paystack.com",
        paid_within: timedelta = timedelta(days=30),
        minimum: Decimal | None = None,
    ) -> None:
        super().__init__(checkout_origin, minimum)
        headers = {"Authorization": f"Bearer {secret_key}"}
        self._api = Api("Paystack", url, opened=opened, headers=headers)
        self._keys = [secret_key, *previous_secret_keys]
        self._fallback_email = fallback_email
        self._paid_within = paid_within

    def begin(self, request: CheckoutRequest) -> CheckoutPage:
        body = {
            **self._order(request),
            "callback_url": request.return_url,
            "metadata": {
                "cancel_action": request.cancel_url,
                "custom_fields": _description(request),
            },
        }
        try:
            begun = self._call("POST", "/transaction/initialize", json=body)
        except RequestRejected as e:
            if _says(e, "duplicate_reference", "duplicate transaction reference"):
                raise already_begun_error() from None
            raise
        return self._page(
            begun.get("authorization_url"), begun.text("access_code") or ""
        )

    def can_prompt(self, amount: Decimal, currency: str) -> bool:
        return is_mpesa_amount(amount, currency)

    def send_prompt(self, request: CheckoutRequest, phone: str) -> CheckoutSnapshot:
        """https://paystack.com/docs/payments/payment-channels/#m-pesa"""
        body = {
            **self._order(request),
            "mobile_money": {"phone": phone, "provider": "mpesa"},
            "metadata": {"custom_fields": _description(request)},
        }
        try:
            sent = self._call("POST", "/charge", json=body)
        except RequestRejected as e:
            if _says(e, "duplicate_reference", "duplicate transaction reference"):
                # Paystack sent the prompt earlier.
                return CheckoutSnapshot(CheckoutState.OPEN)
            answer = Record.of(e.answer)
            # Paystack answers some failed charges with status 400.
            failure = _failure(answer.record("data")) or _failure(answer)
            if not failure:
                raise
            return CheckoutSnapshot(CheckoutState.FAILED, failure=failure)
        if sent.get("reference") not in (None, request.reference):
            raise unavailable_error("Paystack", "answered about another transaction")
        return _prompt_snapshot(sent)

    def look(self, reference: str, session: str) -> CheckoutSnapshot:
        path = f"/transaction/verify/{quote(reference, safe='')}"
        try:
            found = self._call("GET", path)
        except RequestRejected as e:
            if e.status == 404 or _says(e, "transaction_not_found", "not found"):
                return CheckoutSnapshot(CheckoutState.UNKNOWN)
            raise
        if found.get("reference") != reference:
            raise unavailable_error("Paystack", "answered about another transaction")
        state = self.STATES.get(str(found.get("status")), CheckoutState.OPEN)
        message = str(found.get("gateway_response") or "")[:200]
        if state == CheckoutState.FAILED:
            return _failed(found)
        if state not in {CheckoutState.PAID, CheckoutState.REVERSED}:
            return CheckoutSnapshot(state, message=message)
        return self._paid_snapshot(
            state, _paid(found), _currency(found), _transaction(found), message
        )

    def refund(self, asked: RefundRequest) -> RefundSnapshot:
        if before := self.poll_refund(asked, ""):
            return before
        body = {
            "transaction": asked.transaction,
            "amount": to_cents(asked.amount, asked.currency),
            "currency": asked.currency,
            "merchant_note": asked.reference,
        }
        return self._refund_snapshot(self._call("POST", "/refund", json=body))

    def poll_refund(self, asked: RefundRequest, refund: str) -> RefundSnapshot | None:
        if not refund:
            # Paystack may ignore the transaction, so the notes tell.
            refunds = {"transaction": asked.transaction}
            for found in self._pages("/refund", refunds, MAX_PAGES):
                # Compare whole words, because Paystack adds text to notes.
                if asked.reference in str(found.get("merchant_note") or "").split():
                    return self._refund_snapshot(found)
            return None
        try:
            found = self._call("GET", f"/refund/{quote(refund, safe='')}")
        except RequestRejected as e:
            if e.status == 404:
                return None
            raise
        return self._refund_snapshot(found)

    def read_event(self, body: bytes, headers: Mapping[str, str]) -> ProviderEvent:
        digests = (hmac.new(key.encode(), body, "sha512") for key in self._keys)
        signature = header(headers, "x-paystack-signature")
        if not any(is_signature(signature, digest.hexdigest()) for digest in digests):
            raise BadSignature
        event = Record.of(Reply(200, body).parsed())
        kind = str(event.get("event") or "")
        # Paystack's events have no ids.
        digest = sha256(body).hexdigest()
        return ProviderEvent(
            digest,
            kind[:100],
            _reference(kind, event.record("data")),
            is_dispute=kind in DISPUTES,
            is_refund=kind.startswith("refund."),
        )

    def payments_between(
        self, start: datetime, end: datetime
    ) -> Iterator[ProviderPayment]:
        asked = {
            "status": "success",
            "from": _time(start - self._paid_within),
            "to": _time(end),
        }
        for found in self._pages("/transaction", asked):
            paid_at = _parsed(found.get("paid_at"))
            if start <= paid_at < end:
                yield ProviderPayment(
                    reference=str(found.get("reference") or ""),
                    transaction=_transaction(found),
                    amount=_paid(found),
                    currency=_currency(found),
                    paid_at=paid_at,
                )

    def refunds_between(
        self, start: datetime, end: datetime
    ) -> Iterator[ProviderRefund]:
        asked = {"from": _time(start), "to": _time(end)}
        for found in self._pages("/refund", asked):
            # Paystack may ignore the times of the request.
            if start <= _created_at(found) < end:
                yield from self._provider_refunds(found)

    def refunds_of(self, transaction: str) -> Iterator[ProviderRefund]:
        for found in self._pages("/refund", {"transaction": transaction}, MAX_PAGES):
            if _transaction_of(found) == transaction:
                yield from self._provider_refunds(found)

    def disputes_between(
        self, start: datetime, end: datetime
    ) -> Iterator[DisputeSnapshot]:
        asked = {"from": _time(start), "to": _time(end)}
        for found in self._pages("/dispute", asked):
            if start <= _created_at(found) < end:
                yield _dispute_snapshot(found)

    def disputes_of(self, transaction: str) -> Iterator[DisputeSnapshot]:
        # Some of Paystack's pages require both times.
        asked = {"from": FIRST_DAY, "to": _time(datetime.now(UTC) + timedelta(days=1))}
        for found in self._pages("/dispute", {"transaction": transaction, **asked}):
            dispute = _dispute_snapshot(found)
            if dispute.transaction == transaction:
                yield dispute

    def _provider_refunds(self, found: Record) -> Iterator[ProviderRefund]:
        snapshot = self._refund_snapshot(found)
        # The refund of a dispute is the dispute itself.
        if snapshot.state != RefundState.FAILED and not found.get("dispute"):
            yield ProviderRefund(
                refund=snapshot.refund,
                transaction=_transaction_of(found),
                amount=from_cents(found.get("amount")),
                currency=_currency(found),
                words=frozenset(str(found.get("merchant_note") or "").split()),
            )

    def _order(self, request: CheckoutRequest) -> dict[str, Any]:
        """Return the members that a page and a prompt have in common."""
        if not REFERENCE.fullmatch(request.reference):
            raise Refused(
                "REFERENCE_NOT_SUPPORTED", "Paystack takes no such reference."
            )
        if not (request.email or self._fallback_email):
            raise Refused(
                "EMAIL_REQUIRED", "Paystack needs the payer's e-mail address."
            )
        fallback = f"{request.reference.lower()}@{self._fallback_email}"
        return {
            "reference": request.reference,
            "amount": to_cents(request.amount, request.currency),
            "currency": request.currency,
            "email": request.email or fallback,
        }

    def _refund_snapshot(self, found: Record) -> RefundSnapshot:
        word = str(found.get("status") or "")
        state = self.REFUND_STATES.get(word, RefundState.PENDING)
        if not found.get("id"):
            raise unavailable_error("Paystack", "named no refund")
        waits = word == "needs-attention"
        return RefundSnapshot(state, str(found["id"]), word[:200], needs_somebody=waits)

    def _pages(
        self, path: str, params: dict[str, Any], most: int | None = None
    ) -> Iterator[Record]:
        page, previous = 1, None
        while True:
            params = {**params, "perPage": PER_PAGE, "page": page}
            answer = self._envelope("GET", path, params=params)
            found = answer.records("data")
            if not isinstance(answer.get("data"), list):
                raise unavailable_error("Paystack", "answered without a list")
            given = answer.record("meta").get("pageCount")
            count = given if isinstance(given, int) else None
            # Without a page count, an empty or repeated page is the end.
            if not found or (count is None and found == previous):
                return
            yield from found
            if count is not None and page >= count:
                return
            previous = found
            if page == most:
                # Answering "no refund" would make the caller request it twice.
                raise unavailable_error("Paystack", "has too many to look through")
            page += 1

    def _call(self, method: str, path: str, **options: Any) -> Record:
        envelope = self._envelope(method, path, **options)
        if not isinstance(envelope.get("data"), dict):
            raise unavailable_error("Paystack", "answered without data")
        return envelope.record("data")

    def _envelope(self, method: str, path: str, **options: Any) -> Record:
        answer = self._api.call(method, path, **options)
        if not isinstance(answer, dict):
            raise unavailable_error("Paystack", "answered without an envelope")
        if answer.get("status") is not True:
            raise RequestRejected("Paystack", 200, answer)
        return Record(answer)


def _says(e: RequestRejected, code: str, words: str) -> bool:
    """Compare the code and, because Paystack's codes are new, the message."""
    answer = Record.of(e.answer)
    return answer.get("code") == code or words in str(answer.get("message")).lower()


def _description(request: CheckoutRequest) -> list[dict[str, str]]:
    return [
        {
            "display_name": "Description",
            "variable_name": "description",
            "value": request.description,
        }
    ]


def _prompt_snapshot(sent: Record) -> CheckoutSnapshot:
    """Return the state in the answer to a charge; only `look` finds a success."""
    status = str(sent.get("status"))
    if Paystack.STATES.get(status) == CheckoutState.FAILED:
        return _failed(sent)
    # Paystack wants a one-time code or another page, which our page does not offer.
    # Any other word, known or not, may still become a payment.
    if status.startswith(("send_", "open_url")):
        return CheckoutSnapshot(
            CheckoutState.FAILED, message=status[:200], failure=PromptFailure.NOT_SENT
        )
    return CheckoutSnapshot(CheckoutState.OPEN)


def _failed(found: Record) -> CheckoutSnapshot:
    texts = [str(found.get(name) or "") for name in ("gateway_response", "message")]
    message = "; ".join(dict.fromkeys(filter(None, texts)))[:200]
    return CheckoutSnapshot(
        CheckoutState.FAILED, message=message, failure=_failure(found)
    )


def _failure(answer: Record) -> PromptFailure | None:
    names = ("message", "gateway_response", "status")
    words = " ".join(str(answer.get(name)) for name in names).lower()
    fitting = (failure for said, failure in PROMPT_FAILURES if said.search(words))
    return next(fitting, None)


def _paid(found: Record) -> Decimal:
    """Return the payment for the order, without fees that the payer paid on top."""
    paid, fees = from_cents(found.get("amount")), found.get("fees")
    if requested := found.get("requested_amount"):
        price = from_cents(requested)
        if fees and paid - price == from_cents(fees):
            return price
    return paid


def _currency(found: Record) -> str:
    return str(found.get("currency") or "").upper()


def _transaction(found: Record) -> str:
    if not found.get("id"):
        raise unavailable_error("Paystack", "named no transaction")
    return str(found["id"])


def _reference(kind: str, data: Record) -> str:
    """Return our checkout's reference, from where this kind of event has it."""
    if kind.startswith("charge.dispute."):
        data = data.record("transaction")
    member = "transaction_reference" if kind.startswith("refund.") else "reference"
    reference = data.get(member)
    return reference if isinstance(reference, str) else ""


def _transaction_of(refund: Record) -> str:
    payment = refund.get("transaction")
    return str(payment.get("id") if isinstance(payment, dict) else payment)


def _created_at(found: Record) -> datetime:
    return _parsed(found.get("createdAt") or found.get("created_at"))


def _dispute_snapshot(found: Record) -> DisputeSnapshot:
    """https://paystack.com/docs/payments/disputes/"""
    if not found.get("id"):
        raise unavailable_error("Paystack", "named no dispute")
    about = found.record("transaction") or Record(id=found.get("transaction"))
    amount = found.get("refund_amount") or about.get("amount")
    return DisputeSnapshot(
        dispute=str(found["id"]),
        transaction=str(about.get("id")),
        state=_dispute_state(found),
        amount=from_cents(amount),
        currency=_currency(found) or _currency(about),
    )


def _dispute_state(found: Record) -> DisputeState:
    if found.get("status") != "resolved":
        return DisputeState.OPEN
    resolution = str(found.get("resolution"))
    if resolution == "declined":
        return DisputeState.WON
    # "merchant-accepted" and "auto-accepted". An unknown word leaves the dispute open.
    is_lost = resolution.endswith("accepted")
    return DisputeState.LOST if is_lost else DisputeState.OPEN


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def _parsed(text: Any) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (TypeError, ValueError):
        raise unavailable_error("Paystack", "told no time") from None
