"""People who log in to the real service."""

import json
import re
from contextlib import suppress

from playwright.sync_api import TimeoutError

from tests.accounts.visitor import code_of
from tests.world.service import Service
from tests.world.waiting import until

PASSWORD = "seven quiet giraffes"


def mailed_link(service: Service, address: str, kind: str) -> str:
    """Return the first link in the newest mail to this address."""
    script = (
        "import json; from verification.notifications.models import Notification as N;"
        f"print(json.dumps([n.context['url'] for n in N.objects.filter(kind={kind!r})"
        f".order_by('-id') if n.recipient == {address!r}]))"
    )
    links = until(lambda: json.loads(service.manage("shell", "-v", "0", "-c", script)))
    return str(links[0])


def reload_until(page, condition, explain=lambda: "") -> None:
    """Reload the page until the condition is true, as somebody who waits does."""

    def is_true_after_reload():
        page.reload()
        return condition()

    assert condition() or until(is_true_after_reload, explain)


def make_staff(service: Service, email: str) -> None:
    _make(service, email, "create_superuser")


def make_member(service: Service, email: str) -> None:
    """Create a user with an own workspace, as after a sign-up."""
    _make(service, email, "create_user", "create_own_workspace(u)")


def _make(service: Service, email: str, create: str, then: str = "") -> None:
    """Create a user with a confirmed address."""
    script = (
        "from django.contrib.auth.models import User;"
        "from allauth.account.models import EmailAddress as E;"
        "from workspaces.create import create_own_workspace;"
        f"u = User.objects.{create}({email!r}, {email!r}, {PASSWORD!r});"
        f"E.objects.create(user=u, email={email!r}, verified=True, primary=True);"
    )
    service.manage("shell", "-v", "0", "-c", script + then)


def log_in(page, service: Service, email: str, path: str = "/console/") -> None:
    page.goto(service.url + path)
    page.get_by_label("E-mail address").fill(email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()


def set_up_second_factor(page) -> str:
    """Set up the second factor after a first login, by password and code."""
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Go on").click()
    secret = re.sub(r"\s", "", page.locator("code").first.inner_text())
    set_up = page.get_by_role("button", name="Set it up")
    # A code that ends on its way, on a busy machine, is refused; the next one is right.
    for _ in range(3):
        page.get_by_label("The code that the app shows").fill(code_of(secret))
        set_up.click()
        with suppress(TimeoutError):
            page.wait_for_url("**/recovery-codes/**")
            return secret
    raise AssertionError("three codes were refused")
