"""Every e-mail and SMS of the service, for developers on their own machine."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from verification.console.base import SIZE, Page, number_of
from verification.console.mailbox import described, written
from verification.development.access import only_on_this_machine
from verification.notifications.models import Notification


@require_safe
@only_on_this_machine
def show(request: HttpRequest) -> HttpResponse:
    """Newest first, whether or not they were sent."""
    number = number_of(request)
    found = Notification.objects.order_by("-id")
    rows = found[number * SIZE : (number + 1) * SIZE]
    shown = [described(one) | written(one) for one in rows]
    page = Page(shown, found.count(), number)
    return render(request, "console/mailbox/all.html", {"page": page})
