"""The contract of all payment providers.

A test module subclasses `CheckoutContract` under a name that begins with Test, and
offers the fixtures `provider` and `payer`.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any, Protocol

import pytest

from verification.providers.base import Refused
from verification.providers.payment_provider import (
    BadSignature,
    CheckoutProvider,
    CheckoutRequest,
    CheckoutSnapshot,
    CheckoutState,
    RefundRequest,
    RefundState,
)

_numbers = count(1)


class Payer(Protocol):
    def pay(self, reference: str) -> None: ...

    def fail(self, reference: str) -> None: ...


def checkout_request(**fields: Any) -> CheckoutRequest:
    whole = CheckoutRequest(
        reference=f"PR-{next(_numbers)}",
        amount=Decimal("1234.56"),
        currency="KES",
        description="Verification report",
        email="wanjiku@example.org",
        language="en",
        return_url="https://verify.example.org/pay/back?t=1",
        cancel_url="https://verify.example.org/pay/cancelled",
        expires_at=datetime.now(UTC) + timedelta(hours=2),
    )
    return replace(whole, **fields)


def refund_of(
    checkout: CheckoutRequest, seen: CheckoutSnapshot, amount: str
) -> RefundRequest:
    return RefundRequest(
        reference=f"RF-{next(_numbers)}",
        checkout_reference=checkout.reference,
        transaction=seen.transaction,
        amount=Decimal(amount),
        currency=checkout.currency,
    )


def traceback_text(error: BaseException | None) -> str:
    """Return the traceback's text of an error and of its causes."""
    told = []
    while error:
        told.append(repr(error))
        behind = None if error.__suppress_context__ else error.__context__
        error = error.__cause__ or behind
    return " ".join(told)


