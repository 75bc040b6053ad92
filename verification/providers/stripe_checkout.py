"""Stripe Checkout, by Stripe's own client. https://docs.stripe.com/api

Facts behind its answers:

- A session's `payment_status` tells whether the money came. Its `status` tells whether
  the payer finished the pages, with some methods days before the money.
- A payer who goes back leaves the session open, and may return.
- Stripe remembers the request of an idempotency key for a day: a repeated `begin`
  returns the same session within that day, even if the first answer was lost.
- A session lives from half an hour to a day; we move `expires_at` into that range.
"""

import hmac
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

import stripe

from verification.outbound import client
from verification.providers.base import ProviderError, Refused
from verification.providers.http_api import (
    REFUSED,
    RETRYABLE_STATUSES,
    Record,
    Reply,
    RequestRejected,
    is_signature,
    to_provider_error,
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
    ProviderEvent,
    ProviderPayment,
    ProviderRefund,
    RefundRequest,
    RefundSnapshot,
    RefundState,
    already_begun_error,
    from_cents,
    header,
    to_cents,
)
from verification.values import clock

# Telemetry would write an id into the home directory and describe the machine.
stripe.enable_telemetry = False
# Below WARNING, Stripe's client logs URLs, bodies and error texts.
logging.getLogger("stripe").setLevel(logging.WARNING)

PER_PAGE = 100
# Idempotency keys to try for a refund, each after a stored error of the last.
MOST_KEYS = 10
# Age of the oldest session to search for our reference.
SEARCHED = timedelta(days=7)
LIVES_AT_LEAST, LIVES_AT_MOST = timedelta(minutes=30), timedelta(days=1)
# For differing clocks, and for the duration of a request.
MARGIN = timedelta(minutes=1)
# Our languages that Stripe's pages have; for others Stripe follows the browser.
LOCALES = {"en"}
# Events of a dispute that was won or answered need no reaction, so they are left out.
DISPUTES = {"charge.dispute.created", "charge.dispute.funds_withdrawn"}
LOST = ("charge.dispute.closed", "lost")
REFUNDS = ("refund.", "charge.refund.")
# A closed inquiry ("warning_closed") takes no money.
DISPUTE_STATES = {
    "won": DisputeState.WON,
    "warning_closed": DisputeState.WON,
    "lost": DisputeState.LOST,
    "prevented": DisputeState.LOST,
}


