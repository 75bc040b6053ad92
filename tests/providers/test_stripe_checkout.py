import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import time_machine

from tests.fakes.checkouts import CheckoutServer
from tests.fakes.stripe import FakeStripe, error
from tests.fakes.stripe import stripe_api as stripe_api
from tests.providers.checkout_contract import Payer, checkout_request, refund_of
from tests.providers.remote_checkout_contract import RemoteCheckoutContract
from verification.providers.base import Refused, Unavailable
from verification.providers.payment_provider import (
    BadSignature,
    CheckoutProvider,
    CheckoutState,
    RefundState,
)
from verification.providers.stripe_checkout import StripeCheckout


class TestStripeCheckout(RemoteCheckoutContract):
    @pytest.fixture
    def fake(self, stripe_api: FakeStripe) -> CheckoutServer:
        return stripe_api

    @pytest.fixture
    def provider(self, stripe_api: FakeStripe) -> CheckoutProvider:
        return stripe_api.adapter()

    @pytest.fixture
    def payer(self, stripe_api: FakeStripe) -> Payer:
        return stripe_api


GOLDEN_BODY = b'{"id":"evt_1","object":"event","type":"checkout.session.completed"}'
GOLDEN = (
    "t=1767323045,v1=322c47b72b45915b13cb60c281530edfa196c06bf05b24159af62e28f455a057"
)
SIGNED_AT = 1767323045


def read(secrets: list[str], signature: str = GOLDEN, age: int = 10) -> Any:
    provider = StripeCheckout("sk_test", secrets)
    with time_machine.travel(SIGNED_AT + age, tick=False):
        return provider.read_event(GOLDEN_BODY, {"Stripe-Signature": signature})


def test_signature_equals_stripes():
    event = read(["whsec_test"])

    assert (event.event_id, event.type, event.reference) == (
        "evt_1",
        "checkout.session.completed",
        "",
    )


def test_any_of_several_secrets_and_signatures_may_fit():
    assert read(["whsec_new", "whsec_test"]).event_id == "evt_1"

    other = f"{GOLDEN.split(',')[0]},v1={'0' * 64},{GOLDEN.split(',')[1]}"
    assert read(["whsec_test"], other).event_id == "evt_1"


@pytest.mark.parametrize("secrets", [[], [""], ["whsec_other"]])
def test_event_without_the_secret_is_refused(secrets: list[str]):
    with pytest.raises(BadSignature):
        read(secrets)


def test_event_with_an_old_signature_is_refused():
    assert read(["whsec_test"], age=290).event_id == "evt_1"

    with pytest.raises(BadSignature):
        read(["whsec_test"], age=310)


def test_session_has_cents_and_our_reference(
    stripe_api: FakeStripe,
):
    checkout = checkout_request(amount=Decimal("150.00"))

    begun = stripe_api.adapter().begin(checkout)

    request, session = stripe_api.requests[0], stripe_api.sessions[begun.session]
    assert request.form["line_items[0][price_data][unit_amount]"] == "15000"
    assert request.headers["idempotency-key"] == checkout.reference
    assert request.form["payment_intent_data[metadata][reference]"] == (
        checkout.reference
    )
    assert session["client_reference_id"] == checkout.reference
    assert session["customer_email"] == "wanjiku@example.org"
    assert session["currency"] == "kes"
    assert session["success_url"] == checkout.return_url
    assert session["cancel_url"] == checkout.cancel_url
    assert session["expires_at"] == int(checkout.expires_at.timestamp())
    assert begun.url == session["url"]


@pytest.mark.parametrize(("language", "locale"), [("en", "en"), ("sw", "auto")])
def test_unsupported_language_follows_the_browser(
    stripe_api: FakeStripe, language: str, locale: str
):
    begun = stripe_api.adapter().begin(checkout_request(language=language, email=""))

    session = stripe_api.sessions[begun.session]
    assert (session["locale"], session["customer_email"]) == (locale, None)


@pytest.mark.parametrize(
    ("minutes", "lives"),
    [(-5, 31), (0, 31), (29, 31), (45, 45), (1438, 1438), (1440, 1440), (20000, 1440)],
)
def test_session_expiry_stays_within_stripes_range(
    stripe_api: FakeStripe, minutes: int, lives: int
):
    now = datetime.now(UTC)

    begun = stripe_api.adapter().begin(
        checkout_request(expires_at=now + timedelta(minutes=minutes))
    )

    expires_at = stripe_api.sessions[begun.session]["expires_at"]
    assert abs(expires_at - now.timestamp() - lives * 60) < 5


def test_session_with_a_lost_answer_is_found_again(stripe_api: FakeStripe):
    checkout, provider = checkout_request(), stripe_api.adapter()
    stripe_api.faults.half = True
    with pytest.raises(Unavailable):
        provider.begin(checkout)
    stripe_api.faults.half = False

    begun = provider.begin(checkout)

    assert list(stripe_api.sessions) == [begun.session]


