"""The payer's choices at the sandbox's payment provider, on its page and by the API.

Like a real provider, it ends the checkout in its own tables and sends an event to the
service. `act_as_payer` also settles the payment at once, so that the answer shows the
outcome.
"""

import json
from collections.abc import Callable
from decimal import ROUND_UP, Decimal
from enum import StrEnum
from uuid import UUID

from django.db import transaction

from verification.db.ids import uuid7
from verification.payments import checkouts
from verification.payments.disputes import lock_checkout, record_disputes
from verification.payments.links import payment_links
from verification.payments.models import (
    Checkout,
    CheckoutKind,
    CheckoutStatus,
    Payment,
    PaymentStatus,
    SandboxCheckout,
)
from verification.payments.provider_events import record_provider_event
from verification.payments.refunds import refund_play_money
from verification.payments.registry import provider_named
from verification.payments.sandbox_provider import SandboxProvider, end_sandbox_checkout
from verification.payments.settlement import settle
from verification.providers.payment_provider import (
    CheckoutSnapshot,
    CheckoutState,
    PromptFailure,
    ProviderEvent,
)
from verification.sandbox.reports import NotPossible, lock_sandbox_report
from verification.values.clock import now
from workspaces.models import Client

NAME = SandboxProvider.name
PAID, FAILED = CheckoutState.PAID, CheckoutState.FAILED
CANCELLED = CheckoutState.CANCELLED
OUTCOMES = {"fail": FAILED, "cancel": CANCELLED}
# Choices that pay another amount than the checkout's.
AMOUNTS: dict[str, Callable[[Decimal], Decimal]] = {
    "more": lambda amount: amount + 1,
    "less": lambda amount: (amount / 2).quantize(Decimal("0.01"), ROUND_UP),
}
CHOICES = {"pay", "twice", "lost", *AMOUNTS, *OUTCOMES}
# Choices on the phone of a prompt that pay nothing.
PROMPT_OUTCOMES = {
    "cancel": PromptFailure.CANCELLED,
    "no-money": PromptFailure.NO_MONEY,
    "wrong-pin": PromptFailure.WRONG_PIN,
    "not-reached": PromptFailure.NOT_REACHED,
}
PROMPT_CHOICES = {"pay", "lost", *PROMPT_OUTCOMES}


class PaymentAction(StrEnum):
    PAY = "pay"
    FAIL = "fail"
    CANCEL = "cancel"
    MORE = "more"
    LESS = "less"
    TWICE = "twice"
    REFUND = "refund"
    DISPUTE = "dispute"
    EXPIRE = "expire"


A = PaymentAction
PAYING = [A.PAY, A.FAIL, A.CANCEL, A.MORE, A.LESS, A.TWICE]


def choices_of(checkout: Checkout) -> set[str]:
    return PROMPT_CHOICES if checkout.is_prompt else CHOICES


def play_choice(checkout: Checkout, known: SandboxCheckout, choice: str) -> None:
    """End the checkout as the payer chooses, one of `choices_of`."""
    if checkout.is_prompt:
        _play_prompt(known, choice)
        return
    state = OUTCOMES.get(choice, PAID)
    beside = _open_second_checkout(checkout, known) if choice == "twice" else None
    pays = AMOUNTS[choice](known.amount) if choice in AMOUNTS else None
    end_sandbox_checkout(known.reference, state, pays=pays)
    if choice != "lost":
        _send_event(known.reference, state, times=2 if choice == "twice" else 1)
    if beside:
        end_sandbox_checkout(beside.reference, PAID)
        _send_event(beside.reference, PAID, times=2)


def _play_prompt(known: SandboxCheckout, choice: str) -> None:
    """Play the payer's phone, which sends an event only for a success."""
    if failure := PROMPT_OUTCOMES.get(choice):
        end_sandbox_checkout(known.reference, FAILED, failure=failure)
    elif end_sandbox_checkout(known.reference, PAID) and choice != "lost":
        _send_event(known.reference, PAID, times=1)


def _open_second_checkout(
    checkout: Checkout, known: SandboxCheckout
) -> Checkout | None:
    """Open another checkout of the payment, as a payer with two tabs does."""
    payment = getattr(checkout.report, "payment", None)
    if known.state == PAID or payment is None or payment.pk != checkout.payment_id:
        return None
    try:
        other = checkouts.open_checkout(payment.pk, payment.generation, beside=True)
    except checkouts.PaymentClosed:
        return None
    checkouts.open_at_provider(other, checkout.language)
    return other


def _send_event(reference: str, state: str, *, times: int) -> None:
    """Send the same event this many times."""
    event = ProviderEvent(str(uuid7()), f"checkout.{state.lower()}", reference)
    body = {"id": event.event_id, "type": event.type, "reference": reference}
    for _ in range(times):
        record_provider_event(NAME, event, json.dumps(body).encode())


