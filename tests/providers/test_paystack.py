import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Any

import pytest

from tests.fakes.checkouts import CheckoutServer
from tests.fakes.paystack import FakePaystack
from tests.fakes.paystack import paystack as paystack
from tests.providers.checkout_contract import Payer, checkout_request, refund_of
from tests.providers.remote_checkout_contract import RemoteCheckoutContract
from verification.providers.base import Refused, Unavailable
from verification.providers.payment_provider import (
    CheckoutProvider,
    CheckoutState,
    DisputeState,
    RefundState,
)
from verification.providers.paystack import Paystack


class TestPaystack(RemoteCheckoutContract):
    @pytest.fixture
    def fake(self, paystack: FakePaystack) -> CheckoutServer:
        return paystack

    @pytest.fixture
    def provider(self, paystack: FakePaystack) -> CheckoutProvider:
        return paystack.adapter()

    @pytest.fixture
    def payer(self, paystack: FakePaystack) -> Payer:
        return paystack


GOLDEN_BODY = b'{"event":"charge.success","data":{"reference":"PR-1"}}'
GOLDEN = (
    "d431d2a6745565805054c74514a53d659b59e4b9ff33351860dbac92d314069e"
    "538640544d55871f85e511cd8e00b9d6eb77d4a870ad8238f425f5fc984492aa"
)


def test_signature_equals_paystacks():
    headers = {"X-Paystack-Signature": GOLDEN}

    event = Paystack("sk_test_abc").read_event(GOLDEN_BODY, headers)

    assert (event.type, event.reference) == ("charge.success", "PR-1")
    assert event.event_id == sha256(GOLDEN_BODY).hexdigest()


def test_event_signed_with_a_previous_key_is_accepted():
    rotated = Paystack("sk_new", previous_secret_keys=["sk_older", "sk_test_abc"])

    event = rotated.read_event(GOLDEN_BODY, {"x-paystack-signature": GOLDEN})

    assert event.reference == "PR-1"


def test_request_has_cents_and_return_urls(
    paystack: FakePaystack,
):
    checkout = checkout_request(amount=Decimal("150.00"))

    begun = paystack.adapter().begin(checkout)

    sent = json.loads(paystack.requests[0].body)
    assert sent["amount"] == 15000
    assert sent["currency"] == "KES"
    assert sent["reference"] == checkout.reference
    assert sent["email"] == "wanjiku@example.org"
    assert sent["callback_url"] == checkout.return_url
    assert sent["metadata"]["cancel_action"] == checkout.cancel_url
    assert begun.url == f"{paystack.url}/{begun.session}"


def test_payer_without_an_address_gets_the_fallback(paystack: FakePaystack):
    checkout = checkout_request(email="")

    paystack.adapter(fallback_email="pay.example.net").begin(checkout)

    sent = json.loads(paystack.requests[0].body)
    assert sent["email"] == f"{checkout.reference.lower()}@pay.example.net"


def test_without_any_address_a_checkout_is_refused(paystack: FakePaystack):
    with pytest.raises(Refused) as refusal:
        paystack.adapter(fallback_email="").begin(checkout_request(email=""))

    assert refusal.value.code == "EMAIL_REQUIRED"
    assert paystack.requests == []


@pytest.mark.parametrize("reference", ["PR_1", "PR 1", "PR/1", "", "PR-1\n", "é"])
def test_malformed_reference_is_refused(paystack: FakePaystack, reference: str):
    with pytest.raises(Refused) as refusal:
        paystack.adapter().begin(checkout_request(reference=reference))

    assert refusal.value.code == "REFERENCE_NOT_SUPPORTED"


def test_repeated_begin_is_refused(paystack: FakePaystack):
    checkout, provider = checkout_request(), paystack.adapter()
    paystack.faults.half = True
    with pytest.raises(Unavailable):
        provider.begin(checkout)
    paystack.faults.half = False

    with pytest.raises(Refused) as refusal:
        provider.begin(checkout)

    assert refusal.value.code == "CHECKOUT_ALREADY_BEGUN"
    assert provider.look(checkout.reference, "").state == CheckoutState.OPEN


def test_page_of_another_origin_is_refused(paystack: FakePaystack):
    elsewhere = Paystack(paystack.key, paystack.url, [paystack.host])

    with pytest.raises(Refused) as refusal:
        elsewhere.begin(checkout_request())

    assert refusal.value.code == "CHECKOUT_ELSEWHERE"