def test_repeat_with_another_expiry_finds_the_session(
    stripe_api: FakeStripe,
):
    checkout, provider = (
        checkout_request(expires_at=datetime.now(UTC)),
        stripe_api.adapter(),
    )
    begun = provider.begin(checkout)

    with time_machine.travel(datetime.now(UTC) + timedelta(minutes=5)):
        assert provider.begin(checkout) == begun

    assert list(stripe_api.sessions) == [begun.session]


@pytest.mark.parametrize("end", ["pay", "expire"])
def test_ended_session_cannot_begin_again(stripe_api: FakeStripe, end: str):
    checkout, provider = checkout_request(), stripe_api.adapter()
    provider.begin(checkout)
    getattr(stripe_api, end)(checkout.reference)

    with pytest.raises(Refused) as refusal:
        provider.begin(checkout)

    assert refusal.value.code == "CHECKOUT_ALREADY_BEGUN"


def test_page_of_another_origin_is_refused(stripe_api: FakeStripe):
    elsewhere = StripeCheckout(
        stripe_api.key, [], url=stripe_api.url, opened=[stripe_api.host]
    )

    with pytest.raises(Refused) as refusal:
        elsewhere.begin(checkout_request())

    assert refusal.value.code == "CHECKOUT_ELSEWHERE"


def test_completed_session_is_paid_when_its_money_comes(stripe_api: FakeStripe):
    checkout, provider = checkout_request(), stripe_api.adapter()
    stripe_api.pays_later = True
    begun = provider.begin(checkout)
    stripe_api.pay(checkout.reference)
    assert stripe_api.sessions[begun.session]["status"] == "complete"
    assert provider.look(checkout.reference, begun.session).state == CheckoutState.OPEN

    stripe_api.settle_payment(checkout.reference)

    assert provider.look(checkout.reference, begun.session).state == CheckoutState.PAID
    event = provider.read_event(*stripe_api.signed(stripe_api.events[-1]))
    assert event.type == "checkout.session.async_payment_succeeded"
    assert event.reference == checkout.reference


def test_completed_session_whose_money_does_not_come_has_failed(
    stripe_api: FakeStripe,
):
    checkout, provider = checkout_request(), stripe_api.adapter()
    stripe_api.pays_later = True
    begun = provider.begin(checkout)
    stripe_api.pay(checkout.reference)

    stripe_api.settle_payment(checkout.reference, fails=True)

    seen = provider.look(checkout.reference, begun.session)
    assert seen.state == CheckoutState.FAILED
    assert seen.message == "Your card has insufficient funds."


@pytest.mark.parametrize("fails", [False, True])
def test_expired_session_is_expired(stripe_api: FakeStripe, *, fails: bool):
    checkout, provider = checkout_request(), stripe_api.adapter()
    begun = provider.begin(checkout)
    if fails:
        stripe_api.fail(checkout.reference)

    stripe_api.expire(checkout.reference)

    for name in (begun.session, ""):
        assert provider.look(checkout.reference, name).state == CheckoutState.EXPIRED


@pytest.mark.parametrize("word", ["no_payment_required", "a new word", None])
def test_only_paid_is_paid(stripe_api: FakeStripe, word: Any):
    checkout, provider = checkout_request(), stripe_api.adapter()
    begun = provider.begin(checkout)
    stripe_api.sessions[begun.session].update(payment_status=word, status=word)

    assert provider.look(checkout.reference, begun.session).state == CheckoutState.OPEN


def test_session_of_another_reference_is_unknown(stripe_api: FakeStripe):
    checkout, provider = checkout_request(), stripe_api.adapter()
    begun = provider.begin(checkout)
    stripe_api.pay(checkout.reference)

    assert provider.look("PR-other", begun.session).state == CheckoutState.UNKNOWN
    assert provider.look(checkout.reference, "cs_x").state == CheckoutState.UNKNOWN


def test_paid_session_wins_over_a_newer_one(stripe_api: FakeStripe):
    checkout, provider = checkout_request(), stripe_api.adapter()
    first = provider.begin(checkout)
    stripe_api.pay(checkout.reference)
    # Stripe forgets the key after a day.
    stripe_api.answered.clear()
    second = provider.begin(checkout)

    assert first.session != second.session
    assert provider.look(checkout.reference, "").state == CheckoutState.PAID


