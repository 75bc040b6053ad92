"""The interface of payment providers: requests, answers and the adapter's methods.

An adapter opens checkouts, sends prompts to phones, polls both, makes refunds and reads
the provider's events. It raises `Unavailable` (try again later) or `Refused` (this will
never work). It leaves rows, settings and retries to its caller. Amounts are
Decimals in the currency's major unit with two decimals; an adapter converts them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, ClassVar

from verification.providers.base import BadSignature as BadSignature
from verification.providers.base import ProviderError, Refused, Unavailable

# M-Pesa's limit for a transaction, in shillings.
MPESA_LIMIT = 250_000
# Currencies of ISO 4217 without cents, then those with thousandths or smaller units.
# Providers differ in how they write them: Stripe writes some with two decimals,
# Paystack others. A wrong guess is wrong by a factor of a hundred, so we refuse them.
NAMES = """
    BIF CLP DJF GNF ISK JPY KMF KRW MGA MRU PYG RWF UGX UYI VND VUV XAF XOF XPF
    BHD CLF IQD JOD KWD LYD OMR TND UYW
"""
WITHOUT_CENTS = frozenset(NAMES.split())


class PaymentMethod(StrEnum):
    """A way to pay on a provider's pages."""

    MPESA = "MPESA"
    CARD = "CARD"


class CheckoutState(StrEnum):
    # The payer has not finished; also the state for words of a provider that we lack.
    OPEN = "OPEN"
    PAID = "PAID"
    # The payer paid, and the whole amount has gone back.
    REVERSED = "REVERSED"
    # The last attempt to pay failed; some providers let the payer try again.
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"
    # The provider does not know the checkout.
    UNKNOWN = "UNKNOWN"


class PromptFailure(StrEnum):
    """Why a prompt on the payer's phone ended without a payment."""

    CANCELLED = "CANCELLED"
    NO_MONEY = "NO_MONEY"
    WRONG_PIN = "WRONG_PIN"
    TIMED_OUT = "TIMED_OUT"
    # The phone is off or out of reach, or has no M-Pesa.
    NOT_REACHED = "NOT_REACHED"
    # The phone has another payment in progress.
    BUSY = "BUSY"
    # The provider sent no prompt.
    NOT_SENT = "NOT_SENT"


class RefundState(StrEnum):
    PENDING = "PENDING"
    DONE = "DONE"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class CheckoutRequest:
    """A checkout to open.

    `reference` is ours and unique: letters, digits and `-`. A repeat with the same
    reference must not make a second checkout. `email` is "" if the payer gave none.
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
    """The page where the payer pays; `session` is the provider's id of it, or ""."""

    url: str
    session: str


class DisputeState(StrEnum):
    OPEN = "OPEN"
    WON = "WON"
    # The payer's bank has taken the money.
    LOST = "LOST"


@dataclass(frozen=True, slots=True)
class DisputeSnapshot:
    """The present state of a dispute in the provider's books."""

    # The provider's id of the dispute.
    dispute: str
    transaction: str
    state: DisputeState
    amount: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class CheckoutSnapshot:
    """The present state of a checkout, from the provider's API.

    `amount` and `currency` are the payment for the order, without fees on top. A refund
    names the `transaction`. Only a PAID or REVERSED checkout has these three.
    """

    state: CheckoutState
    amount: Decimal | None = None
    currency: str | None = None
    transaction: str = ""
    # The provider's words for staff, at most 200 characters.
    message: str = ""
    # Set for a FAILED prompt if the provider's words tell the reason.
    failure: PromptFailure | None = None
    # Both are None if they are unknown, as for a checkout that is not PAID or REVERSED.
    # `refunded` counts the refunds that staff made in the provider's dashboard too.
    refunded: Decimal | None = field(default=None, compare=False)
    disputes: tuple[DisputeSnapshot, ...] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RefundRequest:
    """A refund to make; a repeat with the same `reference` makes no second refund."""

    reference: str
    checkout_reference: str
    transaction: str
    amount: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class RefundSnapshot:
    state: RefundState
    # The provider's id of the refund.
    refund: str
    message: str = ""
    # A PENDING refund that needs a decision in the provider's dashboard.
    needs_somebody: bool = False


@dataclass(frozen=True, slots=True)
class ProviderEvent:
    """An event with a valid signature: a hint to poll the checkout, not a proof.

    Repeats of an event have the same `event_id`. `reference` is our checkout's, or ""
    if the event names only the provider's `transaction` or is about something else.
    """

    event_id: str
    type: str
    reference: str
    transaction: str = ""
    # The payer's bank takes the money back, or may.
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
    """A refund from any origin in the provider's books; failed refunds are left out."""

    # The provider's id of the refund.
    refund: str
    transaction: str
    amount: Decimal
    currency: str
    # Words of the request; our reference is among them if we made it.
    words: frozenset[str]