class StripeCheckout(CheckoutProvider):
    name = "stripe"
    payment_methods = (PaymentMethod.CARD,)
    # https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts
    # Shillings must be worth at least 50 US cents; 150 shillings make a dollar here.
    MINIMUMS: ClassVar = {
        "KES": Decimal(75),
        "USD": Decimal("0.50"),
        "EUR": Decimal("0.50"),
        "GBP": Decimal("0.30"),
    }
    STATES: ClassVar = {"expired": CheckoutState.EXPIRED}
    # https://docs.stripe.com/api/refunds/object#refund_object-status
    REFUND_STATES: ClassVar = {
        "succeeded": RefundState.DONE,
        "failed": RefundState.FAILED,
        "canceled": RefundState.FAILED,
    }

    def __init__(
        self,
        secret_key: str,
        webhook_secrets: Collection[str],
        url: str = "https://api.stripe.com",
        opened: Collection[str] = (),
        *,
        checkout_origin: str = "https://checkout.stripe.com",
        minimum: Decimal | None = None,
    ) -> None:
        super().__init__(checkout_origin, minimum)
        self._webhook_secrets = list(webhook_secrets)
        self._client = stripe.StripeClient(
            secret_key,
            base_addresses={"api": url.rstrip("/")},
            http_client=stripe.RequestsClient(
                timeout=client.SECONDS, session=client.create_session(opened)
            ),
            max_network_retries=0,
        )
        self._api = self._client.v1

    def begin(self, request: CheckoutRequest) -> CheckoutPage:
        session = self._created(request)
        if session is None or not session.get("url"):
            raise already_begun_error()
        return self._page(session["url"], session["id"])

    def look(self, reference: str, session: str) -> CheckoutSnapshot:
        found = self._session(session) if session else self._session_of(reference)
        if found is None or found.get("client_reference_id") != reference:
            return CheckoutSnapshot(CheckoutState.UNKNOWN)
        intent = found.get("payment_intent")
        if found.get("payment_status") == "paid":
            amount = from_cents(found.get("amount_total"))
            return self._paid_snapshot(
                CheckoutState.PAID, amount, _currency(found), _id(intent)
            )
        word = str(found.get("status") or "")
        declined = (
            intent.get("last_payment_error") if isinstance(intent, dict) else None
        )
        if declined and word != "expired":
            message = str(declined.get("message") or "")[:200]
            return CheckoutSnapshot(CheckoutState.FAILED, message=message)
        return CheckoutSnapshot(self.STATES.get(word, CheckoutState.OPEN), message=word)

    def refund(self, asked: RefundRequest) -> RefundSnapshot:
        # Stripe forgets idempotency keys after a day, so look for an earlier refund.
        if before := self.poll_refund(asked, ""):
            return before
        params: Any = {
            "payment_intent": asked.transaction,
            "amount": to_cents(asked.amount, asked.currency),
            "metadata": {
                "reference": asked.checkout_reference,
                "refund": asked.reference,
            },
        }
        answer: ProviderError | None = None
        for number in range(MOST_KEYS):
            key = f"{asked.reference}-{number}" if number else asked.reference
            # A stored error ended its request. If Stripe lists no refund of ours since
            # then, another key is safe.
            if number and (before := self.poll_refund(asked, "")):
                return before
            with _translate_errors():
                try:
                    made = self._api.refunds.create(params, {"idempotency_key": key})
                    return self._refund_snapshot(made.to_dict())
                except stripe.IdempotencyError:
                    raise
                except stripe.StripeError as e:
                    # Stripe stores an error for its key, and repeats it for a day.
                    if "Idempotent-Replayed" not in (e.headers or {}):
                        raise
                    answer = _error(e)
        raise answer or unavailable_error("Stripe", "answered with stored errors alone")

    def poll_refund(self, asked: RefundRequest, refund: str) -> RefundSnapshot | None:
        if refund:
            with _translate_errors(missing_is_none=True):
                return self._refund_snapshot(
                    self._api.refunds.retrieve(refund).to_dict()
                )
            return None
        for found in _pages(self._api.refunds, payment_intent=asked.transaction):
            if _metadata(found).get("refund") == asked.reference:
                return self._refund_snapshot(found)
        return None

    def read_event(self, body: bytes, headers: Mapping[str, str]) -> ProviderEvent:
        signature = header(headers, "stripe-signature")
        if not any(_is_signed(body, signature, s) for s in self._webhook_secrets):
            raise BadSignature
        event = Record.of(Reply(200, body).parsed())
        kind = str(event.get("type") or "")
        about = event.record("data").record("object")
        return ProviderEvent(
            str(event.get("id")),
            kind[:100],
            _reference(about),
            # A dispute has no reference of ours.
            _id(about.get("payment_intent")),
            is_dispute=kind in DISPUTES or (kind, about.get("status")) == LOST,
            is_refund=kind == "charge.refunded" or kind.startswith(REFUNDS),
            is_fraud_warning=kind == "radar.early_fraud_warning.created",
        )

    def payments_between(
        self, start: datetime, end: datetime
    ) -> Iterator[ProviderPayment]:
        for charge in _pages(self._api.charges, created=_span(start, end)):
            is_kept = charge.get("paid") and not charge.get("refunded")
            if charge.get("status") == "succeeded" and is_kept:
                yield ProviderPayment(
                    reference=str(_metadata(charge).get("reference") or ""),
                    transaction=_id(charge.get("payment_intent")) or charge["id"],
                    amount=from_cents(charge.get("amount")),
                    currency=_currency(charge),
                    paid_at=datetime.fromtimestamp(charge["created"], UTC),
                )

    def refunds_between(
        self, start: datetime, end: datetime
    ) -> Iterator[ProviderRefund]:
        yield from self._refunds(created=_span(start, end))

    def refunds_of(self, transaction: str) -> Iterator[ProviderRefund]:
        yield from self._refunds(payment_intent=transaction)

    def _refunds(self, **params: Any) -> Iterator[ProviderRefund]:
        for found in _pages(self._api.refunds, **params):
            snapshot = self._refund_snapshot(found)
            if snapshot.state != RefundState.FAILED:
                yield ProviderRefund(
                    refund=snapshot.refund,
                    transaction=_id(found.get("payment_intent")),
                    amount=from_cents(found.get("amount")),
                    currency=_currency(found),
                    words=frozenset({str(_metadata(found).get("refund"))}),
                )

    def disputes_between(
        self, start: datetime, end: datetime
    ) -> Iterator[DisputeSnapshot]:
        for found in _pages(self._api.disputes, created=_span(start, end)):
            yield _dispute_snapshot(found)

    def expire(self, reference: str, session: str) -> None:
        name = session or (self._session_of(reference) or {}).get("id")
        if not name:
            return
        try:
            with _translate_errors():
                self._api.checkout.sessions.expire(name)
        except RequestRejected:
            # The session is paid or expired already; the next `look` tells which.
            return

    def disputes_of(self, transaction: str) -> Iterator[DisputeSnapshot]:
        for found in _pages(self._api.disputes, payment_intent=transaction):
            yield _dispute_snapshot(found)

    def _created(self, request: CheckoutRequest) -> dict[str, Any] | None:
        params = _session_params(request)
        with _translate_errors():
            try:
                made = self._api.checkout.sessions.create(
                    params, {"idempotency_key": request.reference}
                )
            except stripe.IdempotencyError:
                # The earlier request was for this checkout with another `expires_at`.
                return self._session_of(request.reference)
        response = made.last_response
        if response and "Idempotent-Replayed" in response.headers:
            # Stripe repeats its first answer; the session may have ended since.
            return self._session(made.id)
        return made.to_dict()

    def _session(self, session: str) -> dict[str, Any] | None:
        with _translate_errors(missing_is_none=True):
            return self._api.checkout.sessions.retrieve(
                session, {"expand": ["payment_intent"]}
            ).to_dict()
        return None

    def _session_of(self, reference: str) -> dict[str, Any] | None:
        """Return the paid session of this reference, or else the newest."""
        since = int((datetime.now(UTC) - SEARCHED).timestamp())
        newest = None
        for found in _pages(
            self._api.checkout.sessions,
            created={"gte": since},
            expand=["data.payment_intent"],
        ):
            if found.get("client_reference_id") == reference:
                if found.get("payment_status") == "paid":
                    return found
                newest = newest or found
        return newest

    def _refund_snapshot(self, found: dict[str, Any]) -> RefundSnapshot:
        word = str(found.get("status") or "")
        state = self.REFUND_STATES.get(word, RefundState.PENDING)
        message = str(found.get("failure_reason") or word)
        return RefundSnapshot(state, found["id"], message[:200])