def paid(paystack: FakePaystack, provider: Paystack) -> Any:
    checkout = checkout_request(amount=Decimal("300.50"))
    provider.begin(checkout)
    paystack.pay(checkout.reference)
    return checkout, provider.look(checkout.reference, "")


def test_fees_on_top_are_not_part_of_the_payment(paystack: FakePaystack):
    paystack.fees = 10283

    checkout, seen = paid(paystack, paystack.adapter())

    assert paystack.transactions[checkout.reference].amount == 40333
    assert (seen.state, seen.amount) == (CheckoutState.PAID, Decimal("300.50"))


@pytest.mark.parametrize("pays", [10_000, 30_049, 30_051, 30_050 + 452, 99_999])
def test_other_amount_is_returned_as_paid(paystack: FakePaystack, pays: int):
    paystack.pays = pays

    _, seen = paid(paystack, paystack.adapter())

    assert (seen.state, seen.amount) == (CheckoutState.PAID, Decimal(pays) / 100)
    today = datetime.now(UTC)
    books = paystack.adapter().payments_between(
        today - timedelta(hours=1), today + timedelta(hours=1)
    )
    assert [one.amount for one in books] == [seen.amount]


@pytest.mark.parametrize("metadata", ["", 0, "0", {}, [], {"a": None}])
def test_metadata_may_be_anything(paystack: FakePaystack, metadata: Any):
    paystack.metadata = metadata

    _, seen = paid(paystack, paystack.adapter())

    assert seen.state == CheckoutState.PAID


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("abandoned", CheckoutState.OPEN),
        ("ongoing", CheckoutState.OPEN),
        ("pending", CheckoutState.OPEN),
        ("processing", CheckoutState.OPEN),
        ("queued", CheckoutState.OPEN),
        ("a new word", CheckoutState.OPEN),
        ("failed", CheckoutState.FAILED),
        ("reversed", CheckoutState.REVERSED),
    ],
)
def test_only_success_is_paid(paystack: FakePaystack, word: str, state: CheckoutState):
    checkout, provider = checkout_request(), paystack.adapter()
    provider.begin(checkout)
    paystack.transactions[checkout.reference].status = word

    assert provider.look(checkout.reference, "").state == state


def test_fully_refunded_checkout_is_reversed(paystack: FakePaystack):
    provider = paystack.adapter()
    checkout, seen = paid(paystack, provider)
    made = provider.refund(refund_of(checkout, seen, "300.50"))
    assert made.state == RefundState.PENDING

    paystack.settle_refunds()

    refund = refund_of(checkout, seen, "300.50")
    done = provider.poll_refund(refund, made.refund)
    assert done is not None
    assert done.state == RefundState.DONE
    assert provider.look(checkout.reference, "").state == CheckoutState.REVERSED


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("pending", RefundState.PENDING),
        ("processing", RefundState.PENDING),
        ("needs-attention", RefundState.PENDING),
        ("a new word", RefundState.PENDING),
        ("processed", RefundState.DONE),
        ("failed", RefundState.FAILED),
    ],
)
def test_states_of_refunds(paystack: FakePaystack, word: str, state: RefundState):
    provider = paystack.adapter()
    refund = refund_of(*paid(paystack, provider), "1.00")
    made = provider.refund(refund)
    paystack.refunds[0].status = word

    seen = provider.poll_refund(refund, made.refund)

    assert seen is not None
    assert (seen.state, seen.message) == (state, word)


@pytest.mark.parametrize("filters", [True, False])
def test_refund_is_found_among_many(paystack: FakePaystack, *, filters: bool):
    paystack.filters_refunds, paystack.most_per_page = filters, 2
    provider = paystack.adapter()
    checkout, seen = paid(paystack, provider)
    refunds = [refund_of(checkout, seen, "1.00") for _ in range(5)]
    made = [provider.refund(refund).refund for refund in refunds]
    # Paystack adds text to notes.
    for refund in paystack.refunds:
        refund.merchant_note = f"{refund.merchant_note} by staff@example.org"

    found = [provider.poll_refund(refund, "") for refund in refunds]

    assert [one and one.refund for one in found] == made


def test_too_many_refunds_raise_an_error(
    paystack: FakePaystack,
):
    paystack.filters_refunds, paystack.most_per_page = False, 1
    provider = paystack.adapter()
    checkout, seen = paid(paystack, provider)
    provider.refund(refund_of(checkout, seen, "1.00"))
    paystack.refunds *= 51

    with pytest.raises(Unavailable):
        provider.refund(refund_of(checkout, seen, "1.00"))


