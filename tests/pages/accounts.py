"""The account pages, each with a visitor who may see it."""

from __future__ import annotations

from collections.abc import Iterator

from allauth.mfa.models import Authenticator
from django.contrib.auth.models import Group
from django.test import Client, override_settings
from django.urls import reverse
from playwright.sync_api import Page

from tests.accounts.visitor import (
    LOGIN,
    RESET,
    SIGN_UP,
    code_of,
    create_user,
    path_mailed_to,
)
from tests.fakes.identity_provider import make_provider
from tests.pages.examples import Example
from tests.pages.walk import submit_form
from tests.world.members import PASSWORD
from tests.world.staff import give_factor, log_in
from verification.accounts import colleagues

NEW = {"name": "Grace Wambui", "email": "new@people.test", "password1": PASSWORD}
LINKS = {
    "account_login",
    "account_signup",
    "account_inactive",
    "account_email_verification_sent",
    "account_reset_password",
    "account_reset_password_done",
    "account_reset_password_from_key_done",
    "mfa_login_webauthn",
}
NOT_WALKED = {
    # tests/browser/test_passkeys.py looks at it: it needs a passkey of a real browser.
    "mfa_reauthenticate_webauthn",
    # No page: the identity provider posts to it.
    "openid_connect_end_sessions",
}
OF_A_MEMBER = {
    "account_logout",
    "account_email",
    "account_change_password",
    "account_sessions",
    "mfa_index",
    "mfa_reauthenticate",
    "mfa_add_webauthn",
    "mfa_deactivate_totp",
    "mfa_view_recovery_codes",
    "mfa_generate_recovery_codes",
}


def account_pages() -> Iterator[Example]:
    """Yield an example named as each URL, and the forms with their faults."""
    for name in sorted(LINKS):
        yield Example(name, Client(), reverse(name))
    for name in ("account_login", "account_signup", "account_reset_password"):
        yield Example(f"{name}-errors", Client(), reverse(name), submit_form)
    visitor = Client()
    visitor.post(SIGN_UP, NEW)
    confirm = path_mailed_to(NEW["email"], "ACCOUNT_CONFIRM")
    yield Example("account_confirm_email", visitor, confirm)
    yield Example("account_confirm_email-unknown", visitor, confirm[:-9] + "x/")

    grace = create_user("grace")
    visitor.post(RESET, {"email": grace.email})
    link = path_mailed_to(grace.email, "ACCOUNT_RESET")
    form = visitor.get(link, follow=True).request["PATH_INFO"]
    name = "account_reset_password_from_key"
    yield Example(name, visitor, form)
    yield Example(f"{name}-errors", visitor, form, submit_form)

    secret, member = give_factor(grace), Client()
    log_in(member, grace)
    member.post(reverse("mfa_reauthenticate"), {"code": code_of(secret)})
    member.post(reverse("mfa_generate_recovery_codes"))
    for name in sorted(OF_A_MEMBER):
        yield Example(name, member, reverse(name))
    data = {"name": "My phone", "passwordless": True, "credential": {}}
    kind = Authenticator.Type.WEBAUTHN
    passkey = Authenticator.objects.create(user=grace, type=kind, data=data)
    remove = reverse("mfa_remove_webauthn", args=[passkey.pk])
    yield Example("mfa_remove_webauthn", member, remove)
    passkey.delete()
    pending = Client()
    pending.post(LOGIN, {"login": grace.email, "password": PASSWORD})
    yield Example("mfa_authenticate", pending, reverse("mfa_authenticate"))
    yield Example(
        "mfa_authenticate-errors", pending, reverse("mfa_authenticate"), submit_form
    )

    baraka = create_user("baraka")
    fresh = Client()
    fresh.post(LOGIN, {"login": baraka.email, "password": PASSWORD})
    again = {"password": PASSWORD}
    fresh.post(reverse("account_reauthenticate"), again)
    yield Example("account_reauthenticate", fresh, reverse("account_reauthenticate"))
    yield Example("mfa_activate_totp", fresh, reverse("mfa_activate_totp"))

    def log_in_again(page: Page) -> None:
        page.locator("[name=login]").fill(baraka.email)
        page.locator("[name=password]").fill("not the password")
        submit_form(page)

    for _ in range(5):
        Client().post(LOGIN, {"login": baraka.email, "password": "not the password"})
    yield Example("account_login-locked", Client(), LOGIN, log_in_again)
    superuser = create_user("wangari", is_staff=True, is_superuser=True)
    groups = [Group.objects.get(name="Finance")]
    colleagues.add("njeri@office.test", "Njeri", groups, by=superuser)
    join = path_mailed_to("njeri@office.test", "STAFF_INVITATION")
    yield Example("account_join", Client(), join)
    yield Example("account_join-over", Client(), reverse("account_join", args=["x"]))

    with override_settings(IDENTITY_PROVIDERS={"bank": make_provider()}):
        # Its form leads on to the provider.
        yield Example("openid_connect_login", Client(), LOGIN)
        ended = reverse("openid_connect_callback", args=["bank"])
        yield Example("openid_connect_callback", Client(), ended)
