"""The contract of payment providers that are remote servers.

A subclass offers the fixture `fake`, beside those of `CheckoutContract`.
"""

from abc import abstractmethod
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.fakes.checkouts import CheckoutServer
from tests.providers.checkout_contract import (
    CheckoutContract,
    Payer,
    checkout_request,
    refund_of,
    traceback_text,
)
from verification.providers.base import ProviderError, Refused, Unavailable
from verification.providers.payment_provider import (
    BadSignature,
    CheckoutProvider,
    CheckoutRequest,
    CheckoutSnapshot,
    CheckoutState,
    RefundState,
)


class RemoteCheckoutContract(CheckoutContract):
    @pytest.fixture
    @abstractmethod
    def fake(self) -> CheckoutServer: ...

    @pytest.mark.parametrize("amount", ["0.01", "0.10", "19.99", "150", "9999999.99"])
    def test_amounts_are_exact(
        self, provider: CheckoutProvider, payer: Payer, amount: str
    ):
        checkout = checkout_request(amount=Decimal(amount))
        begun = provider.begin(checkout)

        payer.pay(checkout.reference)

        seen = provider.look(checkout.reference, begun.session)
        assert seen.amount == Decimal(amount)

    @pytest.mark.parametrize("amount", ["0", "-1", "0.001", "NaN", "Infinity"])
    def test_amounts_with_fractions_of_cents_are_refused(
        self, provider: CheckoutProvider, fake: CheckoutServer, amount: str
    ):
        with pytest.raises(Refused) as refusal:
            provider.begin(checkout_request(amount=Decimal(amount)))

        assert refusal.value.code == "AMOUNT_NOT_SUPPORTED"
        assert fake.requests == []

    @pytest.mark.parametrize("currency", ["JPY", "UGX", "RWF", "XOF", "KWD"])
    def test_currencies_without_cents_are_refused(
        self, provider: CheckoutProvider, fake: CheckoutServer, currency: str
    ):
        with pytest.raises(Refused) as refusal:
            provider.begin(checkout_request(currency=currency))

        assert refusal.value.code == "CURRENCY_NOT_SUPPORTED"
        assert fake.requests == []

    def test_snapshot_has_the_paid_amount_and_currency(
        self, provider: CheckoutProvider, fake: CheckoutServer, payer: Payer
    ):
        checkout = checkout_request()
        begun = provider.begin(checkout)
        fake.pays, fake.currency = 100, "usd" if provider.name == "stripe" else "USD"

        payer.pay(checkout.reference)

        seen = provider.look(checkout.reference, begun.session)
        assert (seen.state, seen.amount, seen.currency) == (
            CheckoutState.PAID,
            Decimal("1.00"),
            "USD",
        )

    @pytest.mark.parametrize(
        "faults",
        [
            {"status": 500},
            {"status": 503},
            {"status": 429},
            {"html": True},
            {"half": True},
        ],
        ids=str,
    )
    def test_failing_provider_is_unavailable(
        self,
        provider: CheckoutProvider,
        fake: CheckoutServer,
        paid: tuple[CheckoutRequest, CheckoutSnapshot],
        faults: dict[str, Any],
    ):
        vars(fake.faults).update(faults)
        refund = refund_of(*paid, "1.00")
        now = datetime.now(UTC)

        calls = [
            lambda: provider.begin(checkout_request()),
            lambda: provider.look(paid[0].reference, ""),
            lambda: provider.refund(refund),
            lambda: provider.poll_refund(refund, ""),
            lambda: provider.poll_refund(refund, "re_1"),
            lambda: list(provider.payments_between(now - timedelta(hours=1), now)),
            lambda: list(provider.refunds_between(now - timedelta(hours=1), now)),
        ]
        for call in calls:
            with pytest.raises(Unavailable):
                call()

    def test_refund_with_a_lost_answer_pays_once(
        self,
        provider: CheckoutProvider,
        fake: CheckoutServer,
        paid: tuple[CheckoutRequest, CheckoutSnapshot],
    ):
        refund = refund_of(*paid, "1000.00")
        fake.faults.method, fake.faults.half = "POST", True
        with pytest.raises(Unavailable):
            provider.refund(refund)
        fake.faults.half = False

        seen, again = provider.poll_refund(refund, ""), provider.refund(refund)

        assert seen == again
        # After two refunds, or none, this refund would have another result.
        provider.refund(refund_of(*paid, "234.56"))
        with pytest.raises(Refused):
            provider.refund(refund_of(*paid, "0.01"))

    def test_wrong_key_is_refused(
        self, provider: CheckoutProvider, fake: CheckoutServer
    ):
        vars(fake)["key"] = "sk_another"

        with pytest.raises(Refused):
            provider.begin(checkout_request())

    def test_errors_hold_no_personal_data(
        self, provider: CheckoutProvider, fake: CheckoutServer
    ):
        checkout = checkout_request(email="not an address", amount=Decimal("1.23"))
        for faults in ({"status": 400}, {"half": True}, {"html": True}):
            vars(fake.faults).update({"half": False, "html": False, **faults})

            with pytest.raises(ProviderError) as error:
                provider.begin(checkout)

            told = traceback_text(error.value)
            assert not any(word in told for word in ("address", "sk_test", "back?t"))

    def test_signed_event_is_read(
        self,
        provider: CheckoutProvider,
        fake: CheckoutServer,
        paid: tuple[CheckoutRequest, CheckoutSnapshot],
    ):
        body, headers = fake.signed(fake.events[-1])

        event = provider.read_event(body, headers)
        for change in (str.lower, str.upper, str.title):
            cased = {change(name): value for name, value in headers.items()}
            assert provider.read_event(body, cased) == event

        assert event.reference == paid[0].reference
        assert event.event_id
        assert event.type

    def test_changed_event_is_refused(
        self,
        provider: CheckoutProvider,
        fake: CheckoutServer,
        paid: tuple[CheckoutRequest, CheckoutSnapshot],
    ):
        body, headers = fake.signed(fake.events[-1])
        name = next(name for name in headers if "ignature" in name.lower())

        for changed in (body + b" ", body[:-1], b"", body.replace(b"PR-", b"PX-")):
            with pytest.raises(BadSignature):
                provider.read_event(changed, headers)
        for signature in ("", "0" * 128, "t=1,v1=0", "t=,v1=", "v1", "ü", "t=x,v1=ü"):
            with pytest.raises(BadSignature):
                provider.read_event(body, {name: signature})
        with pytest.raises(BadSignature):
            provider.read_event(*fake.signed(fake.events[-1], "of somebody else"))

    @pytest.mark.parametrize(
        "text", ["[]", "1", "null", '"x"', "{", '{"data": 1}', "{}"]
    )
    def test_signed_body_without_an_event_is_harmless(
        self, provider: CheckoutProvider, fake: CheckoutServer, text: str
    ):
        body = text.encode()

        try:
            event = provider.read_event(body, fake.sign(body))
        except BadSignature:
            return
        assert event.reference == ""

    def test_only_repeats_share_an_event_id(
        self, provider: CheckoutProvider, fake: CheckoutServer, payer: Payer
    ):
        for _ in range(2):
            checkout = checkout_request()
            provider.begin(checkout)
            payer.pay(checkout.reference)

        names = [
            provider.read_event(*fake.signed(event)).event_id
            for event in fake.events * 2
        ]

        assert len(set(names)) == len(fake.events)

    def test_event_of_a_refund_names_its_checkout(
        self,
        provider: CheckoutProvider,
        fake: CheckoutServer,
        paid: tuple[CheckoutRequest, CheckoutSnapshot],
    ):
        fake.events.clear()

        provider.refund(refund_of(*paid, "1.00"))

        read = [provider.read_event(*fake.signed(event)) for event in fake.events]
        assert read
        assert {event.reference for event in read} == {paid[0].reference}

    def test_refunds_may_fail_later(
        self,
        provider: CheckoutProvider,
        fake: Any,
        paid: tuple[CheckoutRequest, CheckoutSnapshot],
    ):
        fake.refund_fails = True
        refund = refund_of(*paid, "1.00")
        made = provider.refund(refund)
        assert made.state == RefundState.PENDING

        fake.settle_refunds()

        seen = provider.poll_refund(refund, made.refund)
        assert seen is not None
        assert seen.state == RefundState.FAILED
        body, headers = fake.signed(fake.events[-1])
        event = provider.read_event(body, headers)
        assert (event.type, event.reference) == ("refund.failed", paid[0].reference)

    def test_books_list_refunds_between_two_times(
        self,
        provider: CheckoutProvider,
        fake: Any,
        paid: tuple[CheckoutRequest, CheckoutSnapshot],
    ):
        fake.most_per_page = 2
        asked = [refund_of(*paid, "100.00") for _ in range(3)]
        made = {provider.refund(one).refund: one.reference for one in asked}
        fake.refund_fails = True
        provider.refund(refund_of(*paid, "1.00"))
        for refund in fake.refunds if provider.name == "paystack" else ():
            refund.status = "processed" if refund.amount == 10_000 else "pending"
        fake.settle_refunds()
        now, hour = datetime.now(UTC), timedelta(hours=1)

        books = list(provider.refunds_between(now - hour, now + hour))

        assert {one.refund: set(one.words) for one in books} == {
            name: {reference} for name, reference in made.items()
        }
        told = {(one.transaction, one.amount, one.currency) for one in books}
        assert told == {(paid[1].transaction, Decimal("100.00"), "KES")}
        assert list(provider.refunds_between(now - 2 * hour, now - hour)) == []
        assert list(provider.refunds_between(now + hour, now + 2 * hour)) == []

    def test_books_are_read_to_the_last_page(
        self, provider: CheckoutProvider, fake: Any, payer: Payer
    ):
        fake.most_per_page = 2
        paid = [checkout_request() for _ in range(5)]
        for checkout in paid:
            provider.begin(checkout)
            payer.pay(checkout.reference)
        now = datetime.now(UTC)

        books = provider.payments_between(
            now - timedelta(hours=1), now + timedelta(hours=1)
        )

        found = sorted(one.reference for one in books)
        assert found == sorted(checkout.reference for checkout in paid)
