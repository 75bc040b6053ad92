"""Pages for a developer's own machine: log-in without a password, and all messages.

A page answers only if DEBUG is on, BASE_URL names this machine, and the request comes
from this machine under such a name. So a service behind a proxy refuses every request,
with any headers, and a name of another site that points here is refused too.
"""

import hmac
from dataclasses import replace
from functools import wraps
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from allauth.account.internal.flows.login import record_authentication
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from allauth.mfa.utils import is_mfa_enabled
from csp.decorators import csp_replace
from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.request import split_domain_port
from django.shortcuts import get_object_or_404, render
from django.urls import path, reverse
from django.views.debug import SafeExceptionReporterFilter
from django.views.decorators.http import require_safe

from verification.console.base import PAGE_SIZE, page_number
from verification.console.sandbox_pages import (
    MAIL_POLICY,
    describe_message,
    html_response,
    render_message,
)
from verification.db.base import read_page
from verification.db.encryption import keyed_hash
from verification.notifications.models import Notification
from verification.values.networks import read_address
from verification.web.pages import View, private_page

STAFF, OWNER, APPLICANT = "staff", "owner", "applicant"
ADDRESSES = {
    STAFF: "admin@example.com",
    OWNER: "demo@example.com",
    APPLICANT: "grace@example.com",
}
HOSTS = {"localhost", "127.0.0.1", "[::1]"}
BACKEND = "allauth.account.auth_backends.AuthenticationBackend"


def make_person(person: str, *, name: str, username: str = "") -> User:
    """Return the account of one of the demo's people; create it if it is missing.

    It has no password; `log_in` is the only way in.
    """
    email = ADDRESSES[person]
    user = User.objects.filter(email=email).first()
    if user is None:
        is_staff = person == STAFF
        user = User.objects.create_user(
            username or keyed_hash("development user", person).hex()[:24],
            email,
            first_name=name,
            is_staff=is_staff,
            is_superuser=is_staff,
        )
    EmailAddress.objects.get_or_create(
        user=user, defaults={"email": email, "verified": True, "primary": True}
    )
    has_factor = Authenticator.objects.filter(
        user=user, type=Authenticator.Type.TOTP
    ).exists()
    # The applicant's workspace may go live, which requires a second factor.
    if person != OWNER and not has_factor:
        TOTP.activate(user, generate_totp_secret())
    return user


def login_url(person: str) -> str:
    path = reverse("development:log-in", args=[person, login_token(person)])
    return f"{settings.BASE_URL}{path}"


def login_token(person: str) -> str:
    return keyed_hash("development login", person).hex()[:24]


def only_on_this_machine(view: View) -> View:
    """Answer 404 unless DEBUG is on and a browser on this machine asks."""

    @private_page
    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        # The links that the service sends must name this machine.
        served, _port = split_domain_port(urlsplit(settings.BASE_URL).netloc)
        if not (settings.DEBUG and served in HOSTS and _is_from_here(request)):
            raise Http404
        return view(request, *args, **kwargs)

    return shown


def _is_from_here(request: HttpRequest) -> bool:
    # A proxy on this machine has a local address for every visitor.
    if "X-Forwarded-For" in request.headers or "Forwarded" in request.headers:
        return False
    host, _port = split_domain_port(request.get_host())
    address = read_address(request.META.get("REMOTE_ADDR", ""))
    return host in HOSTS and address is not None and address.is_loopback


@require_safe
@only_on_this_machine
def log_in(request: HttpRequest, person: str, token: str) -> HttpResponse:
    """Log in one of the demo's people and redirect to their first page.

    The link holds a token, so that no other site can send a browser here.
    """
    expected = login_token(person)
    user = User.objects.filter(email=ADDRESSES.get(person, "")).first()
    if user is None or not hmac.compare_digest(token.encode(), expected.encode()):
        raise Http404
    login(request, user, backend=BACKEND)
    if is_mfa_enabled(user):
        record_authentication(request, user, "mfa", type=Authenticator.Type.TOTP)
    page = "admin:index" if user.is_staff else "console:home"
    return HttpResponseRedirect(reverse(page))


@require_safe
@only_on_this_machine
def show_mail(request: HttpRequest) -> HttpResponse:
    """Show every e-mail and SMS, sent or not, newest first."""
    found = Notification.objects.order_by("-created_at", "-id")
    page = read_page(found, page_number(request), PAGE_SIZE)
    shown = [
        {
            **describe_message(one),
            **render_message(one),
            "html_url": f"mail/{one.pk}",
        }
        for one in page.rows
    ]
    page = replace(page, rows=shown)
    return render(request, "console/mailbox/all.html", {"page": page})


@require_safe
@csp_replace(MAIL_POLICY)
@only_on_this_machine
def show_mail_html(request: HttpRequest, message: UUID) -> HttpResponse:
    return html_response(get_object_or_404(Notification, pk=message))


class ReporterFilter(SafeExceptionReporterFilter):
    """Hides settings, environment and secrets on Django's error page."""

    def get_safe_settings(self) -> dict[str, Any]:
        return {}

    def get_safe_request_meta(self, request: HttpRequest) -> dict[str, Any]:
        meta = super().get_safe_request_meta(request)
        named = ("HTTP_", "REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "CONTENT_")
        return {name: value for name, value in meta.items() if name.startswith(named)}


app_name = "development"
urlpatterns = [
    path("mail", show_mail, name="mail"),
    path("mail/<uuid:message>", show_mail_html),
    path("login/<str:person>/<str:token>", log_in, name="log-in"),
]
