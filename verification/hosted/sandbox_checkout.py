"""The checkout page of the sandbox's payment provider, with a button for each ending.

Like a provider, it ends the checkout in its own tables, sends an event to the service,
and redirects the payer back. It opens no checkout of production.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import ROUND_UP, Decimal
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from verification.db.ids import uuid7
from verification.hosted.hosted_pages import hosted, render_page, see_other
from verification.hosted.payment_page import format_money
from verification.payments import checkouts
from verification.payments.models import Checkout, SandboxCheckout
from verification.payments.provider_events import record_provider_event
from verification.payments.sandbox_provider import SandboxProvider, end_sandbox_checkout
from verification.providers.payment_provider import (
    CheckoutState,
    PromptFailure,
    ProviderEvent,
)
from verification.web.pages import allow_sources
from workspaces.models import Environment

PAID, FAILED = CheckoutState.PAID, CheckoutState.FAILED
CANCELLED = CheckoutState.CANCELLED
OUTCOMES = {"fail": FAILED, "cancel": CANCELLED}
# Buttons that pay another amount than the checkout's.
AMOUNTS: dict[str, Callable[[Decimal], Decimal]] = {
    "more": lambda amount: amount + 1,
    "less": lambda amount: (amount / 2).quantize(Decimal("0.01"), ROUND_UP),
}
CHOICES = {"pay", "twice", "lost", *AMOUNTS, *OUTCOMES}
# Buttons of a prompt that pay nothing.
PROMPT_OUTCOMES = {
    "cancel": PromptFailure.CANCELLED,
    "no-money": PromptFailure.NO_MONEY,
    "wrong-pin": PromptFailure.WRONG_PIN,
    "not-reached": PromptFailure.NOT_REACHED,
}
PROMPT_CHOICES = {"pay", "lost", *PROMPT_OUTCOMES}
NAME = SandboxProvider.name


@require_http_methods(["GET", "HEAD", "POST"])
@hosted
def show(request: HttpRequest, reference: UUID) -> HttpResponse:
    checkout = Checkout.objects.filter(
        pk=reference, provider=NAME, environment=Environment.SANDBOX
    ).first()
    known = SandboxCheckout.objects.filter(pk=str(reference)).first()
    if checkout is None or known is None:
        raise Http404
    choice = request.POST.get("choice", "")
    choices = PROMPT_CHOICES if checkout.is_prompt else CHOICES
    if request.method == "POST" and choice in choices:
        return see_other(_play_choice(checkout, known, choice))
    response = render_page(
        request, "sandbox_checkout/checkout", _page_context(checkout, known)
    )
    # The form redirects to BASE_URL, even if this page was opened by another host name.
    allow_sources(response, form_action=[settings.BASE_URL])
    return response


def _page_context(checkout: Checkout, known: SandboxCheckout) -> dict[str, Any]:
    return {
        "amount": format_money(known.amount, known.currency),
        "description": known.description,
        "state": known.state,
        "is_prompt": checkout.is_prompt,
        "return_url": known.return_url,
        # A second top-up is just another top-up.
        "can_be_paid_twice": checkout.payment_id is not None,
    }


def _play_choice(checkout: Checkout, known: SandboxCheckout, choice: str) -> str:
    """Play the ending of this button; return the URL for the payer."""
    if checkout.is_prompt:
        return _play_prompt(known, choice)
    state = OUTCOMES.get(choice, PAID)
    beside = _open_second_checkout(checkout, known) if choice == "twice" else None
    pays = AMOUNTS[choice](known.amount) if choice in AMOUNTS else None
    end_sandbox_checkout(known.reference, state, pays=pays)
    if choice != "lost":
        _send_event(known.reference, state, times=2 if choice == "twice" else 1)
    if beside:
        end_sandbox_checkout(beside.reference, PAID)
        _send_event(beside.reference, PAID, times=2)
    return known.cancel_url if choice == "cancel" else known.return_url


def _play_prompt(known: SandboxCheckout, choice: str) -> str:
    """Play the payer's phone, which sends an event only for a success."""
    if failure := PROMPT_OUTCOMES.get(choice):
        end_sandbox_checkout(known.reference, FAILED, failure=failure)
    elif end_sandbox_checkout(known.reference, PAID) and choice != "lost":
        _send_event(known.reference, PAID, times=1)
    return known.return_url


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


def _send_event(reference: str, state: CheckoutState, *, times: int) -> None:
    """Send the same event this many times."""
    event = ProviderEvent(str(uuid7()), f"checkout.{state.lower()}", reference)
    body = {"id": event.event_id, "type": event.type, "reference": reference}
    for _ in range(times):
        record_provider_event(NAME, event, json.dumps(body).encode())
