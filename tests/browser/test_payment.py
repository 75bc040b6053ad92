"""Payers with a phone pay, fail to pay, and come back."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.people import reload_until
from tests.browser.test_consent import sees, tab_to, wait_for
from tests.world.clients import person
from tests.world.orders import PAYER
from tests.world.waiting import until
from verification import links

pytestmark = pytest.mark.slow

# The page asks again 5 s after each answer.
POLLED_MS = 60_000
ASKING = "We are asking whether you have paid"
PAID = "You paid KES 250.00"
DUE = "Pay KES 250.00"
BY_PAGE = "Pay another way"
THIRD_PARTY = {"paymentMode": "THIRD_PARTY", "payer": PAYER}


@pytest.fixture
def owed(client):
    """Create a report that somebody else pays; returns it as the API does."""

    def create(**members):
        item = {
            **person(email="w@subject.test"),
            "reference": "LN-2041",
            "paymentMode": "CANDIDATE",
            # A reused result would cost nothing.
            "reuse": False,
        }
        return client.order({**item, **members})[0]

    return create


def link_of(report):
    return report["paymentState"]["paymentUrl"]


def pay(page, choice="Pay"):
    page.get_by_role("button", name=BY_PAGE).click()
    sees(page, "Test checkout of KES 250.00")
    page.get_by_role("button", name=choice, exact=True).click()


def expect_heading(page, heading):
    """Wait until the script reloads the page after a poll."""
    level = page.get_by_role("heading", level=1)
    expect(level).to_have_text(heading, timeout=POLLED_MS)


def reloaded(page, text):
    reload_until(page, lambda: text in _main_text(page), lambda: _main_text(page))


def _main_text(page):
    return page.get_by_role("main").inner_text().replace("\xa0", " ")


def test_payer_pays_and_the_report_is_made(page, owed, client):
    report = owed()
    page.goto(link_of(report))
    sees(page, DUE)
    assert link_of(report).rsplit("/", 1)[1] not in page.url + page.content()

    page.get_by_role("button", name=BY_PAGE).click()
    sees(page, "Test checkout of KES 250.00")
    expect(page.get_by_text("TEST: play money")).to_be_visible()
    page.get_by_role("button", name="Pay", exact=True).click()
    expect_heading(page, PAID)

    wait_for(client, report, "READY")
    page.go_back()
    expect(page.get_by_text("This checkout is paid already.")).to_be_visible()
    page.go_back()
    sees(page, PAID)
    page.goto(link_of(report))
    sees(page, PAID)


def test_while_the_provider_is_asked_the_page_says_so(page, owed, service):
    page.goto(link_of(owed()))
    service.stop_jobs()
    try:
        pay(page)
        sees(page, ASKING)
        page.get_by_role("link", name="Check again").click()
        sees(page, ASKING)
    finally:
        service.start_jobs()

    expect_heading(page, PAID)


def test_payer_reads_kiswahili(page, owed):
    page.goto(link_of(owed(**THIRD_PARTY)))
    page.get_by_role("link", name="Kiswahili").click()
    sees(page, "Lipa KES 250.00")

    page.get_by_role("button", name="Lipa kwa njia nyingine").click()
    sees(page, "Malipo ya majaribio ya KES 250.00")
    page.get_by_role("button", name="Shindwa").click()
    expect_heading(page, "Malipo yalishindwa")
    page.get_by_role("button", name="Lipa kwa njia nyingine").click()
    page.get_by_role("button", name="Lipa", exact=True).click()
    expect_heading(page, "Umelipa KES 250.00")


def test_keyboard_is_enough(page, owed):
    page.goto(link_of(owed()))
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_in_viewport()
    page.keyboard.press("Enter")
    tab_to(page, "form[action$='/pay'] button")
    page.keyboard.press("Enter")
    sees(page, "Test checkout of KES 250.00")
    tab_to(page, "button[value=pay]")
    page.keyboard.press("Enter")
    expect_heading(page, PAID)
    tab_to(page, "a[href$='receipt.pdf']")
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert re.fullmatch(r"receipt-P-.*\.pdf", download.value.suggested_filename)


def test_no_page_needs_scripts(new_context, owed):
    page = new_context(java_script_enabled=False).new_page()
    page.goto(link_of(owed()))
    pay(page)

    def is_paid():
        is_asking = page.get_by_role("heading", level=1).inner_text() == ASKING
        if is_asking:
            page.get_by_role("link", name="Check again").click()
        return not is_asking

    until(is_paid)
    sees(page, PAID)


def test_two_links_in_two_tabs_do_not_mix(page, context, owed):
    another = context.new_page()
    page.goto(link_of(owed(purpose="Loan application")))
    another.goto(link_of(owed(purpose="Tenancy")))

    pay(page)

    expect_heading(page, PAID)
    another.reload()
    sees(another, DUE)
    expect(another.get_by_text("Tenancy")).to_be_visible()


@pytest.fixture
def top_up_link(service, client):
    with service.connect() as connection:
        found = connection.execute(
            "SELECT id FROM workspaces_account"
            " WHERE workspace_id = %s AND environment = 'sandbox'",
            [client.workspace],
        ).fetchone()
    token = links.token("top-up", found[0], 1)
    return f"{service.url}/t/{found[0]}/{token}"


def test_owner_tops_up(page, top_up_link):
    page.goto(top_up_link)
    sees(page, "Top up the balance of Acacia")
    page.get_by_label("Amount in KES").fill("lots")
    page.get_by_role("button", name="Go on and pay").click()
    assert page.title().startswith("Error: ")
    page.get_by_role("link", name="Enter the amount").click()
    expect(page.locator("#id_amount")).to_be_focused()

    page.get_by_label("Amount in KES").fill("5,000")
    page.get_by_role("button", name="Go on and pay").click()
    sees(page, "Test checkout of KES 5,000.00")
    page.get_by_role("button", name="Fail").click()
    expect_heading(page, "The payment failed")
    page.get_by_role("link", name="Try again").click()
    page.get_by_label("Amount in KES").fill("5,000")
    page.get_by_role("button", name="Go on and pay").click()
    page.get_by_role("button", name="Pay", exact=True).click()
    expect_heading(page, "You paid KES 5,000.00")
    expect(page.get_by_text("was added to the balance of Acacia")).to_be_visible()