class CheckoutContract(ABC):
    @pytest.fixture
    @abstractmethod
    def provider(self) -> CheckoutProvider: ...

    @pytest.fixture
    @abstractmethod
    def payer(self) -> Payer: ...

    @pytest.fixture
    def paid(
        self, provider: CheckoutProvider, payer: Payer
    ) -> tuple[CheckoutRequest, CheckoutSnapshot]:
        checkout = checkout_request()
        begun = provider.begin(checkout)
        payer.pay(checkout.reference)
        return checkout, provider.look(checkout.reference, begun.session)

    def test_new_checkout_is_open_and_has_a_page(self, provider: CheckoutProvider):
        checkout = checkout_request()

        begun = provider.begin(checkout)

        assert begun.url.startswith(provider.checkout_origin or "http")
        seen = provider.look(checkout.reference, begun.session)
        assert (seen.state, seen.amount, seen.currency, seen.transaction) == (
            CheckoutState.OPEN,
            None,
            None,
            "",
        )

    def test_same_reference_makes_no_second_checkout(
        self, provider: CheckoutProvider, payer: Payer
    ):
        since = datetime.now(UTC) - timedelta(seconds=2)
        checkout = checkout_request()
        begun = provider.begin(checkout)

        try:
            again, refused = provider.begin(checkout), ""
        except Refused as refusal:
            again, refused = begun, refusal.code
        assert again == begun
        assert refused in ("", "CHECKOUT_ALREADY_BEGUN")

        payer.pay(checkout.reference)
        until = datetime.now(UTC) + timedelta(seconds=2)
        books = provider.payments_between(since, until)
        assert [one.reference for one in books] == [checkout.reference]

    def test_checkout_that_never_began_is_unknown(self, provider: CheckoutProvider):
        assert provider.look("PR-none", "").state == CheckoutState.UNKNOWN

    def test_paid_checkout_has_the_amount(
        self, paid: tuple[CheckoutRequest, CheckoutSnapshot]
    ):
        checkout, seen = paid

        assert seen.state == CheckoutState.PAID
        assert (seen.amount, seen.currency) == (checkout.amount, "KES")
        assert seen.transaction

    def test_checkout_is_found_without_the_session(
        self, provider: CheckoutProvider, payer: Payer
    ):
        provider.begin(checkout_request())
        checkout = checkout_request()
        provider.begin(checkout)

        assert provider.look(checkout.reference, "").state == CheckoutState.OPEN
        payer.pay(checkout.reference)

        assert provider.look(checkout.reference, "").state == CheckoutState.PAID

    def test_payer_can_pay_after_a_failed_attempt(
        self, provider: CheckoutProvider, payer: Payer
    ):
        checkout = checkout_request()
        begun = provider.begin(checkout)

        payer.fail(checkout.reference)
        seen = provider.look(checkout.reference, begun.session)
        assert (seen.state, seen.amount) == (CheckoutState.FAILED, None)

        payer.pay(checkout.reference)
        seen = provider.look(checkout.reference, begun.session)
        assert seen.state == CheckoutState.PAID

    def test_repeated_refund_pays_once(
        self, provider: CheckoutProvider, paid: tuple[CheckoutRequest, CheckoutSnapshot]
    ):
        refund = refund_of(*paid, "1000.00")

        first, again = provider.refund(refund), provider.refund(refund)

        assert first.refund == again.refund
        assert first.state != RefundState.FAILED
        # A second refund of this amount would exceed the payment.
        with pytest.raises(Refused):
            provider.refund(refund_of(*paid, "1000.00"))

    def test_partial_refunds_are_separate(
        self, provider: CheckoutProvider, paid: tuple[CheckoutRequest, CheckoutSnapshot]
    ):
        one, other = refund_of(*paid, "1000.00"), refund_of(*paid, "234.56")

        assert provider.refund(one).refund != provider.refund(other).refund

    def test_unrequested_refund_is_none(
        self, provider: CheckoutProvider, paid: tuple[CheckoutRequest, CheckoutSnapshot]
    ):
        asked, never = refund_of(*paid, "1.00"), refund_of(*paid, "1.00")
        # A prefix of the reference of the refund.
        shorter = replace(never, reference=asked.reference[:-1])

        provider.refund(asked)

        assert provider.poll_refund(never, "") is None
        assert provider.poll_refund(shorter, "") is None

    def test_refund_is_found_with_and_without_its_id(
        self, provider: CheckoutProvider, paid: tuple[CheckoutRequest, CheckoutSnapshot]
    ):
        refund = refund_of(*paid, "1.00")

        made = provider.refund(refund)

        for name in (made.refund, ""):
            seen = provider.poll_refund(refund, name)
            assert seen is not None
            assert (seen.refund, seen.state) == (made.refund, made.state)

    def test_refund_above_the_payment_is_refused(
        self, provider: CheckoutProvider, paid: tuple[CheckoutRequest, CheckoutSnapshot]
    ):
        with pytest.raises(Refused):
            provider.refund(refund_of(*paid, "1234.57"))

    def test_refund_of_an_unpaid_checkout_is_refused(self, provider: CheckoutProvider):
        checkout = checkout_request()
        begun = provider.begin(checkout)
        seen = provider.look(checkout.reference, begun.session)

        with pytest.raises(Refused):
            provider.refund(refund_of(checkout, seen, "1.00"))

    def test_unsigned_event_is_refused(self, provider: CheckoutProvider):
        with pytest.raises(BadSignature):
            provider.read_event(b'{"event": "charge.success"}', {})

    def test_books_list_payments_between_two_times(
        self, provider: CheckoutProvider, paid: tuple[CheckoutRequest, CheckoutSnapshot]
    ):
        provider.begin(checkout_request())
        checkout, seen = paid
        now, hour = datetime.now(UTC), timedelta(hours=1)

        (one,) = provider.payments_between(now - hour, now + hour)

        assert (one.reference, one.transaction) == (
            checkout.reference,
            seen.transaction,
        )
        assert (one.amount, one.currency) == (checkout.amount, "KES")
        assert abs(one.paid_at - now) < timedelta(minutes=1)
        assert list(provider.payments_between(now - 2 * hour, now - hour)) == []
        assert list(provider.payments_between(now + hour, now + 2 * hour)) == []
