"""Every e-mail and SMS of the service, for developers on their own machine."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from verification.console.base import PAGE_SIZE, Page, page_number
from verification.console.sandbox import describe_message, render_message
from verification.development.access import only_on_this_machine
from verification.notifications.models import Notification


@require_safe
@only_on_this_machine
def show(request: HttpRequest) -> HttpResponse:
    """Newest first, whether or not they were sent."""
    number = page_number(request)
    found = Notification.objects.order_by("-id")
    rows = found[number * PAGE_SIZE : (number + 1) * PAGE_SIZE]
    shown = [describe_message(one) | render_message(one) for one in rows]
    page = Page(shown, found.count(), number)
    return render(request, "console/mailbox/all.html", {"page": page})
