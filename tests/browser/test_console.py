"""From the sign-up to a report, on a phone and by keyboard alone."""

import re
import time

import pytest
import requests
from playwright.sync_api import expect

from tests.browser.people import (
    PASSWORD,
    go_to,
    log_in,
    log_out,
    mailed_link,
    make_member,
    open_account,
    read_in,
    reload_until,
    set_up_second_factor,
    switch_to,
)
from tests.world.clients import person
from tests.world.waiting import until

pytestmark = pytest.mark.slow

EMAIL = "grace@people.test"
SHOWN = re.compile(r"vrf_test_[0-9A-Za-z]{38}")


def typed(page, *texts: str) -> None:
    """Type texts into the focused field and the fields after it."""
    for text in texts:
        page.keyboard.type(text)
        page.keyboard.press("Tab")


def test_client_gets_from_sign_up_to_a_report(page, service, look):
    page.goto(f"{service.url}/accounts/signup/")
    look("console-01-sign-up")
    page.get_by_label("Your name").focus()
    typed(page, "Grace Wambui", EMAIL, PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url("**/accounts/confirm-email/")
    look("console-02-look-into-your-mailbox")

    page.goto(mailed_link(service, EMAIL, "ACCOUNT_CONFIRM"))
    look("console-03-confirm")
    page.get_by_role("button", name="Confirm the address").click()
    page.wait_for_url(re.compile("login"))
    look("console-04-log-in")
    page.get_by_label("E-mail address").focus()
    typed(page, EMAIL, PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/console/.*/sandbox/"))
    expect(page.get_by_role("heading", name="Welcome")).to_be_visible()
    look("console-05-overview")

    page.get_by_role("link", name="Create a key").click()
    look("console-06-make-a-key")
    page.get_by_label("Name").fill("Loans")
    page.get_by_role("button", name="Create the key").click()
    key = SHOWN.search(page.locator("#key").inner_text())
    assert key
    look("console-07-key-shown-once")

    order(service, key[0])

    page.goto(f"{service.url}/console/")
    look("console-08-overview-with-a-report")
    go_to(page, "Reports")
    look("console-09-reports")
    page.get_by_role("row").nth(1).get_by_role("link").click()
    expect(page.get_by_text("Wanjiku Kamau").first).to_be_visible()
    look("console-10-report")

    walk(page, look)


def order(service, key: str) -> None:
    """Order a report by the API, and wait until it ends."""
    http = requests.Session()
    http.headers["Authorization"] = f"Bearer {key}"
    url = f"{service.url}/api/v1/reports"
    asked = {"reports": [person(idNumber="90000003")]}
    made = http.post(url, json=asked, timeout=30).json()["reports"][0]
    one = f"{url}/{made['id']}"
    until(lambda: http.get(one, timeout=30).json()["status"] == "READY")


def walk(page, look) -> None:
    """Open every other page from the navigation."""
    for number, name in enumerate(
        ["Keys", "Balance", "Webhooks", "Monitoring", "Test subjects", "Members"], 11
    ):
        go_to(page, name)
        look(f"console-{number}-{name.lower().replace(' ', '-')}")
    page.get_by_label("E-mail address").fill("otieno@people.test")
    page.get_by_role("button", name="Send the invitation").click()
    expect(page.get_by_text("The invitation is sent.")).to_be_visible()
    look("console-17-invited")
    go_to(page, "Settings")
    look("console-18-settings")
    make_package(page, look)
    go_to(page, "Settings")
    page.get_by_role("link", name="Close the workspace").click()
    look("console-19-closing")
    page.goto(re.sub(r"settings/close$", "webhooks/configure", page.url))
    page.get_by_role("button", name="Save").click()
    look("console-20-webhook-errors")
    read_in(page, "Kiswahili")
    look("console-21-webhook-kiswahili")
    read_in(page, "English")
    page.goto(re.sub(r"sandbox/webhooks.*$", "production/keys/", page.url))
    look("console-22-production-keys")


def make_package(page, look) -> None:
    go_to(page, "Packages")
    page.get_by_role("link", name="Make a package").click()
    page.get_by_role("button", name="Make the package").click()
    look("console-18-package-errors")
    page.get_by_label("Name", exact=True).fill("our-loans")
    page.get_by_label("Title").fill("Our loans")
    page.get_by_role("checkbox", name=re.compile("^National identity")).check()
    page.get_by_role("button", name="Make the package").click()
    expect(page.get_by_text("The package is made.")).to_be_visible()
    look("console-18-packages")
    page.get_by_role("link", name="Our loans").click()
    look("console-18-package")


def test_second_factor_is_set_up_by_a_member(page, service, look):
    make_member(service, "baraka@people.test")
    log_in(page, service, "baraka@people.test")
    open_account(page)
    look("console-30-account")
    page.get_by_role("link", name="Set up an authenticator app").click()
    look("console-31-password-again")
    set_up_second_factor(page)
    look("console-32-recovery-codes")
    log_out(page)

    log_in(page, service, "baraka@people.test")
    look("console-33-one-time-code")


KEY = (
    "from django.contrib.auth.models import User;"
    "from workspaces import keys;"
    "member = User.objects.get(email={email!r}).memberships.get();"
    "_, text = keys.issue(member.workspace, environment='sandbox', name='Loans');"
    "print(text)"
)


def filter_by_id(page, request_id: str) -> None:
    page.get_by_role("button", name="Filters").click()
    page.get_by_label("Request id").fill(request_id)
    page.get_by_role("button", name="Filter", exact=True).click()


def test_developer_reads_why_a_request_was_refused(page, service, look):
    email = "wafula@people.test"
    make_member(service, email)
    key = service.manage("shell", "-v", "0", "-c", KEY.format(email=email)).strip()
    sent = {**person(), "checksRequested": ["IDENTTY"]}
    refused = requests.post(
        f"{service.url}/api/v1/reports",
        json={"reports": [sent]},
        headers={"Authorization": f"Bearer {key}", "X-Request-Id": "order-17"},
        timeout=30,
    )
    order(service, key)
    assert refused.status_code == 400

    log_in(page, service, email)
    go_to(page, "Requests")
    filter_by_id(page, "order-17")
    # The record is written within seconds.
    reload_until(page, lambda: page.get_by_role("row").count() == 2)
    expect(page.get_by_text("unknown-check")).to_be_visible()
    look("console-50-request")
    page.get_by_role("link", name="The request breaks a rule").click()
    expect(page.get_by_role("heading", name="What to do")).to_be_visible()
    page.go_back()
    filter_by_id(page, "")
    look("console-51-requests")

    go_to(page, "Exports")
    page.get_by_role("button", name="Export").click()
    assert page.title().startswith("Error: ")
    look("console-52-export-errors")
    today = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 3 * 3600))
    page.get_by_label("From").fill(today)
    page.get_by_label("To", exact=True).fill(today)
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    rows = download.value.path().read_text().splitlines()
    assert len(rows) == 2
    assert "W••••" in rows[1]
    assert "Wanjiku" not in rows[1]