def _dispute_snapshot(found: dict[str, Any]) -> DisputeSnapshot:
    """https://docs.stripe.com/api/disputes/object#dispute_object-status"""
    return DisputeSnapshot(
        dispute=found["id"],
        transaction=_id(found.get("payment_intent")),
        state=DISPUTE_STATES.get(str(found.get("status")), DisputeState.OPEN),
        amount=from_cents(found.get("amount")),
        currency=_currency(found),
    )


def _is_signed(body: bytes, header: str, secret: str) -> bool:
    """https://docs.stripe.com/webhooks#verify-manually

    Stripe's client decodes the body first, but the signature covers its bytes.
    """
    parts = [part.partition("=") for part in header.split(",")]
    times = [value for name, _, value in parts if name == "t"]
    if len(times) != 1 or not (times[0].isascii() and times[0].isdigit()):
        return False
    if clock.now().timestamp() - int(times[0][:12]) > stripe.Webhook.DEFAULT_TOLERANCE:
        return False
    signed = f"{times[0]}.".encode() + body
    expected = hmac.new(secret.encode(), signed, "sha256").hexdigest()
    signatures = [value for name, _, value in parts if name == "v1"]
    return any(is_signature(signature, expected) for signature in signatures)


def _session_params(request: CheckoutRequest) -> Any:
    # The payment has it as well, and passes it on to its charges and their events.
    metadata = {"reference": request.reference}
    params: dict[str, Any] = {
        "mode": "payment",
        "client_reference_id": request.reference,
        "line_items": [
            {
                "quantity": 1,
                "price_data": {
                    "currency": request.currency.lower(),
                    "unit_amount": to_cents(request.amount, request.currency),
                    "product_data": {"name": request.description[:250] or "-"},
                },
            }
        ],
        "success_url": request.return_url,
        "cancel_url": request.cancel_url,
        "locale": request.language if request.language in LOCALES else "auto",
        "metadata": metadata,
        "payment_intent_data": {"metadata": metadata},
    }
    if request.email:
        params["customer_email"] = request.email
    now = datetime.now(UTC)
    # A session lives a day by default. Without `expires_at` a repeat is identical.
    if request.expires_at < now + LIVES_AT_MOST - MARGIN:
        earliest = now + LIVES_AT_LEAST + MARGIN
        params["expires_at"] = int(max(request.expires_at, earliest).timestamp())
    return params


