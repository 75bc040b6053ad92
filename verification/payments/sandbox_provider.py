"""The built-in payment provider of the sandbox, which takes play money.

Its checkout page and the API play every ending through `end_sandbox_checkout`, both by
`sandbox/payments.py`. It reads and writes only `SandboxCheckout`, as a real provider
keeps books of its own.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal

from django.conf import settings
from django.db import transaction

from verification.payments.models import SandboxCheckout
from verification.providers.base import Refused
from verification.providers.payment_provider import (
    BadSignature,
    CheckoutPage,
    CheckoutProvider,
    CheckoutRequest,
    CheckoutSnapshot,
    CheckoutState,
    DisputeSnapshot,
    DisputeState,
    PromptFailure,
    ProviderEvent,
    ProviderPayment,
    ProviderRefund,
    RefundRequest,
    RefundSnapshot,
    RefundState,
    is_mpesa_amount,
)
from verification.values.clock import now


class SandboxProvider(CheckoutProvider):
    """Its page is one of ours, has buttons in place of methods, and takes any amount.

    It has no dashboard, so that all its refunds are ours. A client of the API disputes
    a payment as the payer's bank would.
    """

    name = "sandbox"

    def begin(self, request: CheckoutRequest) -> CheckoutPage:
        self._store(request)
        url = f"{settings.BASE_URL}/sandbox/checkout/{request.reference}"
        return CheckoutPage(url, session="")

    def can_prompt(self, amount: Decimal, currency: str) -> bool:
        return is_mpesa_amount(amount, currency)

    def send_prompt(self, request: CheckoutRequest, phone: str) -> CheckoutSnapshot:
        """Store the prompt, which the checkout page answers with its buttons."""
        self._store(request)
        return CheckoutSnapshot(CheckoutState.OPEN)

    def _store(self, request: CheckoutRequest) -> None:
        SandboxCheckout.objects.get_or_create(
            reference=request.reference,
            defaults={
                "amount": request.amount,
                "currency": request.currency,
                "description": request.description[:200],
                "return_url": request.return_url,
                "cancel_url": request.cancel_url,
            },
        )

    def look(self, reference: str, session: str) -> CheckoutSnapshot:
        checkout = SandboxCheckout.objects.filter(pk=reference).first()
        if checkout is None:
            return CheckoutSnapshot(CheckoutState.UNKNOWN)
        state = CheckoutState(checkout.state)
        if state != CheckoutState.PAID:
            failure = PromptFailure(checkout.failure) if checkout.failure else None
            return CheckoutSnapshot(state, failure=failure)
        return CheckoutSnapshot(
            state,
            checkout.paid_amount,
            checkout.currency,
            f"sandbox-{reference}",
            disputes=tuple(_disputes(checkout)),
        )

    @transaction.atomic
    def refund(self, request: RefundRequest) -> RefundSnapshot:
        checkouts = SandboxCheckout.objects.select_for_update()
        checkout = checkouts.filter(pk=request.checkout_reference).first()
        if checkout is None or checkout.paid_amount is None:
            raise Refused("NOT_PAID", "There is no such payment in the sandbox.")
        checkout.refunds[request.reference] = str(request.amount)
        if sum(map(Decimal, checkout.refunds.values())) > checkout.paid_amount:
            raise Refused("TOO_MUCH", "More would be given back than was paid.")
        checkout.save(update_fields=["refunds"])
        return RefundSnapshot(RefundState.DONE, f"sandbox-{request.reference}")

    def poll_refund(self, request: RefundRequest, refund: str) -> RefundSnapshot | None:
        checkout = SandboxCheckout.objects.filter(pk=request.checkout_reference).first()
        if checkout is None or request.reference not in checkout.refunds:
            return None
        return RefundSnapshot(RefundState.DONE, f"sandbox-{request.reference}")

    def read_event(self, body: bytes, headers: Mapping[str, str]) -> ProviderEvent:
        # The sandbox sends no events, so every event that claims to be one is forged.
        raise BadSignature

    def payments_between(
        self, start: datetime, end: datetime
    ) -> Iterator[ProviderPayment]:
        paid = SandboxCheckout.objects.filter(paid_at__gte=start, paid_at__lt=end)
        for checkout in paid.order_by("paid_at").iterator():
            if checkout.paid_amount is None or checkout.paid_at is None:
                continue
            yield ProviderPayment(
                checkout.reference,
                f"sandbox-{checkout.reference}",
                checkout.paid_amount,
                checkout.currency,
                checkout.paid_at,
            )

    def refunds_between(
        self, start: datetime, end: datetime
    ) -> Iterator[ProviderRefund]:
        return iter(())

    def refunds_of(self, transaction: str) -> Iterator[ProviderRefund]:
        return iter(())

    def disputes_between(
        self, start: datetime, end: datetime
    ) -> Iterator[DisputeSnapshot]:
        disputed = SandboxCheckout.objects.filter(
            disputed_at__gte=start, disputed_at__lt=end
        )
        for checkout in disputed.order_by("disputed_at").iterator():
            yield from _disputes(checkout)

    def disputes_of(self, transaction: str) -> Iterator[DisputeSnapshot]:
        reference = transaction.removeprefix("sandbox-")
        for checkout in SandboxCheckout.objects.filter(pk=reference):
            yield from _disputes(checkout)


def _disputes(checkout: SandboxCheckout) -> Iterator[DisputeSnapshot]:
    if checkout.disputed_at and checkout.paid_amount is not None:
        yield DisputeSnapshot(
            f"sandbox-dispute-{checkout.reference}",
            f"sandbox-{checkout.reference}",
            DisputeState.OPEN,
            checkout.paid_amount,
            checkout.currency,
        )


def end_sandbox_checkout(
    reference: str,
    state: CheckoutState,
    *,
    pays: Decimal | None = None,
    failure: PromptFailure | None = None,
) -> bool:
    """End an open checkout as the payer chose, or pay one that has failed.

    `pays` replaces the amount request for, and `failure` says why a prompt failed.
    Returns False, and changes nothing, if the checkout is paid already or not stored
    yet.
    """
    with transaction.atomic():
        checkouts = SandboxCheckout.objects.select_for_update()
        checkout = checkouts.filter(pk=reference).first()
        if checkout is None or checkout.state == CheckoutState.PAID:
            return False
        checkout.state, checkout.failure = state, failure or ""
        if state == CheckoutState.PAID:
            checkout.paid_amount = checkout.amount if pays is None else pays
            checkout.paid_at = now()
        checkout.save()
    return True
