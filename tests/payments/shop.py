"""A payment provider in the test's process that can be down or lose its answers.

Its books are outside of the database, so that no crash of the service undoes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import ClassVar

from verification.providers.base import Refused, Unavailable
from verification.providers.payment_provider import (
    BadSignature,
    CheckoutPage,
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
)


@dataclass
class Page:
    reference: str
    amount: Decimal
    currency: str
    state: CheckoutState = CheckoutState.OPEN
    paid: Decimal = Decimal(0)
    dispute: DisputeState | None = None
    disputed: Decimal = Decimal(0)


@dataclass
class Given:
    reference: str
    page: Page
    amount: Decimal
    state: RefundState


class Shop:
    """A provider without idempotency keys: it executes a repeated request again."""

    name: ClassVar[str] = "shop"
    payment_methods: ClassVar[tuple[PaymentMethod, ...]] = (PaymentMethod.CARD,)
    checkout_origin = ""

    def __init__(self) -> None:
        self.minimums: dict[str, Decimal] = {}
        self.open()

    def open(self) -> None:
        self.pages: dict[str, Page] = {}
        self.given: list[Given] = []
        # down: it executes no request; lost: it executes it and the answer is lost.
        self.weather = "fine"

    def _begin_call(self) -> None:
        if self.weather == "down":
            raise Unavailable("SOURCE_UNAVAILABLE", "The shop is closed.")

    def _end_call(self) -> None:
        if self.weather == "lost":
            raise Unavailable("SOURCE_UNAVAILABLE", "The shop did not answer in time.")

    def begin(self, request: CheckoutRequest) -> CheckoutPage:
        self._begin_call()
        page = Page(request.reference, request.amount, request.currency)
        self.pages.setdefault(request.reference, page)
        self._end_call()
        return CheckoutPage(f"https://shop.test/{request.reference}", "")

    def can_prompt(self, amount: Decimal, currency: str) -> bool:
        return amount == amount.to_integral_value()

    def send_prompt(self, request: CheckoutRequest, phone: str) -> CheckoutSnapshot:
        self._begin_call()
        assert request.reference not in self.pages, "two prompts of one checkout"
        self.pages[request.reference] = Page(
            request.reference, request.amount, request.currency
        )
        self._end_call()
        return CheckoutSnapshot(CheckoutState.OPEN)

    def look(self, reference: str, session: str) -> CheckoutSnapshot:
        self._begin_call()
        self._end_call()
        page = self.pages.get(reference)
        if page is None:
            return CheckoutSnapshot(CheckoutState.UNKNOWN)
        if page.state != CheckoutState.PAID:
            return CheckoutSnapshot(page.state)
        return CheckoutSnapshot(
            page.state,
            page.paid,
            page.currency,
            f"T{reference}",
            disputes=self._disputes(page),
        )

    def refund(self, asked: RefundRequest) -> RefundSnapshot:
        self._begin_call()
        page = self.pages[asked.checkout_reference]
        if self.kept(page) < asked.amount:
            raise Refused("SOURCE_REFUSED", "More than is left.")
        given = Given(asked.reference, page, asked.amount, RefundState.PENDING)
        self.given.append(given)
        self._end_call()
        return self._seen(given)

    def poll_refund(self, asked: RefundRequest, refund: str) -> RefundSnapshot | None:
        self._begin_call()
        self._end_call()
        names = {refund.removeprefix("R") or asked.reference}
        found = [one for one in self.given if one.reference in names]
        return self._seen(found[0]) if found else None

    def read_event(self, body: bytes, headers: Mapping[str, str]) -> ProviderEvent:
        # It sends no events, so the service polls it.
        raise BadSignature

    def payments_between(
        self, start: datetime, end: datetime
    ) -> Iterator[ProviderPayment]:
        for page in self.pages.values():
            if page.state == CheckoutState.PAID:
                name = f"T{page.reference}"
                paid = (page.paid, page.currency, end)
                yield ProviderPayment(page.reference, name, *paid)

    def refunds_between(
        self, start: datetime, end: datetime
    ) -> Iterator[ProviderRefund]:
        for one in self.given:
            if one.state != RefundState.FAILED:
                words = frozenset({one.reference})
                money = (one.amount, one.page.currency)
                name = f"T{one.page.reference}"
                yield ProviderRefund(f"R{one.reference}", name, *money, words)

    def refunds_of(self, transaction: str) -> Iterator[ProviderRefund]:
        for one in self.given:
            name = f"T{one.page.reference}"
            if one.state != RefundState.FAILED and name == transaction:
                words = frozenset({one.reference})
                money = (one.amount, one.page.currency)
                yield ProviderRefund(f"R{one.reference}", name, *money, words)

    def disputes_between(
        self, start: datetime, end: datetime
    ) -> Iterator[DisputeSnapshot]:
        for page in self.pages.values():
            yield from self._disputes(page)

    def expire(self, reference: str, session: str) -> None:
        self._begin_call()
        page = self.pages.get(reference)
        if page and page.state == CheckoutState.OPEN:
            page.state = CheckoutState.EXPIRED
        self._end_call()

    def _disputes(self, page: Page) -> tuple[DisputeSnapshot, ...]:
        if page.dispute is None:
            return ()
        name, money = f"T{page.reference}", (page.disputed, page.currency)
        return (DisputeSnapshot(f"D{page.reference}", name, page.dispute, *money),)

    def _seen(self, given: Given) -> RefundSnapshot:
        return RefundSnapshot(given.state, f"R{given.reference}")

    def kept(self, page: Page) -> Decimal:
        gone = (
            one.amount
            for one in self.given
            if one.page is page and one.state != RefundState.FAILED
        )
        return page.paid - sum(gone, Decimal(0))


the_shop = Shop()


def shop() -> Shop:
    return the_shop
