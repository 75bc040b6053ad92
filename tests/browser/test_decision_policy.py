"""An owner writes a policy by keyboard, sees what would change, and switches it on."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.people import add_member, log_in, reload_until
from tests.browser.test_consent import wait_for
from tests.world.clients import person

pytestmark = pytest.mark.slow

OWNER = "owner@policy.test"


def test_owner_switches_a_policy_on(page, own_client, service):
    (report,) = own_client.order(person(idNumber="90000003"))
    wait_for(own_client, report, "READY")
    add_member(service, OWNER, own_client.workspace)
    console = f"{service.url}/console/{own_client.workspace}/sandbox"
    log_in(page, service, OWNER)
    page.goto(f"{console}/policy/")
    page.get_by_role("button", name="Write the first rules").first.click()
    page.get_by_role("link", name="Add a rule").click()
    page.get_by_label("Condition 1: what").select_option(label="The report: risk score")
    page.get_by_label("Condition 1: comparison").select_option(label="is at least")
    page.get_by_label("Condition 1: value").fill("many")
    page.get_by_label("Decline").focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Save").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_title(re.compile("^Error: "))
    page.get_by_label("Condition 1: value").fill("70")
    page.get_by_label("Credit score below").focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Save").focus()
    page.keyboard.press("Enter")
    sentence = "If the risk score of the report is at least 70"
    expect(page.get_by_text(sentence)).to_be_visible()
    expect(page.get_by_role("heading", name="Dry run")).to_be_visible()
    page.get_by_label("It decides").focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Switch version 1 on").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("The version is switched on.")).to_be_visible()

    (declined,) = own_client.order(person(idNumber="90000003"))
    wait_for(own_client, declined, "READY")
    page.goto(f"{console}/policy/")
    expect(page.get_by_text("Version 1 is switched on")).to_be_visible()
    page.goto(f"{console}/reports/{declined['id']}")
    decided = page.get_by_text("No person has looked at it.")
    reload_until(page, decided.is_visible)

    page.goto(f"{console}/policy/")
    menu, opener = page.locator(".menu-end"), page.locator(".menu-end > summary")
    opener.focus()
    for pressed in ("Enter", "Tab", "Escape"):
        page.keyboard.press(pressed)
    expect(opener).to_be_focused()
    for pressed in ("Enter", "Shift+Tab"):
        page.keyboard.press(pressed)
    expect(menu).not_to_have_attribute("open", "")
    page.get_by_role("link", name="Switch off").click()
    page.get_by_role("button", name="Switch the policy off").click()
    expect(page.get_by_text("The policy is switched off.")).to_be_visible()