class CheckoutProvider(ABC):
    """The adapter of a payment provider."""

    name: ClassVar[str]
    payment_methods: ClassVar[tuple[PaymentMethod, ...]] = ()
    # The smallest amounts by currency; a currency without one has no minimum.
    MINIMUMS: ClassVar[Mapping[str, Decimal]] = {}

    def __init__(
        self, checkout_origin: str = "", minimum: Decimal | None = None
    ) -> None:
        """Set scheme and host of the provider's pages, to which our forms may lead.

        `minimum` is the smallest amount of shillings, if it is configured.
        """
        self.checkout_origin = checkout_origin
        self.minimums = {**self.MINIMUMS, **({"KES": minimum} if minimum else {})}

    @abstractmethod
    def begin(self, request: CheckoutRequest) -> CheckoutPage:
        """Open the checkout. Raises Refused if our reference was used before."""

    def can_prompt(self, amount: Decimal, currency: str) -> bool:
        """Return whether `send_prompt` supports this amount."""
        return False

    def send_prompt(self, request: CheckoutRequest, phone: str) -> CheckoutSnapshot:
        """Send a prompt to this phone (E.164): OPEN until the payer answers.

        `look` returns its later state. A repeat with the same reference must not send a
        second prompt.
        """
        raise Refused("PROMPT_NOT_SUPPORTED", "The provider sends no prompts.")

    @abstractmethod
    def look(self, reference: str, session: str) -> CheckoutSnapshot:
        """Poll the checkout. `session` is "" if the answer of `begin` was lost."""

    @abstractmethod
    def refund(self, asked: RefundRequest) -> RefundSnapshot: ...

    @abstractmethod
    def poll_refund(self, asked: RefundRequest, refund: str) -> RefundSnapshot | None:
        """Return the refund's state, or None if the provider knows no such refund.

        If `refund` is "", the adapter searches for our reference.
        """

    @abstractmethod
    def read_event(self, body: bytes, headers: Mapping[str, str]) -> ProviderEvent:
        """Return the event. Raises BadSignature. Ignores the case of headers."""

    @abstractmethod
    def payments_between(
        self, start: datetime, end: datetime
    ) -> Iterator[ProviderPayment]:
        """Yield every payment in the provider's books from `start` to before `end`."""

    @abstractmethod
    def refunds_between(
        self, start: datetime, end: datetime
    ) -> Iterator[ProviderRefund]:
        """Yield every refund made from `start` to before `end`."""

    @abstractmethod
    def refunds_of(self, transaction: str) -> Iterator[ProviderRefund]:
        """Yield every refund of one payment."""

    @abstractmethod
    def disputes_between(
        self, start: datetime, end: datetime
    ) -> Iterator[DisputeSnapshot]:
        """Yield every dispute opened from `start` to before `end`."""

    @abstractmethod
    def disputes_of(self, transaction: str) -> Iterator[DisputeSnapshot]:
        """Yield every dispute about one payment."""

    def expire(self, reference: str, session: str) -> None:  # noqa: B027
        """Close the checkout to payments, if the provider supports that."""

    def _page(self, url: Any, session: str) -> CheckoutPage:
        """Raise Refused if our forms may not lead to the page's origin."""
        if not str(url).startswith(f"{self.checkout_origin}/"):
            why = "The provider's page is not where the configuration says."
            raise Refused("CHECKOUT_ELSEWHERE", why)
        return CheckoutPage(str(url), session)

    def _paid_snapshot(
        self,
        state: CheckoutState,
        amount: Decimal,
        currency: str,
        transaction: str,
        message: str = "",
    ) -> CheckoutSnapshot:
        """Return the snapshot with the payment's refunds and disputes.

        If the provider fails to tell these, the payment itself is known all the same.
        """
        refunded = disputes = None
        with suppress(ProviderError):
            refunds = self.refunds_of(transaction)
            refunded = sum((refund.amount for refund in refunds), Decimal(0))
        with suppress(ProviderError):
            disputes = tuple(self.disputes_of(transaction))
        return CheckoutSnapshot(
            state,
            amount,
            currency,
            transaction,
            message,
            refunded=refunded,
            disputes=disputes,
        )


def already_begun_error() -> Refused:
    why = "The reference was used before; its page cannot be had again."
    return Refused("CHECKOUT_ALREADY_BEGUN", why)


def is_mpesa_amount(amount: Decimal, currency: str) -> bool:
    """Return whether M-Pesa takes the amount: whole shillings, up to its limit."""
    is_whole = amount == amount.to_integral_value()
    return currency == "KES" and is_whole and 1 <= amount <= MPESA_LIMIT


def header(headers: Mapping[str, str], name: str) -> str:
    """Return a header's value, or "". The case of names does not matter."""
    found = (value for key, value in headers.items() if key.lower() == name)
    return next(found, "")


def to_cents(amount: Decimal, currency: str) -> int:
    """Return the amount in cents. Raises Refused if it has no exact number of cents."""
    if currency in WITHOUT_CENTS:
        raise Refused("CURRENCY_NOT_SUPPORTED", f"{currency} is not supported.")
    cents = amount * 100
    if not amount.is_finite() or cents <= 0 or cents != cents.to_integral_value():
        raise Refused("AMOUNT_NOT_SUPPORTED", "The amount must be in whole cents.")
    return int(cents)


def from_cents(cents: Any) -> Decimal:
    """Convert cents, which some providers write as text, to an amount."""
    if isinstance(cents, str) and cents.isascii() and cents.isdigit():
        cents = int(cents)
    if not isinstance(cents, int) or isinstance(cents, bool):
        raise Unavailable(
            "SOURCE_UNAVAILABLE", "The provider's amount is not in whole cents."
        )
    return Decimal(cents).scaleb(-2)
