"""What a payment provider is asked, and how it may answer.

An adapter opens hosted checkouts, sends prompts to phones, says what became of both,
gives money back and reads the provider's events. It raises `Unavailable` (try again
later) or `Refused` (this will never work), writes no rows, reads no settings, and does
not retry. Amounts are Decimals in the currency's major unit with two decimals; an
adapter turns them into its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from verification.providers.base import BadSignature as BadSignature
from verification.providers.base import Refused

# A transaction's limit, in shillings.
MPESA_LIMIT = 250_000


class PaymentMethod(StrEnum):
    """How a payer can pay on a provider's pages."""

    MPESA = "MPESA"
    CARD = "CARD"


class CheckoutState(StrEnum):
    # The payer has not ended it; also a provider's words that we do not know.
    OPEN = "OPEN"
    PAID = "PAID"
    # It was paid, and all of it has gone back.
    REVERSED = "REVERSED"
    # The last attempt to pay failed; some providers let the payer try again.
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"
    # The provider has never heard of it.
    UNKNOWN = "UNKNOWN"


class PromptFailure(StrEnum):
    """Why a prompt on the payer's phone ended without a payment."""

    CANCELLED = "CANCELLED"
    NO_MONEY = "NO_MONEY"
    WRONG_PIN = "WRONG_PIN"
    TIMED_OUT = "TIMED_OUT"
    # The phone is off or out of reach, or has no M-Pesa.
    NOT_REACHED = "NOT_REACHED"
    # Another payment by this phone is under way.
    BUSY = "BUSY"
    # The provider did not send one.
    NOT_SENT = "NOT_SENT"


class RefundState(StrEnum):
    PENDING = "PENDING"
    DONE = "DONE"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class CheckoutRequest:
    """A checkout to be opened.

    `reference` is ours, unique, letters, digits and `-`; the same reference asked again
    must not make a second checkout. `email` may be "" where the payer gave none.
    """

    reference: str
    amount: Decimal
    currency: str
    description: str
    email: str
    language: str
    return_url: str
    cancel_url: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class CheckoutPage:
    """Where the payer pays; `session` is the provider's own name for it, or ""."""

    url: str
    session: str


class DisputeState(StrEnum):
    OPEN = "OPEN"
    WON = "WON"
    # The payer's bank has taken the money.
    LOST = "LOST"


@dataclass(frozen=True, slots=True)
class DisputeSnapshot:
    """A dispute in the provider's books, as it stands now."""

    # The provider's own name for it.
    dispute: str
    transaction: str
    state: DisputeState
    amount: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class CheckoutSnapshot:
    """What the provider's API says of a checkout at this moment.

    `amount` and `currency` are what was paid for the order, without fees on top;
    `transaction` is what a refund names. All three are only told of a PAID one.
    """

    state: CheckoutState
    amount: Decimal | None = None
    currency: str | None = None
    transaction: str = ""
    # The provider's words for staff, at most 200 characters.
    message: str = ""
    # Of a FAILED prompt, where the provider's words say why.
    failure: PromptFailure | None = None
    # Of a PAID or REVERSED one, whoever asked for it; None where the provider did not
    # tell.
    refunded: Decimal | None = field(default=None, compare=False)
    disputes: tuple[DisputeSnapshot, ...] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RefundRequest:
    """Money to be given back; the same `reference` asked again gives it back once."""

    reference: str
    checkout_reference: str
    transaction: str
    amount: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class RefundSnapshot:
    state: RefundState
    # The provider's own name for the refund.
    refund: str
    message: str = ""
    # A PENDING one that waits for somebody at the provider's dashboard.
    needs_somebody: bool = False