def _span(start: datetime, end: datetime) -> dict[str, int]:
    return {"gte": int(start.timestamp()), "lt": int(end.timestamp())}


def _pages(service: Any, **params: Any) -> Iterator[dict[str, Any]]:
    with _translate_errors():
        found = service.list({**params, "limit": PER_PAGE})
        for each in found.auto_paging_iter():
            yield each.to_dict()


@contextmanager
def _translate_errors(*, missing_is_none: bool = False) -> Iterator[None]:
    """Turn the client's errors into ours, which hold no bodies."""
    try:
        yield
    except stripe.IdempotencyError:
        why = "Stripe was asked for another thing by this name."
        raise Refused(REFUSED, why) from None
    except stripe.StripeError as e:
        if missing_is_none and e.http_status == 404 and e.json_body:
            return
        raise _error(e) from None
    except (KeyError, AttributeError, TypeError, ValueError):
        raise unavailable_error("Stripe", "answered in another form") from None


def _error(e: stripe.StripeError) -> ProviderError:
    if isinstance(e, stripe.APIConnectionError):
        return to_provider_error("Stripe", e.__cause__ or e)
    status = e.http_status
    # 409: Stripe is handling the same request at this moment.
    later = RETRYABLE_STATUSES | {409}
    if status is None or status < 400 or status >= 500 or status in later:
        return unavailable_error("Stripe", f"answered with status {status}")
    if not isinstance(e.json_body, dict):
        return unavailable_error(
            "Stripe", f"answered with status {status}, and not JSON"
        )
    return RequestRejected("Stripe", status, {"code": e.code})


def _reference(about: Record) -> str:
    """Return our checkout's reference, from a session, payment, charge or refund."""
    found = about.get("client_reference_id") or _metadata(about).get("reference")
    return found if isinstance(found, str) else ""


def _metadata(found: dict[str, Any]) -> Record:
    return Record.of(found.get("metadata"))


def _currency(found: dict[str, Any]) -> str:
    return str(found.get("currency") or "").upper()


def _id(found: Any) -> str:
    """Return the id of an object, which Stripe gives as an id or as a whole."""
    return str((found.get("id") if isinstance(found, dict) else found) or "")
