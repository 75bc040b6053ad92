"""People who log in to the real service."""

import re
from contextlib import suppress

from playwright.sync_api import TimeoutError

from tests.accounts.visitor import code_of
from tests.world.service import Service
from tests.world.waiting import until

PASSWORD = "seven quiet giraffes"


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


def add_member(
    service: Service,
    email: str,
    workspace: str,
    role: str = "OWNER",
    decision_hours: int | None = None,
) -> None:
    """Create a member of this workspace, which decides within these hours."""
    then = (
        "from workspaces.models import Member, Workspace;"
        f"w = Workspace.objects.get(pk={workspace!r});"
        f"Member.objects.create(workspace=w, user=u, role={role!r});"
        f"w.decision_hours = {decision_hours!r}; w.save()"
    )
    _make(service, email, "create_user", then)


def go_to(page, section: str) -> None:
    """Open a section by the navigation, which a phone shows behind its button."""
    menu = page.locator(".menu-button")
    if menu.is_visible():
        menu.click()
    name = re.compile(f"^{re.escape(section)}\\b")
    page.locator("#side").get_by_role("link", name=name).first.click()


def open_account(page) -> None:
    """Open the page of one's account from the top bar."""
    _open_account_menu(page)
    page.locator(".menu-end").get_by_role("link", name="Your account").click()


def log_out(page) -> None:
    _open_account_menu(page)
    page.locator(".menu-end").get_by_role("button").click()


def _open_account_menu(page) -> None:
    menu = page.locator("details.menu-end:not([open]) > summary")
    if menu.count():
        menu.click()


def log_in(page, service: Service, email: str, path: str = "/console/") -> None:
    page.goto(service.url + path)
    page.get_by_label("E-mail address").fill(email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()


def set_up_second_factor(page) -> str:
    """Set up the second factor after a first login, by password and code."""
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Continue").click()
    secret = re.sub(r"\s", "", page.locator("code").first.inner_text())
    set_up = page.get_by_role("button", name="Set up the second factor")
    # A code that ends on its way, on a busy machine, is refused; the next one is right.
    for _ in range(3):
        page.get_by_label("The code that the app shows").fill(code_of(secret))
        set_up.click()
        with suppress(TimeoutError):
            page.wait_for_url("**/recovery-codes/**")
            return secret
    raise AssertionError("three codes were refused")
