"""The page on which a person asks for links to all that is held about them."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import get_language
from django.views.decorators.http import require_safe

from verification.db.encryption import keyed_hash
from verification.hosted import forms
from verification.hosted.hosted_pages import (
    ASK_OR_DO,
    RateLimited,
    hosted,
    render_page,
    require_address_rate,
    see_other,
)
from verification.notifications.models import Channel
from verification.notifications.recipients import count_today
from verification.notifications.sms import sms_is_configured
from verification.privacy.my_data import Typed, ask_for_data
from verification.web.request import client_address
from workspaces import rate_limits

# Limits of valid forms for one client address
REQUESTS_PER_MINUTE = 5
REQUESTS_PER_DAY = 50
# The limit for all: a flood from many addresses must not fill the register.
ALL_REQUESTS_PER_DAY = 10_000


@ASK_OR_DO
@hosted
def show(request: HttpRequest) -> HttpResponse:
    """Take the request. The answer is the same whether or not anything is known."""
    if request.method != "POST":
        return _render_form(request, forms.MyDataForm())
    form = forms.MyDataForm(request.POST)
    if not form.is_valid():
        return _render_form(request, form)
    try:
        _require_rates(request)
    except RateLimited:
        return render_page(request, "too_many", status=429)
    channel, address = form.cleaned_data["address"]
    ask_for_data(
        Typed(
            form.cleaned_data["country"],
            form.cleaned_data["number"],
            Channel(channel),
            address,
            get_language() or "en",
        )
    )
    return see_other(reverse("my-data-sent"))


@require_safe
@hosted
def sent(request: HttpRequest) -> HttpResponse:
    """Show the same confirmation after each request, so that it reveals nothing."""
    return render_page(request, "my_data_sent")


def _render_form(request: HttpRequest, form: forms.MyDataForm) -> HttpResponse:
    context = {"form": form, "has_sms": sms_is_configured()}
    return render_page(request, "my_data", context)


def _require_rates(request: HttpRequest) -> None:
    """Raise RateLimited above the limits of the client address and of a day."""
    require_address_rate(request, "my-data", REQUESTS_PER_MINUTE)
    # The /48 that one customer may have holds 65,536 networks of a client.
    visitor = rate_limits.network_of(str(client_address(request)), ipv6_bytes=6)
    network = keyed_hash("my-data", visitor).hex()
    if not count_today(f"my-data:from:{network}"[:100], REQUESTS_PER_DAY):
        raise RateLimited
    if not count_today("my-data:all", ALL_REQUESTS_PER_DAY):
        raise RateLimited
