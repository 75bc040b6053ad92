"""Coming back from a payment provider, which by itself proves nothing.

The address to come back to only has the provider asked soon, and leads to a page that
tells what we know. The page's address says since when its reader waits.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils.timezone import now
from django.views.decorators.http import require_safe

from verification.hosted.pages import View, hosted, see_other
from verification.ordering.looking import look_soon
from verification.payments.models import Checkout
from verification.policy import allow

# Later than any moment that is meant.
LONGEST = 14
SCRIPTS = {"script_src": ["'self'"], "connect_src": ["'self'"]}


def back(page: Callable[[UUID, UUID, str], str]) -> View:
    """`page` makes the address of the page from row, checkout and query."""

    @require_safe
    @hosted
    def view(request: HttpRequest, row: UUID, checkout: UUID) -> HttpResponse:
        at = now()
        if not look_soon(checkout):
            # Asked within the last seconds: what was answered then is what is told.
            asked = Checkout.objects.filter(pk=checkout).values_list("looked_at")
            at = (asked.first() or (None,))[0] or at
        return see_other(page(row, checkout, f"since={int(at.timestamp() * 1000)}"))

    return view


def since(request: HttpRequest) -> datetime:
    text = request.GET.get("since", "")
    if not (text.isascii() and text.isdigit() and len(text) < LONGEST):
        return now()
    return datetime.fromtimestamp(int(text) / 1000, UTC)


def word(*said: object) -> HttpResponse:
    """What a script compares, which loads the page anew when it changes."""
    return HttpResponse("/".join(map(str, said)), content_type="text/plain")


def asked_again(
    request: HttpRequest, checkout: Checkout, told: HttpResponse
) -> HttpResponse:
    """What the script is `told`; has the provider asked again.

    Not if the script is on another page: the one that it loads now would say once more
    that the provider is being asked, and so on each time.
    """
    if request.GET.get("seen") == told.content.decode():
        look_soon(checkout.pk)
    return told


def with_script(response: HttpResponse) -> HttpResponse:
    allow(response, **SCRIPTS)
    return response