def test_unknown_refund_is_none(paystack: FakePaystack):
    provider = paystack.adapter()
    refund = refund_of(*paid(paystack, provider), "1.00")

    assert provider.poll_refund(refund, "12345") is None


def test_answer_about_another_transaction_is_an_error(paystack: FakePaystack):
    provider = paystack.adapter()
    checkout, _ = paid(paystack, provider)
    paystack.transactions["PR-other"] = paystack.transactions[checkout.reference]

    with pytest.raises(Unavailable):
        provider.look("PR-other", "")


@pytest.mark.parametrize("amount", [300.5, True, None, "3.5", "", -1.0, [], "٣"])
def test_amount_that_is_no_number_is_an_error(paystack: FakePaystack, amount: Any):
    provider = paystack.adapter()
    checkout, _ = paid(paystack, provider)
    transaction = paystack.transactions[checkout.reference]
    transaction.amount = transaction.requested_amount = amount

    with pytest.raises(Unavailable):
        provider.look(checkout.reference, "")


def test_event_of_a_dispute_names_its_checkout(paystack: FakePaystack):
    provider = paystack.adapter()
    checkout, _ = paid(paystack, provider)

    paystack.dispute(checkout.reference)

    event = provider.read_event(*paystack.signed(paystack.events[-1]))
    assert event.type == "charge.dispute.create"
    assert event.reference == checkout.reference


def test_event_of_a_refund_names_its_checkout(paystack: FakePaystack):
    provider = paystack.adapter()
    checkout, seen = paid(paystack, provider)
    provider.refund(refund_of(checkout, seen, "1.00"))

    paystack.settle_refunds()

    event = provider.read_event(*paystack.signed(paystack.events[-1]))
    assert (event.is_refund, event.reference) == (True, checkout.reference)


def test_books_list_payments_begun_days_before(paystack: FakePaystack):
    provider = paystack.adapter()
    checkout, _ = paid(paystack, provider)
    transaction = paystack.transactions[checkout.reference]
    transaction.created_at -= timedelta(days=3)
    now, hour = datetime.now(UTC), timedelta(hours=1)

    (one,) = provider.payments_between(now - hour, now + hour)

    assert one.reference == checkout.reference
    assert list(provider.payments_between(now - 80 * hour, now - 70 * hour)) == []


@pytest.mark.parametrize("name", ["createdAt", "created_at"])
def test_refunds_are_listed_with_either_name_of_their_time(
    paystack: FakePaystack, name: str
):
    paystack.refund_time = name
    provider = paystack.adapter()
    checkout, seen = paid(paystack, provider)
    provider.refund(refund_of(checkout, seen, "1.00"))
    today = datetime.now(UTC)
    hour = timedelta(hours=1)

    assert len([*provider.refunds_between(today - hour, today + hour)]) == 1


def test_lists_without_page_counts_are_read_to_the_end(paystack: FakePaystack):
    paystack.tells_pages, paystack.most_per_page = False, 2
    provider = paystack.adapter()
    checkout, seen = paid(paystack, provider)
    refunds = [refund_of(checkout, seen, "1.00") for _ in range(5)]
    for refund in refunds:
        provider.refund(refund)

    assert all(provider.poll_refund(one, "") for one in refunds)
    assert len([*provider.refunds_of(seen.transaction)]) == 5


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ({"status": "pending"}, DisputeState.OPEN),
        ({"status": "awaiting-bank-feedback"}, DisputeState.OPEN),
        ({"status": "resolved", "resolution": "declined"}, DisputeState.WON),
        ({"status": "resolved", "resolution": "merchant-accepted"}, DisputeState.LOST),
        ({"status": "resolved", "resolution": "auto-accepted"}, DisputeState.LOST),
        ({"status": "resolved", "resolution": None}, DisputeState.OPEN),
        ({"status": "a new word"}, DisputeState.OPEN),
    ],
)
def test_states_of_disputes(
    paystack: FakePaystack, told: dict[str, Any], state: DisputeState
):
    provider = paystack.adapter()
    checkout, _ = paid(paystack, provider)
    paystack.dispute(checkout.reference)
    next(iter(paystack.disputes.values())).update(told)

    (seen,) = provider.look(checkout.reference, "").disputes or ()

    assert (seen.state, seen.amount) == (state, Decimal("300.50"))
    today = datetime.now(UTC)
    hour = timedelta(hours=1)
    assert [*provider.disputes_between(today - hour, today + hour)] == [seen]


