"""Payers with a phone pay, fail to pay, and come back."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import HOSTED_PAGE_BYTES, SCREENSHOTS, hosted_bytes
from tests.browser.people import reload_until
from tests.browser.test_consent import sees, tab_to, wait_for
from tests.world.clients import HOSTED, person
from tests.world.orders import PAYER
from tests.world.refunds import BY_SHELL
from tests.world.waiting import until
from verification import links

pytestmark = pytest.mark.slow

# A look at the provider, and then the next time that the page asks.
POLLED_MS = 15_000
ASKING = "We are asking whether you have paid"
PAID = "You paid KES 250.00"
DUE = "Pay KES 250.00"
BY_PAGE = "Pay another way"
LOOKS = "verification.payments.settlement.poll_due_checkouts"
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


def test_payer_pays_and_the_report_is_made(page, owed, look, client):
    report = owed()
    page.goto(link_of(report))
    sees(page, DUE)
    assert link_of(report).rsplit("/", 1)[1] not in page.url + page.content()
    look("payment-01-due")

    page.get_by_role("button", name=BY_PAGE).click()
    sees(page, "Test checkout of KES 250.00")
    expect(page.get_by_text("TEST: play money")).to_be_visible()
    look("payment-02-sandbox-checkout")
    page.get_by_role("button", name="Pay", exact=True).click()
    expect_heading(page, PAID)
    look("payment-03-paid")

    wait_for(client, report, "READY")
    page.go_back()
    expect(page.get_by_text("This checkout is paid already.")).to_be_visible()
    page.go_back()
    sees(page, PAID)
    page.goto(link_of(report))
    sees(page, PAID)


def test_while_the_provider_is_asked_the_page_says_so(page, owed, look, service):
    page.goto(link_of(owed()))
    service.stop_jobs()
    try:
        pay(page)
        sees(page, ASKING)
        look("payment-04-confirming")
        page.get_by_role("link", name="Check again").click()
        sees(page, ASKING)
    finally:
        service.start_jobs()

    expect_heading(page, PAID)


def test_payment_fails_and_is_tried_again(page, owed, look):
    page.goto(link_of(owed()))
    pay(page, "Fail")
    expect_heading(page, "The payment failed")
    look("payment-05-failed")

    pay(page)

    expect_heading(page, PAID)


def test_payer_who_left_the_checkout_can_still_pay(page, owed, look):
    page.goto(link_of(owed()))
    pay(page, "Cancel")
    reloaded(page, "You left without paying")
    look("payment-06-left")

    pay(page)

    expect_heading(page, PAID)


def test_payer_who_comes_back_unpaid_reads_so(page, owed, look):
    page.goto(link_of(owed()))
    home = page.url
    page.get_by_role("button", name=BY_PAGE).click()
    reference = page.url.rsplit("/", 1)[1]
    page.goto(home)
    expect(page.get_by_text("do not pay again")).to_be_visible()
    look("payment-07-began-earlier")

    page.get_by_role("link", name="Check whether it is paid").click()

    expect_heading(page, DUE)
    expect(page.get_by_text("Not paid yet.")).to_be_visible()
    assert reference in page.url
    look("payment-08-not-paid-yet")
    pay(page)
    expect_heading(page, PAID)


def test_second_payment_is_refunded(page, owed, look):
    page.goto(link_of(owed()))

    pay(page, "Pay twice")

    expect_heading(page, PAID)
    reloaded(page, "KES 250.00 was given back on")
    look("payment-09-paid-twice")


def closes_the_browser(route):
    """Pay at the provider without following the redirect back."""
    if route.request.method == "POST":
        route.fetch(max_redirects=0)
        # The page stays; a call that is cut off would lead to one about the error.
        route.fulfill(status=204)
    else:
        route.continue_()


def test_lost_event_is_recovered_after_the_payer_closes_the_browser(
    page, owed, service, client
):
    report = owed()
    page.goto(link_of(report))
    page.route("**/sandbox/checkout/*", closes_the_browser)
    pay(page, "Pay, but lose the event")
    page.goto("about:blank")
    assert client.status(report["id"]) == "PENDING_PAYMENT"

    with service.connect() as connection:
        # The minute until the first look is over.
        connection.execute(
            "UPDATE payments_checkout SET next_poll_at = now() WHERE report_id = %s",
            [report["id"]],
        )
        connection.execute(
            "UPDATE jobs_job SET due_at = now() WHERE function = %s", [LOOKS]
        )

    wait_for(client, report, "READY")
    page.goto(link_of(report))
    sees(page, PAID)


def test_return_of_the_payer_recovers_a_lost_event(page, owed):
    page.goto(link_of(owed()))

    pay(page, "Pay, but lose the event")

    expect_heading(page, PAID)


def test_payer_reads_kiswahili(page, owed, look):
    page.goto(link_of(owed(**THIRD_PARTY)))
    page.get_by_role("link", name="Kiswahili").click()
    sees(page, "Lipa KES 250.00")
    look("payment-11-sw-due")

    page.get_by_role("button", name="Lipa kwa njia nyingine").click()
    sees(page, "Malipo ya majaribio ya KES 250.00")
    look("payment-12-sw-sandbox-checkout")
    page.get_by_role("button", name="Shindwa").click()
    expect_heading(page, "Malipo yalishindwa")
    look("payment-13-sw-failed")
    page.get_by_role("button", name="Lipa kwa njia nyingine").click()
    page.get_by_role("button", name="Lipa", exact=True).click()
    expect_heading(page, "Umelipa KES 250.00")
    look("payment-14-sw-paid")


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


def test_money_that_was_given_back_is_shown(page, owed, look, service):
    report = owed()
    page.goto(link_of(report))
    pay(page)
    expect_heading(page, PAID)

    service.manage("shell", "-c", BY_SHELL.format(report=report["id"], amount=50))
    reloaded(page, "KES 50.00 was given back on")
    look("payment-15-given-back-in-part")
    service.manage("shell", "-c", BY_SHELL.format(report=report["id"], amount=200))
    reloaded(page, "Your money was given back")
    look("payment-16-given-back")


def test_links_that_take_no_money_say_why(
    page, owed, look, client, service, let_get_messages
):
    let_get_messages("w@subject.test")
    report = owed(consent=HOSTED)
    # It is in no message and in no answer before the subject has consented.
    assert link_of(report) is None
    with service.connect() as connection:
        payment = connection.execute(
            "SELECT id FROM payments_payment WHERE report_id = %s", [report["id"]]
        ).fetchone()
    page.goto(f"{service.url}/p/{links.token('payment', payment[0], 1)}")
    sees(page, "There is nothing to pay yet")
    look("payment-17-waits")

    report = owed(draft=True)
    page.goto(link_of(report))
    with service.connect() as connection:
        connection.execute(
            "UPDATE payments_payment SET expires_at = now() - interval '1 hour',"
            " link_made_at = now() - interval '14 days' WHERE report_id = %s",
            [report["id"]],
        )
    page.reload()
    sees(page, "This link has expired")
    look("payment-18-expired")
    page.get_by_role("button", name="Send me a new link").click()
    sees(page, "There is a newer link")
    look("payment-19-replaced")

    report = owed()
    page.goto(link_of(report))
    with service.connect() as connection:
        connection.execute(
            "UPDATE payments_payment SET expires_at = now() - interval '1 hour'"
            " WHERE report_id = %s",
            [report["id"]],
        )
    page.reload()
    look("payment-19-expired-request")
    page.get_by_role("button", name="Ask Acacia").click()
    expect(page.get_by_role("status")).to_contain_text("We have told Acacia")

    report = owed()
    page.goto(link_of(report))
    client.post(f"/reports/{report['id']}/cancel")
    page.reload()
    sees(page, "You need not pay any more")
    look("payment-20-ended")
    page.context.clear_cookies()
    page.reload()
    sees(page, "Please open your link again")
    look("payment-21-over")
    page.goto(f"{service.url}/p/0123456789")
    sees(page, "This link does not work")


def test_pages_are_legible_in_the_dark_on_paper_and_on_a_desk(page, owed, look):
    page.emulate_media(color_scheme="dark")
    page.goto(link_of(owed(**THIRD_PARTY)))
    look("payment-22-dark-due")
    page.get_by_role("button", name=BY_PAGE).click()
    look("payment-23-dark-sandbox-checkout")
    page.get_by_role("button", name="Pay", exact=True).click()
    expect_heading(page, PAID)
    look("payment-24-dark-paid")

    page.emulate_media(color_scheme="light", media="print")
    expect(page.get_by_role("link", name="Save the receipt")).to_be_hidden()
    look("payment-25-print-paid")
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.screenshot(path=SCREENSHOTS / "payment-26-desk-paid.png", full_page=True)


def test_heaviest_page_is_light(page, owed):
    page.goto(link_of(owed()))
    pay(page, "Pay twice")
    expect_heading(page, PAID)

    assert 5000 < hosted_bytes(page) < HOSTED_PAGE_BYTES


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


def test_owner_tops_up(page, top_up_link, look):
    page.goto(top_up_link)
    sees(page, "Top up the balance of Acacia")
    look("top-up-1-form")
    page.get_by_label("Amount in KES").fill("lots")
    page.get_by_role("button", name="Go on and pay").click()
    assert page.title().startswith("Error: ")
    look("top-up-2-error")
    page.get_by_role("link", name="Enter the amount").click()
    expect(page.locator("#id_amount")).to_be_focused()

    page.get_by_label("Amount in KES").fill("5,000")
    page.get_by_role("button", name="Go on and pay").click()
    sees(page, "Test checkout of KES 5,000.00")
    page.get_by_role("button", name="Fail").click()
    expect_heading(page, "The payment failed")
    look("top-up-3-failed")
    page.get_by_role("link", name="Try again").click()
    page.get_by_label("Amount in KES").fill("5,000")
    page.get_by_role("button", name="Go on and pay").click()
    page.get_by_role("button", name="Pay", exact=True).click()
    expect_heading(page, "You paid KES 5,000.00")
    expect(page.get_by_text("was added to the balance of Acacia")).to_be_visible()
    look("top-up-4-paid")


def test_payer_who_pays_too_much_gets_the_surplus_back(page, owed, look):
    page.goto(link_of(owed()))
    pay(page, "Pay too much")

    expect_heading(page, PAID)
    expect(
        page.get_by_text("You paid KES 1.00 more than was asked for")
    ).to_be_visible()
    reloaded(page, "KES 1.00 was given back on")
    look("payment-24-too-much")


def test_payer_who_pays_too_little_pays_the_rest(page, owed, look):
    page.goto(link_of(owed()))
    pay(page, "Pay too little")
    expect_heading(page, "KES 125.00 is missing")
    look("payment-25-too-little")

    page.get_by_role("button", name=BY_PAGE).click()
    sees(page, "Test checkout of KES 125.00")
    page.get_by_role("button", name="Pay", exact=True).click()

    expect_heading(page, PAID)
    look("payment-26-paid-in-parts")


def test_payer_who_pays_too_little_gets_it_back(page, owed, look):
    page.goto(link_of(owed()))
    pay(page, "Pay too little")
    expect_heading(page, "KES 125.00 is missing")

    page.get_by_role("button", name="Give me KES 125.00 back").click()

    sees(page, DUE)
    reloaded(page, "KES 125.00 was given back on")
    look("payment-27-given-back")
