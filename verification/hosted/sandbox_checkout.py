"""The checkout page of the sandbox's payment provider, with a button for each ending.

`sandbox/payments.py` plays the choice; then the page redirects the payer back, as a
provider's does. It opens no checkout of production.
"""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse

from verification.hosted.hosted_pages import ASK_OR_DO, hosted, render_page, see_other
from verification.hosted.payment import format_money
from verification.payments.models import Checkout, SandboxCheckout
from verification.sandbox.payments import NAME, choices_of, play_choice
from verification.web.pages import allow_sources
from workspaces.models import Environment


@ASK_OR_DO
@hosted
def show(request: HttpRequest, reference: UUID) -> HttpResponse:
    checkout = Checkout.objects.filter(
        pk=reference, provider=NAME, environment=Environment.SANDBOX
    ).first()
    known = SandboxCheckout.objects.filter(pk=str(reference)).first()
    if checkout is None or known is None:
        raise Http404
    choice = request.POST.get("choice", "")
    if request.method == "POST" and choice in choices_of(checkout):
        play_choice(checkout, known, choice)
        leaves = choice == "cancel" and not checkout.is_prompt
        return see_other(known.cancel_url if leaves else known.return_url)
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