def test_guessing_passwords_is_told_to_be_over(page, service, look):
    for _ in range(5):
        page.goto(f"{service.url}/accounts/login/")
        page.get_by_label("E-mail address").fill("nobody@people.test")
        page.get_by_label("Password", exact=True).fill("not the password")
        page.get_by_role("button", name="Log in").click()

    expect(page.get_by_text("Try again in 15 minutes")).to_be_visible()
    look("console-40-locked")


APPROVE = (
    "from django.contrib.auth.models import User;"
    "from tests.world.clients import approve_workspace;"
    "member = User.objects.get(email={email!r}).memberships.get();"
    "approve_workspace(member.workspace, 'Kerubo Tea Limited', 'Kerubo')"
)


def test_approved_owner_takes_first_steps_and_asks_for_a_name(page, service, look):
    email = "kerubo@people.test"
    make_member(service, email)
    service.manage("shell", "-v", "0", "-c", APPROVE.format(email=email))
    log_in(page, service, email)
    switch_to(page, "Production")
    page.get_by_role("link", name="Set up an authenticator app").click()
    set_up_second_factor(page)
    page.get_by_role("link", name="Continue").click()
    expect(page.get_by_text("This installation has no source yet")).to_be_visible()
    look("console-50-production-first-steps")

    go_to(page, "Settings")
    look("console-51-settings-of-a-reviewed-name")
    page.get_by_role("link", name="Name that people see").click()
    look("console-52-name")
    page.get_by_label("Legal name").fill("Kerubo Tea Company Limited")
    page.get_by_role("button", name="Send for review").click()
    expect(page.get_by_text("A change waits for our review")).to_be_visible()
    look("console-53-name-waits")
    read_in(page, "Kiswahili")
    look("console-54-name-kiswahili")