@dataclass(frozen=True, slots=True)
class ProviderEvent:
    """An event whose signature was right. It is a hint to look, never a proof.

    `event_id` tells repeats of it; `reference` is our checkout's, or "" where the event
    is about nothing of ours or names it by the provider's `transaction` alone.
    """

    event_id: str
    type: str
    reference: str
    transaction: str = ""
    # The payer's bank takes the money back, or is about to.
    is_dispute: bool = False
    is_refund: bool = False
    # The payer's bank suspects fraud.
    is_fraud_warning: bool = False


@dataclass(frozen=True, slots=True)
class ProviderPayment:
    """A payment in the provider's books, for the reconciliation."""

    reference: str
    transaction: str
    amount: Decimal
    currency: str
    paid_at: datetime


@dataclass(frozen=True, slots=True)
class ProviderRefund:
    """A refund in the provider's books that did not fail, whoever asked for it."""

    # The provider's own name for it.
    refund: str
    transaction: str
    amount: Decimal
    currency: str
    # What it was asked with; our reference is among them if we asked.
    words: frozenset[str]


class CheckoutProvider(Protocol):
    name: ClassVar[str]
    payment_methods: ClassVar[tuple[PaymentMethod, ...]]

    @property
    def minimums(self) -> Mapping[str, Decimal]:
        """The smallest amount that it takes, by currency; any where there is none."""
        ...

    @property
    def checkout_origin(self) -> str:
        """Scheme and host of its pages, which a form of ours may lead to."""
        ...

    def begin(self, asked: CheckoutRequest) -> CheckoutPage: ...

    def can_prompt(self, amount: Decimal, currency: str) -> bool:
        """Whether `send_prompt` can ask for this amount."""
        ...

    def send_prompt(self, asked: CheckoutRequest, phone: str) -> CheckoutSnapshot:
        """Send a prompt to this phone (E.164): it is OPEN until the payer answers.

        `look` says later what became of it. The same reference asked again must not
        send a second prompt.
        """
        ...

    def look(self, reference: str, session: str) -> CheckoutSnapshot:
        """`session` is "" where the answer to `begin` was lost."""
        ...

    def refund(self, asked: RefundRequest) -> RefundSnapshot: ...

    def poll_refund(self, asked: RefundRequest, refund: str) -> RefundSnapshot | None:
        """What became of it; with refund "", whether it was ever asked. None: never."""
        ...

    def read_event(self, body: bytes, headers: Mapping[str, str]) -> ProviderEvent:
        """Raises BadSignature. Headers are found whatever their case."""
        ...

    def payments_between(
        self, start: datetime, end: datetime
    ) -> Iterator[ProviderPayment]:
        """Every payment in its books since `start` and before `end`."""
        ...

    def refunds_between(
        self, start: datetime, end: datetime
    ) -> Iterator[ProviderRefund]:
        """Every refund in its books that was made since `start` and before `end`."""
        ...

    def refunds_of(self, transaction: str) -> Iterator[ProviderRefund]:
        """Every refund of one payment."""
        ...

    def disputes_between(
        self, start: datetime, end: datetime
    ) -> Iterator[DisputeSnapshot]:
        """Every dispute in its books that was opened since `start` and before `end`."""
        ...

    def expire(self, reference: str, session: str) -> None:
        """Let nobody pay by it any more, where the provider can; else nothing."""
        ...


def is_mpesa_amount(amount: Decimal, currency: str) -> bool:
    """Whether M-Pesa carries it at once: whole shillings, up to its limit."""
    is_whole = amount == amount.to_integral_value()
    return currency == "KES" and is_whole and 1 <= amount <= MPESA_LIMIT


def header(headers: Mapping[str, str], name: str) -> str:
    """The value of a header whatever its case; "" where there is none."""
    found = (value for key, value in headers.items() if key.lower() == name)
    return next(found, "")


def validate_page_url(url: Any, origin: str) -> str:
    """The page of a provider's answer, if it is where our forms may lead to."""
    if not str(url).startswith(f"{origin}/"):
        told = "The provider's page is not where the configuration says."
        raise Refused("CHECKOUT_ELSEWHERE", told)
    return str(url)