def test_search_reads_all_pages_of_a_week(stripe_api: FakeStripe):
    stripe_api.most_per_page = 2
    checkout, provider = checkout_request(), stripe_api.adapter()
    begun = provider.begin(checkout)
    for _ in range(5):
        provider.begin(checkout_request())
    assert provider.look(checkout.reference, "").state == CheckoutState.OPEN

    stripe_api.sessions[begun.session]["created"] -= 8 * 86400

    assert provider.look(checkout.reference, "").state == CheckoutState.UNKNOWN


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("pending", RefundState.PENDING),
        ("requires_action", RefundState.PENDING),
        ("a new word", RefundState.PENDING),
        (None, RefundState.PENDING),
        ("succeeded", RefundState.DONE),
        ("failed", RefundState.FAILED),
        ("canceled", RefundState.FAILED),
    ],
)
def test_states_of_refunds(stripe_api: FakeStripe, word: Any, state: RefundState):
    checkout, provider = checkout_request(), stripe_api.adapter()
    provider.begin(checkout)
    stripe_api.pay(checkout.reference)
    refund = refund_of(checkout, provider.look(checkout.reference, ""), "1.00")
    made = provider.refund(refund)
    assert made.state == RefundState.DONE
    stripe_api.refunds[made.refund]["status"] = word

    seen = provider.poll_refund(refund, made.refund)

    assert seen is not None
    assert seen.state == state


def test_refund_pays_once_after_its_key_expired(stripe_api: FakeStripe):
    checkout, provider = checkout_request(), stripe_api.adapter()
    provider.begin(checkout)
    stripe_api.pay(checkout.reference)
    refund = refund_of(checkout, provider.look(checkout.reference, ""), "1.00")
    made = provider.refund(refund)
    stripe_api.answered.clear()

    assert provider.refund(refund) == made
    assert list(stripe_api.refunds) == [made.refund]


def test_call_ends_at_its_timeout(
    stripe_api: FakeStripe, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("verification.outbound.client.SECONDS", 0.2)
    provider = stripe_api.adapter()
    stripe_api.faults.slow = 1

    with pytest.raises(Unavailable, match="in time"):
        provider.begin(checkout_request())


def test_forbidden_target_is_refused():
    inside = StripeCheckout("sk_test", [], url="https://127.0.0.1:9")

    with pytest.raises(Refused, match="may not be called"):
        inside.look("PR-1", "cs_1")


@pytest.mark.slow
def test_stripes_client_leaves_nothing_in_the_home_directory(
    stripe_api: FakeStripe, tmp_path: Any
):
    script = f"""
from verification.providers.stripe_checkout import StripeCheckout
url, host = {stripe_api.url!r}, {stripe_api.host!r}
stripe = StripeCheckout({stripe_api.key!r}, [], url, [host])
stripe.look("PR-1", "cs_1")
"""
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }

    subprocess.run([sys.executable, "-c", script], env=environment, check=True)

    assert len(stripe_api.requests) == 1
    assert "telemetry" not in str(stripe_api.requests[0].headers)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("status", [400, 402, 500])
def test_stored_error_leads_to_a_new_key(stripe_api: FakeStripe, status: int):
    provider = stripe_api.adapter()
    checkout = checkout_request()
    begun = provider.begin(checkout)
    stripe_api.pay(checkout.reference)
    seen = provider.look(checkout.reference, begun.session)
    refund = refund_of(checkout, seen, "1.00")
    stripe_api.stored_error = error(status, "Something went wrong.")
    with pytest.raises((Refused, Unavailable)):
        provider.refund(refund)
    assert not stripe_api.refunds

    done = provider.refund(refund)

    assert done.state == RefundState.DONE
    assert provider.refund(refund) == done
    assert len(stripe_api.refunds) == 1


def test_refund_with_a_stored_error_pays_once(
    stripe_api: FakeStripe,
):
    provider = stripe_api.adapter()
    checkout = checkout_request()
    begun = provider.begin(checkout)
    stripe_api.pay(checkout.reference)
    seen = provider.look(checkout.reference, begun.session)
    refund = refund_of(checkout, seen, "1.00")
    provider.refund(refund)
    key, (request, _) = list(stripe_api.answered.items())[-1]
    stripe_api.answered[key] = request, error(500, "Something went wrong.")

    assert provider.refund(refund).state == RefundState.DONE
    assert len(stripe_api.refunds) == 1


def test_expired_session_can_be_expired_again(stripe_api: FakeStripe):
    provider = stripe_api.adapter()
    checkout = checkout_request()
    begun = provider.begin(checkout)

    provider.expire(checkout.reference, "")
    provider.expire(checkout.reference, begun.session)

    state = provider.look(checkout.reference, begun.session).state
    assert state == CheckoutState.EXPIRED
    provider.expire("unknown", "")


def test_early_fraud_warning_names_its_payment(stripe_api: FakeStripe):
    provider = stripe_api.adapter()
    checkout = checkout_request()
    begun = provider.begin(checkout)
    stripe_api.pay(checkout.reference)
    transaction = provider.look(checkout.reference, begun.session).transaction
    stripe_api.warn_of_fraud(checkout.reference)

    event = provider.read_event(*stripe_api.signed(stripe_api.events[-1]))

    assert (event.is_fraud_warning, event.transaction) == (True, transaction)
    assert not event.is_dispute
