"""Where a payment is for who opened its link: which page answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from verification.ordering.looking import is_being_asked
from verification.ordering.paying import SOURCES_CHANGED, closed_as
from verification.payments.models import (
    Checkout,
    CheckoutStatus,
    Payment,
    PaymentStatus,
)
from verification.providers.checkout import PromptFailure


class Stage(StrEnum):
    DUE = "due"
    # Some came, and not all of it.
    PART = "part"
    # A person looks at what came.
    EXAMINED = "examined"
    WAITS = "waits"
    # The payer has come back, and the provider has not been asked since.
    CONFIRMING = "confirming"
    # An M-Pesa prompt waits on the payer's phone.
    PROMPTED = "prompted"
    FAILED = "failed"
    PAID = "paid"
    REFUNDED = "refunded"
    EXPIRED = "expired"
    SUSPENDED = "suspended"
    # A check can no longer be made as the subject agreed.
    SOURCES_CHANGED = "sources_changed"
    REPLACED = "replaced"
    ENDED = "ended"


# What `closed_as` says; whatever else it says, the report has ended.
CLOSED = {
    "WAITS_FOR_CONSENT": Stage.WAITS,
    "REPLACED": Stage.REPLACED,
    PaymentStatus.EXPIRED: Stage.EXPIRED,
    "SUSPENDED": Stage.SUSPENDED,
    SOURCES_CHANGED: Stage.SOURCES_CHANGED,
    "EXAMINED": Stage.EXAMINED,
}
# Other than 200: the link leads nowhere any more.
STATUSES = {Stage.EXPIRED: 410, Stage.REPLACED: 410, Stage.ENDED: 410}
# At these the page has the button to pay.
PAYABLE = frozenset({Stage.DUE, Stage.PART, Stage.FAILED})
TO_BE_ASKED = PAYABLE | {Stage.EXPIRED, Stage.SUSPENDED, Stage.SOURCES_CHANGED}


@dataclass(frozen=True, slots=True)
class Return:
    """A payer has come back from this checkout, to be told by what we hear `since`."""

    checkout: Checkout
    since: datetime

    @property
    def is_looked_at(self) -> bool:
        """The provider was asked after the payer came back; it stays so."""
        asked_at = self.checkout.looked_at
        return asked_at is not None and asked_at >= self.since

    @property
    def is_asked(self) -> bool:
        """The provider is being asked, and has not answered since."""
        checkout = self.checkout
        # A payer may have answered a prompt at the last moment.
        is_open = checkout.status == CheckoutStatus.OPEN
        is_late = checkout.failure == PromptFailure.TIMED_OUT
        if not (is_open or is_late) or not checkout.next_look_at:
            return False
        if not self.is_looked_at or checkout.unanswered:
            return True
        return is_being_asked(checkout)


def stage_of(
    payment: Payment,
    generation: int,
    came_back: Return | None,
    at: datetime,
    *,
    has_parts: bool = False,
) -> Stage:
    # Who has paid sees it whatever link was sent meanwhile.
    if payment.status == PaymentStatus.PAID:
        return Stage.PAID
    if payment.status == PaymentStatus.REFUNDED:
        return Stage.REFUNDED
    closed = closed_as(payment.report, payment, generation, at)
    failed = payment.status == PaymentStatus.FAILED
    stage = Stage.PART if has_parts else Stage.FAILED if failed else Stage.DUE
    if closed:
        stage = CLOSED.get(closed, Stage.ENDED)
    if came_back and stage in TO_BE_ASKED:
        if came_back.checkout.is_waiting_prompt:
            return Stage.PROMPTED
        if came_back.is_asked:
            return Stage.CONFIRMING
    return stage
