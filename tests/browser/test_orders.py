"""A member orders a report in the console, by keyboard alone."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.people import (
    log_in,
    make_member,
    read_in,
    reload_until,
)
from tests.world.clients import person
from tests.world.orders import REFUSED

pytestmark = pytest.mark.slow

EMAIL = "officer@orders.test"
JOIN = """
from django.contrib.auth.models import User
from workspaces.models import Member
user = User.objects.get(email="{}")
Member.objects.create(workspace_id="{}", user=user, role="ADMIN")
"""


def tab_to(page, wanted) -> None:
    """Press Tab until the element has the focus, as a keyboard user does."""
    for _ in range(60):
        if wanted.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError("the keyboard does not reach it")


def press(page, name: str, role: str = "button") -> None:
    tab_to(page, page.get_by_role(role, name=name, exact=True).first)
    page.keyboard.press("Enter")


def write(page, label: str, text: str) -> None:
    tab_to(page, page.get_by_label(label, exact=True))
    page.keyboard.type(text)


def test_officer_orders_by_keyboard(page, service, look):
    make_member(service, EMAIL)
    log_in(page, service, EMAIL)
    page.wait_for_url(re.compile("/console/.*/sandbox/"))
    press(page, "Menu")
    press(page, "Reports", "link")
    page.wait_for_url(re.compile("/reports/$"))
    press(page, "Order a report", "link")
    expect(page.get_by_text("Choose a package or checks")).to_be_visible()
    look("order-01-checks")
    tab_to(page, page.get_by_label("National identity"))
    page.keyboard.press("Space")
    # The fields and the price follow the choice, and the price what is typed.
    order = page.get_by_role("button", name="Order for KES 50.00")
    expect(order).to_be_visible()
    expect(page.get_by_label("National identity")).to_be_focused()
    look("order-02-price")
    press(page, "Order for KES 50.00")
    expect(page.get_by_text("ID number: This is needed")).to_be_visible()
    look("order-03-errors")
    write(page, "Full name", "Wanjiku Kamau")
    write(page, "ID number", "90000000")
    write(page, "E-mail address (optional)", "wanjiku@kamau.test")
    write(page, "Purpose", "Loan application")
    expect(page.get_by_text("Every check runs anew")).to_be_visible()
    look("order-04-filled-in")
    press(page, "Order for KES 50.00")

    expect(page.get_by_text("Ordered for KES 50.00.")).to_be_visible()
    expect(page.get_by_text("Waiting for consent").first).to_be_visible()
    look("order-05-report")
    tab_to(page, page.locator("summary", has_text="More"))
    page.keyboard.press("Enter")
    press(page, "Cancel the report", "link")
    look("order-07-cancel")
    press(page, "Cancel the report")
    expect(page.get_by_text("The report is cancelled.")).to_be_visible()
    press(page, "Order again", "link")
    expect(page.get_by_label("Full name")).to_have_value("Wanjiku Kamau")
    expect(page.get_by_label("National identity")).to_be_checked()
    look("order-08-again")


def test_order_needs_no_script(service, browser):
    make_member(service, "plain@orders.test")
    page = browser.new_context(java_script_enabled=False).new_page()
    log_in(page, service, "plain@orders.test")
    page.wait_for_url(re.compile("/console/.*/sandbox/"))
    page.goto(f"{page.url}reports/new")
    page.get_by_label("National identity").check()
    page.get_by_role("button", name="Update").click()
    page.get_by_label("Full name").fill("Wanjiku Kamau")
    page.get_by_label("ID number", exact=True).fill("90000000")
    page.get_by_label("Purpose").fill("Loan application")
    page.get_by_role("button", name="Order for KES 50.00").click()
    expect(page.get_by_text("Ordered for KES 50.00.")).to_be_visible()


def test_attested_order_with_a_payer_is_accessible(page, service, look):
    make_member(service, "attested@orders.test")
    log_in(page, service, "attested@orders.test")
    page.wait_for_url(re.compile("/console/.*/sandbox/"))
    place = page.url
    page.goto(f"{place}reports/new?subject_type=COMPANY&lang=sw")
    look("sw-order-checks")
    page.goto(f"{place}reports/new?lang=en")
    page.get_by_label("National identity").check()
    page.get_by_label("We already have it").check()
    page.get_by_label("Somebody else, by a link").check()
    expect(page.get_by_label("Name of the payer")).to_be_visible()
    look("order-20-attested-third-party")
    page.get_by_label("Full name").fill("Wanjiku Kamau")
    page.get_by_label("ID number", exact=True).fill("90000000")
    page.get_by_label("You have the consent").check()
    page.get_by_label("When it was given").fill("2026-01-20T10:00")
    page.get_by_label("How it was given").select_option("PAPER_FORM")
    page.get_by_label("Version of the text").fill("2026-01")
    page.get_by_label("Name of the payer").fill("Kilele Insurance")
    page.get_by_label("E-mail address of the payer").fill("accounts@kilele.test")
    page.get_by_label("Purpose").fill("Loan application")
    page.get_by_role("button", name="Update").click()
    look("order-21-quote-with-a-payer")


def test_pages_of_actions_are_accessible(page, service, client, look):
    draft, failed = client.order(
        {**person(), "draft": True, "reuse": False},
        person(idNumber=REFUSED, kraPin=None),
    )
    make_member(service, "actions@orders.test")
    join = JOIN.format("actions@orders.test", client.workspace)
    service.manage("shell", "-v", "0", "-c", join)
    log_in(page, service, "actions@orders.test")
    reports = f"{service.url}/console/{client.workspace}/sandbox/reports"
    for name in ("", "/edit", "/launch", "/cancel"):
        page.goto(f"{reports}/{draft['id']}{name}")
        look(f"order-30-draft{name.replace('/', '-')}")
    page.goto(f"{reports}/{draft['id']}/launch")
    page.get_by_role("button", name="Launch for").click()
    expect(page.get_by_text("Launched: the checks run now.")).to_be_visible()
    retry = page.get_by_role("link", name="Run failed checks again")
    page.goto(f"{reports}/{failed['id']}")
    reload_until(page, retry.is_visible)
    retry.click()
    look("order-31-retry")
    read_in(page, "Kiswahili")
    look("sw-order-retry")
