"""The forms of Stripe's requests and answers.

Stripe, as far as Checkout goes, answering as the real one does over a real socket.

def test_something(stripe_api):
    ...  # have a checkout begun with `stripe_api.adapter()`
    stripe_api.pay("PR-1")
    stripe_api.deliver(f"{service}/api/v1/webhooks/payment-provider")

A session's page is at its `url`. `checkouts` says what else it does.
https://docs.stripe.com/api
"""

import hmac
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

from tests.fakes.checkouts import CheckoutServer, back, page
from tests.fakes.server import Answer, Request
from verification.providers.stripe_checkout import StripeCheckout


def expiry(asked: dict[str, Any]) -> int | None:
    now = int(time.time())
    expires_at = int(asked.get("expires_at", now + 86400))
    return expires_at if now + 1800 <= expires_at <= now + 86400 else None


def public(one: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in one.items() if not name.startswith("_")}


def is_asked_for(one: dict[str, Any], query: dict[str, str]) -> bool:
    intent = query.get("payment_intent")
    return (
        int(query.get("created[gte]", 0)) <= one["created"]
        and one["created"] < int(query.get("created[lt]", 2**40))
        and intent in (None, one.get("payment_intent"))
    )


def nested(form: dict[str, str]) -> dict[str, Any]:
    """a[b][c]=d as Stripe reads it; lists stay objects with numbers for names."""
    nested: dict[str, Any] = {}
    for name, value in form.items():
        *path, last = name.replace("]", "").split("[")
        at = nested
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    return nested


def error(
    status: int, told: str, code: str = "", type: str = "invalid_request_error"
) -> Answer:
    error = {"type": type, "message": told, **({"code": code} if code else {})}
    return Answer(status, {"error": error})


KEY = "sk_test_of_no_worth"
SECRET = "whsec_of_no_worth"
CURRENCIES = {"eur", "gbp", "jpy", "kes", "usd"}
CHOICES = {"pay": "Pay", "fail": "Fail", "abandon": "Back"}
DECLINED = {
    "type": "card_error",
    "code": "card_declined",
    "decline_code": "insufficient_funds",
    "message": "Your card has insufficient funds.",
}


