"""The top-up page: anybody with the link can pay into the account.

It shows the workspace's name, and neither balance nor entries.
"""

import re
from decimal import Decimal
from typing import Any
from uuid import UUID

from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from verification import links
from verification.hosted import payment
from verification.hosted.hosted_pages import (
    HostedPages,
    VisitCookie,
    hosted,
    render_page,
    require_rate,
    see_other,
)
from verification.hosted.payment import ProviderReturn
from verification.payments import checkouts
from verification.payments.models import Checkout
from verification.payments.registry import NoPaymentProvider
from verification.web.pages import allow_sources, read_id
from workspaces.models import Account

TOP_UPS_PER_MINUTE = 30
# Actor of the ledger entry.
ACTOR = "top-up page"


class AmountForm(forms.Form):
    """`10000`, `10,000` and `10 000.00` are the same amount."""

    amount = forms.CharField(
        max_length=20, error_messages={"required": _("Enter an amount")}
    )

    def __init__(self, account: Account, *typed: Any) -> None:
        super().__init__(*typed)
        self.account = account

    def clean_amount(self) -> Decimal:
        typed = self.cleaned_data["amount"]
        # Decimal() also takes "1e5", "NaN" and digits of other scripts. A comma before
        # two digits may stand for a point, so that one is refused.
        if not re.fullmatch(
            r"([0-9]{1,9}|[0-9]{1,3}([, ][0-9]{3}){1,2})(\.[0-9]{1,2})?", typed
        ):
            raise forms.ValidationError(_("Enter the amount in numbers, such as 5000"))
        amount = Decimal(re.sub(r"[, ]", "", typed))
        least, currency = checkouts.minimum_top_up(self.account), self.account.currency
        if amount < least:
            message = _("Enter at least %(least)s")
            params = {"least": payment.format_money(least, currency)}
            raise forms.ValidationError(message, params=params)
        if amount > checkouts.MAX_TOP_UP:
            message = _("Enter at most %(most)s")
            params = {"most": payment.format_money(checkouts.MAX_TOP_UP, currency)}
            raise forms.ValidationError(message, params=params)
        return amount


class TopUpPages(HostedPages[Account]):
    cookie = VisitCookie("/t/v/", "hosted.top-up", seconds=3600)
    over = "payment/over"
    conflicts = (checkouts.PaymentClosed, Account.DoesNotExist)

    def find(self, request: HttpRequest, row: UUID) -> Account | None:
        if self.cookie.value_of(request, row) is None:
            return None
        return Account.objects.select_related("workspace").get(pk=row)


pages = TopUpPages()


@require_safe
@hosted
def open_link(request: HttpRequest, account: UUID, token: str) -> HttpResponse:
    """Take the token out of the address bar; nothing else happens."""
    is_right = links.is_token(token, "top-up", account)
    if not is_right or not Account.objects.filter(pk=account).exists():
        return render_page(request, "unknown", status=404)
    return pages.remember(account, pages.visit_by_link(1))


@pages.visit_required
def show(request: HttpRequest, account: Account) -> HttpResponse:
    """Show the form; a POST redirects to the provider's page."""
    if account.workspace.is_suspended:
        return render_page(request, "payment/suspended", _base_context(account))
    if request.method != "POST":
        return _form(request, account, AmountForm(account))
    form = AmountForm(account, request.POST)
    if not form.is_valid():
        return _form(request, account, form)
    require_rate(f"checkouts:{account.pk}", TOP_UPS_PER_MINUTE)
    try:
        checkout = checkouts.open_top_up(account, form.cleaned_data["amount"], ACTOR)
        return see_other(checkouts.open_at_provider(checkout, get_language() or "en"))
    except (checkouts.CheckoutNotOpened, NoPaymentProvider):
        return pages.redirect(account.pk, "?unavailable")


return_view = payment.make_return_view(
    lambda row, checkout, query: f"{pages.path_of(row)}paid?back={checkout}&{query}"
)


@pages.read
def paid(request: HttpRequest, account: Account) -> HttpResponse:
    """Show the state of the checkout that the payer comes back from."""
    came_back = _find_return(request, account)
    if came_back is None:
        return pages.redirect(account.pk)
    checkout = came_back.checkout
    shown = {
        **_base_context(account),
        "checkout": checkout,
        "amount": payment.format_money(checkout.amount, checkout.currency),
        "paid_amount": payment.format_money(
            checkout.paid_amount, checkout.paid_currency
        ),
        "given_back": payment.refund_lines(checkout),
        "is_asked": came_back.is_asked,
        "query": request.META.get("QUERY_STRING", ""),
        "state": _state(came_back).content.decode(),
    }
    return payment.allow_script(render_page(request, "top_up/paid", shown))


@pages.read
def state(request: HttpRequest, account: Account) -> HttpResponse:
    """Answer the script of a waiting page, and poll the provider again."""
    came_back = _find_return(request, account)
    if came_back is None:
        return payment.state_response("unknown")
    return payment.poll_again(request, came_back.checkout, _state(came_back))


def _state(came_back: ProviderReturn) -> HttpResponse:
    return payment.state_response(came_back.checkout.status, came_back.is_asked)


def _find_return(request: HttpRequest, account: Account) -> ProviderReturn | None:
    checkout_id = read_id(request.GET.get("back", ""))
    if checkout_id is None:
        return None
    checkout = Checkout.objects.filter(pk=checkout_id, account=account).first()
    return ProviderReturn(checkout, payment.since(request)) if checkout else None


def _form(request: HttpRequest, account: Account, form: AmountForm) -> HttpResponse:
    shown = {
        **_base_context(account),
        "form": form,
        "provider": payment.provider_label(account.environment),
        "ways": payment.payment_methods_text(account.environment),
        "least": payment.format_money(
            checkouts.minimum_top_up(account), account.currency
        ),
        "most": payment.format_money(checkouts.MAX_TOP_UP, account.currency),
        "unavailable": "unavailable" in request.GET,
    }
    response = render_page(request, "top_up/form", shown)
    allow_sources(response, form_action=[payment.checkout_origin(account.environment)])
    return response


def _base_context(account: Account) -> dict[str, Any]:
    return {
        **payment.base_context(account.workspace, account.environment),
        "account": account,
        "path": pages.path_of(account.pk),
    }
