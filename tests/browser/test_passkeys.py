"""Passkeys, by Chromium's virtual authenticator."""

import pytest
from playwright.sync_api import expect

from tests.browser.people import (
    PASSWORD,
    log_out,
    make_member,
    open_account,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
EMAIL = "njeri@people.test"
AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


def test_member_logs_in_by_a_passkey(page, service, look):
    make_member(service, EMAIL)
    # Browsers know no passkeys of addresses in figures.
    url = f"http://localhost:{service.port}"
    devtools = page.context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    devtools.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})

    page.goto(f"{url}/accounts/login/?next=/accounts/security/")
    page.get_by_label("E-mail address").fill(EMAIL)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("link", name="Add a passkey").click()
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Continue").click()
    page.get_by_label("What you call it").fill("My phone")
    page.get_by_role("button", name="Add a passkey").click()
    page.wait_for_url("**/recovery-codes/**")
    open_account(page)
    expect(page.get_by_text("My phone").first).to_be_visible()
    page.get_by_role("link", name="See and end your sessions").click()
    log_out(page)

    page.goto(f"{url}/accounts/login/?next=/accounts/security/")
    page.get_by_role("link", name="Log in with a passkey").click()
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("heading", name="Passkeys")).to_be_visible()

    page.goto(f"{url}/accounts/passkeys/again/?next=/accounts/security/")
    look("mfa_reauthenticate_webauthn")
    page.get_by_role("button", name="Use a passkey").click()
    page.wait_for_url(f"{url}/accounts/security/")
    page.get_by_role("link", name="Remove").click()
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("Your passkey is removed.")).to_be_visible()
    log_out(page)

    page.goto(f"{url}/accounts/passkeys/login/")
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_text("The passkey was not accepted")).to_be_visible()
