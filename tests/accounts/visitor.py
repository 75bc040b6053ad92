"""Actions of a visitor on the account pages."""

import re
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.contrib.auth.models import User
from django.core.cache import cache
from django.http import HttpResponse
from django.test import Client

from tests.world.members import PASSWORD
from verification.accounts.sessions import BEGAN
from verification.notifications.models import Notification

LOGIN, SIGN_UP, RESET = (
    "/accounts/login/",
    "/accounts/signup/",
    "/accounts/password/reset/",
)
# The cheapest page of the admin
ADMIN = "/admin/jsi18n/"


@pytest.fixture(autouse=True)
def empty_cache():
    cache.clear()


def create_user(name: str = "grace", **fields) -> User:
    """Create a user with a confirmed address."""
    email = f"{name}@people.test"
    password = fields.pop("password", PASSWORD)
    user = User.objects.create_user(name, email, password, **fields)
    EmailAddress.objects.create(user=user, email=email, verified=True, primary=True)
    return user


def sign_up(email: str) -> Callable[[], HttpResponse]:
    """Sign up with this address; return what opens the link that confirms it."""
    client = Client(raise_request_exception=False)
    client.post(SIGN_UP, {"name": "Njeri", "email": email, "password1": PASSWORD})
    link = path_mailed_to(email, "ACCOUNT_CONFIRM")
    return lambda: client.post(link)


def log_in(client: Client, email: str, password: str = PASSWORD, **more):
    fields = {"login": email, "password": password, **more.pop("fields", {})}
    return client.post(LOGIN, fields, **more)


def is_logged_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def move_login_back(client: Client, by: timedelta) -> None:
    """Let the client's session have begun so much earlier."""
    session = client.session
    session[BEGAN] -= int(by.total_seconds())
    session.save()


def path_mailed_to(email: str, kind: str) -> str:
    """Return the path of the link in the newest mail."""
    sent = Notification.objects.filter(kind=kind).order_by("-id")
    mail = next(one for one in sent if one.recipient == email)
    return re.sub(r"^https?://[^/]+", "", mail.context["url"])


def code_of(secret: str, steps: int = 0) -> str:
    # A code that is about to end would be refused by the time it is sent.
    left = 30 - time.time() % 30
    if left < 2:
        time.sleep(left)
    return format_hotp_value(hotp_value(secret, int(time.time()) // 30 + steps))