PHONE = "+254712345678"


def test_prompt_request_follows_paystacks_page(paystack: FakePaystack):
    checkout = checkout_request(amount=Decimal(150), email="")

    seen = paystack.adapter().send_prompt(checkout, PHONE)

    assert seen.state == CheckoutState.OPEN
    (request,) = paystack.requests
    sent = json.loads(request.body)
    assert (request.method, request.path) == ("POST", "/charge")
    assert sent["mobile_money"] == {"phone": PHONE, "provider": "mpesa"}
    assert (sent["amount"], sent["currency"]) == (15000, "KES")
    assert sent["reference"] == checkout.reference
    assert sent["email"] == f"{checkout.reference.lower()}@pay.example.org"


def test_repeated_prompt_is_sent_once(paystack: FakePaystack):
    checkout = checkout_request(amount=Decimal(150))
    paystack.faults.half = True
    with pytest.raises(Unavailable):
        paystack.adapter().send_prompt(checkout, PHONE)
    paystack.faults.half = False

    again = paystack.adapter().send_prompt(checkout, PHONE)

    assert again.state == CheckoutState.OPEN
    assert [*paystack.transactions] == [checkout.reference]


@pytest.mark.parametrize(
    ("amount", "currency", "can"),
    [
        ("1", "KES", True),
        ("250000.00", "KES", True),
        ("250001", "KES", False),
        ("0", "KES", False),
        ("150.50", "KES", False),
        ("150", "USD", False),
    ],
)
def test_prompt_is_for_whole_shillings_up_to_the_limit(
    paystack: FakePaystack, amount: str, currency: str, can: bool
):
    assert paystack.adapter().can_prompt(Decimal(amount), currency) is can


@pytest.mark.parametrize(
    ("words", "failure"),
    [
        ("Request cancelled by user", "CANCELLED"),
        ("The balance is insufficient for the transaction.", "NO_MONEY"),
        ("The initiator information is invalid.", "WRONG_PIN"),
        ("Wrong PIN entered", "WRONG_PIN"),
        ("DS timeout user cannot be reached", "NOT_REACHED"),
        ("No response from user.", "NOT_REACHED"),
        (
            "Unable to lock subscriber, a transaction is already in process for the "
            "current subscriber",
            "BUSY",
        ),
        ("Transaction has expired", "TIMED_OUT"),
        ("An error occurred while sending a push request", "NOT_SENT"),
        ("The wind blew", None),
    ],
)
def test_failed_prompt_has_its_reason_from_paystacks_words(
    paystack: FakePaystack, words: str, failure: str | None
):
    provider, checkout = paystack.adapter(), checkout_request(amount=Decimal(150))
    provider.send_prompt(checkout, PHONE)
    assert provider.look(checkout.reference, "").state == CheckoutState.OPEN
    paystack.end_prompt(checkout.reference, words)

    seen = provider.look(checkout.reference, "")

    assert (seen.state, seen.failure) == (CheckoutState.FAILED, failure)
    assert words in seen.message


@pytest.mark.parametrize(
    ("status", "state", "failure"),
    [
        ("pay_offline", CheckoutState.OPEN, None),
        ("pending", CheckoutState.OPEN, None),
        # Only `look` reports a success.
        ("success", CheckoutState.OPEN, None),
        ("a_word_of_tomorrow", CheckoutState.OPEN, None),
        ("send_otp", CheckoutState.FAILED, "NOT_SENT"),
        ("open_url", CheckoutState.FAILED, "NOT_SENT"),
        ("failed", CheckoutState.FAILED, None),
        ("timeout", CheckoutState.FAILED, "TIMED_OUT"),
    ],
)
def test_status_of_a_prompt_maps_to_a_state(
    paystack: FakePaystack, status: str, state: CheckoutState, failure: str | None
):
    paystack.prompt_status = status

    seen = paystack.adapter().send_prompt(checkout_request(amount=Decimal(150)), PHONE)

    assert (seen.state, seen.failure) == (state, failure)


def test_refused_number_counts_as_not_reached(paystack: FakePaystack):
    seen = paystack.adapter().send_prompt(
        checkout_request(amount=Decimal(150)), "+15005550006"
    )

    assert (seen.state, seen.failure) == (CheckoutState.FAILED, "NOT_REACHED")