class FakeStripe(CheckoutServer):
    api_prefixes: ClassVar = ("/v1/",)

    def __init__(self) -> None:
        super().__init__()
        self.key, self.secret = KEY, SECRET
        # Objects by their id, oldest first.
        self.sessions: dict[str, dict[str, Any]] = {}
        self.intents: dict[str, dict[str, Any]] = {}
        self.charges: dict[str, dict[str, Any]] = {}
        self.refunds: dict[str, dict[str, Any]] = {}
        self.disputes: dict[str, dict[str, Any]] = {}
        # The money comes days after the payer has gone through the pages.
        self.pays_later = False
        # Refunds wait for `settle_refunds`. Failing refunds always wait for it.
        self.refunds_wait = False
        # Age of the signatures of events, in seconds.
        self.event_age = 0
        self.most_per_page = 100
        # Idempotency key -> (request, answer).
        self.answered: dict[str, tuple[Any, Answer]] = {}
        # The answer to store for the next idempotency key, in place of acting.
        self.stored_error: Answer | None = None
        self._made = 0

    def adapter(self, **options: Any) -> StripeCheckout:
        """Return an adapter that is configured for this server."""
        options = {"webhook_secrets": [self.secret], **options}
        return StripeCheckout(
            self.key,
            url=self.url,
            opened=[self.host],
            checkout_origin=self.url,
            **options,
        )

    def sign(self, body: bytes, secret: str | None = None) -> dict[str, str]:
        at = int(time.time()) - self.event_age
        signed = b"%d.%s" % (at, body)
        digest = hmac.new((secret or self.secret).encode(), signed, "sha256")
        return {"Stripe-Signature": f"t={at},v1={digest.hexdigest()},v0=0"}

    # Actions of the payer and of banks.

    def pay(self, reference: str) -> None:
        session = self.session_of(reference)
        session["status"], session["url"] = "complete", None
        if self.pays is not None:
            session["amount_total"] = self.pays
        session["currency"] = self.currency or session["currency"]
        self._try(session, None)
        if not self.pays_later:
            self._receive(session)
        self._event("checkout.session.completed", session)

    def fail(self, reference: str) -> None:
        self._try(self.session_of(reference), DECLINED)

    def abandon(self, reference: str) -> None:
        """Let the payer go back, which changes nothing."""

    def expire(self, reference: str) -> None:
        session = self.session_of(reference)
        session["status"], session["url"] = "expired", None
        self._event("checkout.session.expired", session)

    def settle_payment(self, reference: str, *, fails: bool = False) -> None:
        """Let the money of a payment by `pays_later` come, or fail."""
        session = self.session_of(reference)
        if fails:
            self._try(session, DECLINED)
            self._event("checkout.session.async_payment_failed", session)
        else:
            self._receive(session)
            self._event("checkout.session.async_payment_succeeded", session)

    def settle_refunds(self) -> None:
        for refund in self.refunds.values():
            if refund["status"] != "pending":
                continue
            refund["status"] = "failed" if self.refund_fails else "succeeded"
            if self.refund_fails:
                refund["failure_reason"] = "expired_or_canceled_card"
                charge = self.charges[refund["charge"]]
                charge["amount_refunded"] -= refund["amount"]
                self._event("refund.failed", refund)
            else:
                self._event("refund.updated", refund)

    def dispute(self, reference: str, kind: str = "created", **told: Any) -> None:
        """Open a dispute; Stripe's event has none of the payment's metadata."""
        intent = self.session_of(reference)["payment_intent"]
        charge = self.charges[self.intents[intent]["latest_charge"]]
        known = (d for d in self.disputes.values() if d["payment_intent"] == intent)
        dispute = next(known, None) or self._new("du", "dispute", self.disputes)
        dispute.update(
            amount=charge["amount"],
            balance_transactions=[],
            charge=charge["id"],
            currency=charge["currency"],
            evidence_details={"has_evidence": False, "submission_count": 0},
            is_charge_refundable=False,
            payment_intent=intent,
            reason="fraudulent",
            status="needs_response",
        )
        dispute.update(told)
        self._event(f"charge.dispute.{kind}", dispute)

    def give_back(self, reference: str, amount: int) -> dict[str, Any]:
        """Somebody does so in the dashboard."""
        intent = self.session_of(reference)["payment_intent"]
        self._create_refund({"payment_intent": intent, "amount": str(amount)})
        return list(self.refunds.values())[-1]

    def warn_of_fraud(self, reference: str) -> None:
        intent = self.session_of(reference)["payment_intent"]
        warning = self._new("issfr", "radar.early_fraud_warning", {})
        warning.update(
            actionable=True,
            charge=self.intents[intent]["latest_charge"],
            fraud_type="unauthorized_use_of_card",
            payment_intent=intent,
        )
        self._event("radar.early_fraud_warning.created", warning)

    def session_of(self, reference: str) -> dict[str, Any]:
        """The newest of this reference."""
        return next(
            session
            for session in reversed(self.sessions.values())
            if session["client_reference_id"] == reference
        )

    def _try(self, session: dict[str, Any], declined: dict[str, Any] | None) -> None:
        if session["payment_intent"] is None:
            # Only now is there one.
            made = self._new("pi", "payment_intent", self.intents)
            session["payment_intent"] = made["id"]
        self.intents[session["payment_intent"]].update(
            amount=session["amount_total"],
            currency=session["currency"],
            metadata=dict(session["_intent_metadata"]),
            status="requires_payment_method" if declined else "processing",
            last_payment_error=declined,
        )

    def _receive(self, session: dict[str, Any]) -> None:
        session["payment_status"] = "paid"
        intent = self.intents[session["payment_intent"]]
        charge = self._new("ch", "charge", self.charges)
        charge.update(
            amount=session["amount_total"],
            amount_captured=session["amount_total"],
            amount_refunded=0,
            currency=session["currency"],
            metadata=dict(intent["metadata"]),
            paid=True,
            payment_intent=intent["id"],
            refunded=False,
            status="succeeded",
        )
        intent.update(status="succeeded", latest_charge=charge["id"])

    def _event(self, kind: str, about: dict[str, Any]) -> None:
        self._made += 1
        self.happened(
            {
                "id": f"evt_{self._made:024}",
                "object": "event",
                "api_version": "2026-10-28.endive",
                "created": int(time.time()),
                "data": {"object": public(about)},
                "livemode": False,
                "pending_webhooks": 1,
                "request": {"id": None, "idempotency_key": None},
                "type": kind,
            }
        )

    def _new(self, prefix: str, kind: str, kept: dict[str, Any]) -> dict[str, Any]:
        self._made += 1
        made = {
            "id": f"{prefix}_test_{self._made:024}",
            "object": kind,
            "created": int(time.time()),
            "livemode": False,
            "metadata": {},
        }
        kept[made["id"]] = made
        return made

    # Its API.

    def api(self, request: Request) -> Answer:
        if request.headers.get("authorization") != f"Bearer {self.key}":
            return error(401, "Invalid API Key provided: sk_test_********rong")
        match request.method, *request.path.removeprefix("/v1/").split("/"):
            case "POST", "checkout", "sessions":
                return self._once(request, self._create_session)
            case "GET", "checkout", "sessions":
                return self._list(self.sessions, request)
            case "GET", "checkout", "sessions", name:
                return self._retrieve(self.sessions, name, request)
            case "POST", "checkout", "sessions", name, "expire":
                return self._expire(name)
            case "GET", "disputes":
                return self._list(self.disputes, request)
            case "POST", "refunds":
                return self._once(request, self._create_refund)
            case "GET", "refunds":
                return self._list(self.refunds, request)
            case "GET", "refunds", name:
                return self._retrieve(self.refunds, name, request)
            case "GET", "charges":
                return self._list(self.charges, request)
        return error(404, f"Unrecognized request URL ({request.path}).")

    def _once(self, request: Request, make: Callable[[Any], Answer]) -> Answer:
        asked, key = (
            nested(request.form),
            request.headers.get("idempotency-key", ""),
        )
        if key in self.answered:
            before, answer = self.answered[key]
            if before != (request.path, asked):
                told = "Keys for idempotent requests can only be used with the same"
                return error(400, f"{told} parameters.", type="idempotency_error")
            return Answer(answer.status, answer.body, {"Idempotent-Replayed": "true"})
        answer = self.stored_error or make(asked)
        failed, self.stored_error = self.stored_error is not None, None
        # Copy the answer, because its objects change later.
        answer.body = json.loads(json.dumps(answer.body))
        if key and (failed or answer.status == 200):
            self.answered[key] = (request.path, asked), answer
        return answer

    def _create_session(self, asked: dict[str, Any]) -> Answer:
        try:
            (item,) = asked["line_items"].values()
            price, quantity = item["price_data"], int(item["quantity"])
            amount = int(price["unit_amount"])
            needed = asked["success_url"], price["product_data"]["name"]
        except (KeyError, ValueError) as e:
            return error(400, f"Missing required param: {e}.", "parameter_missing")
        if not all(needed) or asked.get("mode") != "payment" or amount <= 0:
            return error(400, "Invalid parameters.", "parameter_invalid_empty")
        if price["currency"] not in CURRENCIES:
            return error(400, f"Invalid currency: {price['currency']}.")
        expires_at = expiry(asked)
        if expires_at is None:
            told = "The `expires_at` timestamp must be from 30 minutes to 24 hours."
            return error(400, told)
        session = self._new("cs", "checkout.session", self.sessions)
        session.update(
            amount_subtotal=amount * quantity,
            amount_total=amount * quantity,
            cancel_url=asked.get("cancel_url"),
            client_reference_id=asked.get("client_reference_id"),
            currency=price["currency"],
            customer_email=asked.get("customer_email"),
            expires_at=expires_at,
            locale=asked.get("locale"),
            metadata=asked.get("metadata", {}),
            mode="payment",
            payment_intent=None,
            payment_status="unpaid",
            status="open",
            success_url=asked["success_url"],
            url=f"{self.url}/c/pay/{session['id']}",
            _intent_metadata=asked.get("payment_intent_data", {}).get("metadata", {}),
        )
        return Answer(200, public(session))

    def _expire(self, name: str) -> Answer:
        session = self.sessions.get(name)
        if session is None:
            return error(404, f"No such session: '{name}'", "resource_missing")
        if session["status"] != "open":
            told = 'Only Checkout Sessions with a status in ["open"] can be expired.'
            return error(400, told)
        self.expire(session["client_reference_id"])
        return Answer(200, public(session))

    def _create_refund(self, asked: dict[str, Any]) -> Answer:
        charges = [
            charge
            for charge in self.charges.values()
            if charge["payment_intent"] == asked.get("payment_intent")
        ]
        if not charges:
            told = f"No such payment_intent: '{asked.get('payment_intent')}'"
            return error(404, told, "resource_missing")
        charge = charges[0]
        left = charge["amount"] - charge["amount_refunded"]
        if not left:
            told = "Charge has already been refunded."
            return error(400, told, "charge_already_refunded")
        amount = int(asked.get("amount", left))
        if not 0 < amount <= left:
            return error(400, "Refund amount is greater than unrefunded amount.")
        charge["amount_refunded"] += amount
        charge["refunded"] = charge["amount_refunded"] == charge["amount"]
        refund = self._new("re", "refund", self.refunds)
        waits = self.refunds_wait or self.refund_fails
        refund.update(
            amount=amount,
            charge=charge["id"],
            currency=charge["currency"],
            metadata=asked.get("metadata", {}),
            payment_intent=charge["payment_intent"],
            status="pending" if waits else "succeeded",
        )
        self._event("refund.created", refund)
        self._event("charge.refunded", charge)
        return Answer(200, public(refund))

    def _retrieve(self, kept: dict[str, Any], name: str, request: Request) -> Answer:
        if name not in kept:
            return error(404, f"No such object: '{name}'", "resource_missing")
        return Answer(200, self._expanded(kept[name], request, "payment_intent"))

    def _list(self, kept: dict[str, Any], request: Request) -> Answer:
        query = request.query
        found = [one for one in reversed(kept.values()) if is_asked_for(one, query)]
        if after := query.get("starting_after"):
            names = [one["id"] for one in found]
            found = found[names.index(after) + 1 :]
        limit = min(int(query.get("limit", 10)), self.most_per_page)
        shown = [
            self._expanded(one, request, "data.payment_intent") for one in found[:limit]
        ]
        more = len(found) > limit
        listed = {"object": "list", "url": request.path, "has_more": more}
        return Answer(200, {**listed, "data": shown})

    def _expanded(
        self, one: dict[str, Any], request: Request, member: str
    ) -> dict[str, Any]:
        shown = public(one)
        expand = [value for name, value in request.query.items() if "expand" in name]
        if member in expand and shown.get("payment_intent"):
            shown["payment_intent"] = self.intents[shown["payment_intent"]]
        return shown

    # Its page.

    def page(self, request: Request) -> Answer:
        session = self.sessions.get(request.path.removeprefix("/c/pay/"))
        if session is None or session["status"] == "expired":
            return Answer(404, page("Stripe", "There is no such page any more."))
        if session["status"] == "complete":
            return Answer(200, page("Stripe", "You're all done here."))
        reference, choice = session["client_reference_id"], request.form.get("choice")
        if choice == "pay":
            self.pay(reference)
            name = session["id"]
            return back(session["success_url"].replace("{CHECKOUT_SESSION_ID}", name))
        if choice == "abandon":
            self.abandon(reference)
            return back(session["cancel_url"])
        told = f"{session['currency'].upper()} {session['amount_total'] / 100:.2f}"
        if choice == "fail":
            self.fail(reference)
            told = f"{DECLINED['message']} {told}"
        return Answer(200, page("Stripe", told, CHOICES))


@pytest.fixture
def stripe_api() -> Iterator[FakeStripe]:
    with FakeStripe() as fake:
        yield fake