@transaction.atomic
def act_as_payer(client: Client, report_id: UUID, action: PaymentAction) -> None:
    """Act as the report's payer or their bank, or let the time to pay run out.

    Opens a checkout if the payer has none. All of it is one transaction, as the
    sandbox's provider is in our database. Raises NotPossible, and Report.DoesNotExist.
    """
    report = lock_sandbox_report(client, report_id)
    payments = Payment.objects.select_for_update(no_key=True)
    payment = payments.filter(report=report).first()
    if payment is None:
        raise NotPossible("The report has no payer.")
    prompt = _waiting_prompt(payment)
    closed = checkouts.closed_reason(report, payment, payment.generation, now())
    possible = _possible_actions(payment, closed, prompt)
    if action not in possible:
        if closed == "WAITS_FOR_CONSENT":
            raise NotPossible("Payment follows the subject's consent.")
        if closed == PaymentStatus.PAID and not possible:
            raise NotPossible(
                "The service refunded the payment, or the payer's bank holds it."
            )
        reused = report.results.filter(reused_from_id__isnull=False)
        if closed == PaymentStatus.NOT_REQUIRED and reused.exists():
            raise NotPossible(
                "No payment is due, because the report reuses earlier results. "
                'Order with "reuse": false to run its checks at their price.'
            )
        raise NotPossible(
            f"The payment is {closed or payment.status} and the report is "
            f"{report.status}.",
            possible,
        )
    match action:
        case A.EXPIRE:
            expire_payment(payment)
        case A.REFUND:
            for checkout in _refundable_checkouts(payment):
                refund_play_money(checkout)
        case A.DISPUTE:
            for checkout in _refundable_checkouts(payment):
                _dispute(checkout)
        case _:
            checkout = prompt or _open_checkout(payment)
            known = SandboxCheckout.objects.filter(pk=checkout.reference).first()
            if known is None:
                raise NotPossible("The prompt is being sent. Try again.", [A.EXPIRE])
            play_choice(checkout, known, action)
            _settle_open_checkouts(payment)


def _possible_actions(
    payment: Payment, closed: str | None, prompt: Checkout | None
) -> list[PaymentAction]:
    if closed is None:
        return [*([A.PAY, A.CANCEL] if prompt else PAYING), A.EXPIRE]
    is_paid = payment.status == PaymentStatus.PAID
    return [A.REFUND, A.DISPUTE] if is_paid and _refundable_checkouts(payment) else []


def _refundable_checkouts(payment: Payment) -> list[Checkout]:
    """Return the checkouts that paid, locked, if they have money left."""
    paying = Checkout.objects.paying(payment.pk).order_by("pk")
    locked = [lock_checkout(pk) for pk in paying.values_list("pk", flat=True)]
    return [checkout for checkout in locked if checkout.refundable]


def _waiting_prompt(payment: Payment) -> Checkout | None:
    waiting = Checkout.objects.filter(
        payment_id=payment.pk, kind=CheckoutKind.PROMPT, status=CheckoutStatus.OPEN
    )
    return waiting.first()


def _open_checkout(payment: Payment) -> Checkout:
    checkout = checkouts.open_checkout(payment.pk, payment.generation)
    if not checkout.url:
        checkouts.open_at_provider(checkout, "en")
    return checkout


def _settle_open_checkouts(payment: Payment) -> None:
    opened = Checkout.objects.filter(
        payment_id=payment.pk, status=CheckoutStatus.OPEN
    ).order_by("pk")
    for checkout in opened:
        provider = provider_named(checkout.provider)
        settle(checkout.pk, provider.look(checkout.reference, checkout.session))


def expire_payment(payment: Payment) -> None:
    """End the unfinished checkouts, and then the link, which outlives them."""
    for checkout in Checkout.objects.unfinished(payment.pk).order_by("pk"):
        end_sandbox_checkout(checkout.reference, CheckoutState.EXPIRED)
        snapshot = provider_named(NAME).look(checkout.reference, checkout.session)
        if snapshot.state == CheckoutState.UNKNOWN:
            # Its page is about to open.
            snapshot = CheckoutSnapshot(CheckoutState.EXPIRED)
        settle(checkout.pk, snapshot)
    Payment.objects.filter(pk=payment.pk).update(expires_at=now())
    payment_links.expire(payment.pk)


def _dispute(checkout: Checkout) -> None:
    """Let the payer's bank dispute the whole payment."""
    known = SandboxCheckout.objects.filter(pk=checkout.reference)
    known.update(disputed_at=now())
    _send_event(checkout.reference, "disputed", times=1)
    snapshot = provider_named(checkout.provider).look(checkout.reference, "")
    record_disputes(checkout.pk, snapshot.disputes or ())
